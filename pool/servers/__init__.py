"""Servers in the pool: their states, operators' orders, and slots that move between them.

No calls to Coolify: pool.controller makes them.
"""
