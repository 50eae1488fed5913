"""Coolify's servers: their records, the verdict on their health, and the choice among them.

No slots and no calls to Coolify in here: pool gathers the facts and acts on the verdicts.
"""
