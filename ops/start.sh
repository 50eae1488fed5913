#!/bin/sh
# Starts one part of Botpool: the image, compose.yaml and the tests all go through here.
set -eu
cd "$(dirname "$0")/.."
python=${PYTHON:-python}

# LISTEN needs a session of its own, and migrations set things for theirs: where DATABASE_URL
# leads to PgBouncer, DIRECT_DATABASE_URL leads past it.
directly() {
    if [ -n "${DIRECT_DATABASE_URL:-}" ]; then
        DATABASE_URL=$DIRECT_DATABASE_URL
        export DATABASE_URL
    fi
}

part=${1:-}
[ $# -gt 0 ] && shift
case "$part" in
web) exec "$python" -m gunicorn --config ops/gunicorn.conf.py botpool.wsgi:application ;;
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
