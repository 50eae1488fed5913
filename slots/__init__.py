"""Slots and their deployments: models, statuses, moves, history, tokens.

Records only: no call to Coolify and no decision. Those are in pool.
"""
