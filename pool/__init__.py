"""The verbs: request, claim, assign, release, queue, capacity. A bot's life, in order:
request, lifecycle, controller (start, verdict, stop), drain.

No HTTP here: only pool.controller and pool.reconciler talk to Coolify.
"""
