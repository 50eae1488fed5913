"""A simulated Coolify for development and tests: a real HTTP server that behaves like Coolify.

    manage.py coolify_simulator --port 8089 --speed 20 --state simulator.json

In a test, use `with Simulator(Settings(speed=1000)) as coolify:` and `coolify.api_url`.
The simulator has one project (`simulated-project`) with one environment (`production`), one
server (`simulated-server`, or several) and, by default, one token (`1|botpool-simulator`).

`speed` divides Coolify's durations: a cold pull takes 7 minutes, a warm start 30 seconds, and a
status is up to a minute old. Timestamps and the rate limit's minute are not scaled.

Simulated bots run in the containers. They decode `BOT_DATA`, call Botpool's bot API, join, send
heartbeats, stay for a meeting and leave. The seed and the bot's id decide what a bot does, unless
its config does: `{"simulate": {"plan": "crash", "meetingSeconds": 60, "atSeconds": 20}}`
(see `bots/plans.py`).

You can switch faults on while it runs, with `SimulatorControl`, on its page or by hand:

    POST   /_simulator/faults             {"kind": "error", "path": "/start$", "times": 3}
    POST   /_simulator/scenes/NAME        slow-coolify, server-gone, stops-refused, …
    POST   /_simulator/actions/NAME       heal, restart-coolify, crash-container, …
    PATCH  /_simulator/settings           {"rate_limit": null, "longest_call": 0.5}
    GET    /_simulator/state|record|requests|faults|scenes

docs/simulator.md describes them all. `record` returns the history of every container and pull;
`record.py` has checks for it. The state file holds everything except the faults.
"""
