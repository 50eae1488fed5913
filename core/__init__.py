"""Tools without domain knowledge: SQL, clock, locks, leases, logs, environment, jobs.

Imports no other package of this project. Code that knows a platform, a slot or a bot belongs in a
higher layer.
"""
