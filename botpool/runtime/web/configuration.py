"""Configures gunicorn, under `manage.py up` and in the container alike.

WEB_BIND, WEB_PROCESSES, WEB_THREADS, WEB_CONNECTIONS and WEB_REQUEST_SECONDS can be set. Each
thread keeps a connection to PostgreSQL, so this host uses processes × threads of them, however many
clients are connected.
"""

import os
import resource

from core import environment

environment.load_file()
bind = os.environ.get("WEB_BIND", "0.0.0.0:8000")
workers = int(os.environ.get("WEB_PROCESSES", "2"))
worker_class = "botpool.runtime.web.worker.PatientWorker"
threads = int(os.environ.get("WEB_THREADS", "4"))

timeout = 30
graceful_timeout = int(os.environ.get("WEB_GRACEFUL_SECONDS", "10"))
keepalive = 5
max_requests = 20_000  # limits the damage of a memory leak
max_requests_jitter = 2_000

# No client needs more, and a header costs memory before it can be refused.
limit_request_line = 4094
limit_request_fields = 50
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
worker_connections = min(int(os.environ.get("WEB_CONNECTIONS", "2000")), _files - SPARE_FILES)
