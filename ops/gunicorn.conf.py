"""Configures the web server. WEB_BIND, WEB_PROCESSES and WEB_THREADS can be set.

Each thread keeps a connection to PostgreSQL, so this host uses processes × threads of them.
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
max_requests = 20_000  # limits the damage of a memory leak
max_requests_jitter = 2_000

# No client needs more, and a header costs memory before it can be refused.
limit_request_line = 4094
limit_request_fields = 50
limit_request_field_size = 8190

control_socket_disable = True
loglevel = "warning"
forwarded_allow_ips = os.environ.get("FORWARDED_ALLOW_IPS", "127.0.0.1")
# Trust none: a proxy passes on the client's SCRIPT_NAME, which could show the proxy one path and
# Botpool another.
forwarder_headers = ""

SILENCE = int(os.environ.get("WEB_SILENCE_SECONDS", "10"))


def when_ready(server: Any) -> None:
    """Free the thread of a client that starts a request and then falls silent.

    Accepted connections inherit the limit. It applies to headers and bodies.
    """
    for listener in server.LISTENERS:
        listener.sock.setsockopt(
            socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", SILENCE, 0)
        )
