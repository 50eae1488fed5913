"""Tools that know nothing of bots and slots: SQL, clock, locks, leases, logs, environment, jobs.

Imports nothing of ours. Whatever needs to know a platform, a slot or a bot belongs further up.
"""
