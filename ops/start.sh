#!/bin/sh
# Starts one process of Botpool. The image, compose.yaml and the tests all use this script.
set -eu
cd "$(dirname "$0")/.."
python=${PYTHON:-python}

# LISTEN and migrations need a session of their own. If DATABASE_URL points to PgBouncer, set
# DIRECT_DATABASE_URL to PostgreSQL itself.
directly() {
    if [ -n "${DIRECT_DATABASE_URL:-}" ]; then
        DATABASE_URL=$DIRECT_DATABASE_URL
        export DATABASE_URL
    fi
}

process=${1:-}
[ $# -gt 0 ] && shift
case "$process" in
web) exec "$python" -m gunicorn --config python:botpool.runtime.web.configuration botpool.wsgi:application ;;
worker) exec "$python" manage.py worker ;;
ticker)
    directly
    exec "$python" manage.py ticker
    ;;
migrate)
    directly
    exec "$python" manage.py migrate --no-input
    ;;
manage) exec "$python" manage.py "$@" ;;
healthy) exec "$python" ops/healthy.py "$@" ;;
*)
    echo "usage: $0 web | worker | ticker | migrate | manage COMMAND … | healthy web|worker|ticker" >&2
    exit 64
    ;;
esac
