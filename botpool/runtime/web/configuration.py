"""Configures gunicorn, under `manage.py up` and in the container alike.

Each thread keeps a connection to PostgreSQL, so this host uses processes × threads of them, however
many clients are connected.
"""

import gc
import os
import resource
from typing import Any

from botpool.runtime.web.limits import LONGEST_REQUEST_LINE, MOST_FIELDS
from core import environment

environment.load_file()
bind = os.environ.get("WEB_BIND", "0.0.0.0:8000")
workers = environment.number("WEB_PROCESSES", 2, low=1, high=64)
worker_class = "botpool.runtime.web.worker.PatientWorker"
threads = environment.number("WEB_THREADS", 4, low=1, high=64)

timeout = 30
graceful_timeout = environment.number("WEB_GRACEFUL_SECONDS", 10, low=1, high=600)
keepalive = 5
max_requests = 20_000  # limits the damage of a memory leak
max_requests_jitter = 2_000

# No client needs more, and a header costs memory before it can be refused.
limit_request_line = LONGEST_REQUEST_LINE
limit_request_fields = MOST_FIELDS
limit_request_field_size = 8190

sendfile = False  # answers go through the worker
control_socket_disable = True
loglevel = "warning"
forwarded_allow_ips = os.environ.get("FORWARDED_ALLOW_IPS", "127.0.0.1")
# Trust none: a proxy passes on the client's SCRIPT_NAME, which could show the proxy one path and
# Botpool another.
forwarder_headers = ""

# Each connection needs a file, and the usual limit allows only a thousand.
SPARE_FILES = 100
_, _most_files = resource.getrlimit(resource.RLIMIT_NOFILE)
_files = 65_536 if _most_files == resource.RLIM_INFINITY else min(_most_files, 65_536)
resource.setrlimit(resource.RLIMIT_NOFILE, (_files, _most_files))
_connections = environment.number("WEB_CONNECTIONS", 2_000, low=1, high=60_000)
worker_connections = min(_connections, _files - SPARE_FILES)

# Of requests and answers under way; a process has several times as much memory. Requests that
# threads work on cannot be given up, so those alone must not fill it.
_buffer = environment.number("WEB_BUFFER_MB", 64, low=1, high=10_000)
MOST_BYTES_HELD = 1_000_000 * max(_buffer, 2 * threads)


def post_worker_init(worker: Any) -> None:
    """Set aside what the program itself consists of. The garbage collector then looks through all
    else often, and a refused request's body of 1 MB is not kept for thousands of requests."""
    gc.collect()
    gc.freeze()
    gc.collect()
