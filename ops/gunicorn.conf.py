"""How the web server runs: WEB_BIND, WEB_PROCESSES and WEB_THREADS may be set.

Each thread keeps a connection to PostgreSQL: processes × threads are this host's share of them.
"""

import os
import socket
import struct
from typing import Any

bind = os.environ.get("WEB_BIND", "0.0.0.0:8000")
workers = int(os.environ.get("WEB_PROCESSES", "2"))
worker_class = "gthread"
threads = int(os.environ.get("WEB_THREADS", "4"))

timeout = 30
graceful_timeout = 10
keepalive = 5
max_requests = 20_000  # whatever may leak is given back now and then
max_requests_jitter = 2_000

# Nothing that anybody sends us is longer, and a header costs memory before it is refused.
limit_request_line = 4094
limit_request_fields = 50
limit_request_field_size = 8190

control_socket_disable = True
loglevel = "warning"
forwarded_allow_ips = os.environ.get("FORWARDED_ALLOW_IPS", "127.0.0.1")
# None: a proxy passes SCRIPT_NAME on as its client sent it, who could so ask it for one path and
# us for another.
forwarder_headers = ""

SILENCE = int(os.environ.get("WEB_SILENCE_SECONDS", "10"))


def when_ready(server: Any) -> None:
    """A client that begins a request and falls silent gives its thread back.

    The limit is inherited by the connections that are accepted, and holds for headers and bodies.
    """
    for listener in server.LISTENERS:
        listener.sock.setsockopt(
            socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", SILENCE, 0)
        )
