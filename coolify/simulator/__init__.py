"""A Coolify to develop and test against: a real HTTP server with Coolify's real behaviour.

    manage.py coolify_simulator --port 8089 --speed 20 --state simulator.json

or, inside a test, `with Simulator(Settings(speed=1000)) as coolify:` and `coolify.api_url`.
It has one project (`simulated-project`) with one environment (`production`), one server
(`simulated-server`) and, unless others are given, one token (`1|botpool-simulator`).

Coolify's durations are divided by `speed`: a cold pull takes 7 minutes, a warm start 30 seconds,
a status may be a minute old. Timestamps and the minute of the rate limit are real.

In its containers run simulated bots. They decode `BOT_DATA`, call Botpool's API for bots, join,
send heartbeats, stay for a meeting and leave. What one does comes from the seed and its id, or
from its config: `{"simulate": {"plan": "crash", "meetingSeconds": 60, "atSeconds": 20}}`
(see `plans.py`).

What goes wrong is switched on while it runs, with `SimulatorControl` or by hand:

    POST   /_simulator/faults             {"kind": "error", "path": "/start$", "times": 3}
    DELETE /_simulator/faults[?id=1]
    POST   /_simulator/actions/NAME       restart-coolify, crash-container, delete-application, …
    PATCH  /_simulator/settings           {"rate_limit": null, "deployments_as_object": true}
    GET    /_simulator/state|record|requests|faults

`record` tells what happened to every container and every pull; `record.py` draws conclusions
from it. The state file holds everything but the faults.
"""
