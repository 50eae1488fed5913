"""The verbs: request, claim, assign, release, queue, capacity. A bot's story, in order:
request, lifecycle, controller (start, verdict, stop), drain.

No HTTP here: only pool.controller and pool.reconciler talk to Coolify.
"""
