"""Metrics for Prometheus, read from PostgreSQL: every process gives the same answer."""

import hmac
from collections.abc import Iterable

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_safe
from prometheus_client.core import CollectorRegistry, GaugeMetricFamily
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from botpool.telemetry.counter_metrics import counter_metrics
from botpool.telemetry.pool_metrics import pool_metrics
from botpool.telemetry.process_metrics import machinery_metrics
from botpool.telemetry.server_metrics import server_metrics

PREFIX = "botpool_"


class BotpoolCollector(Collector):
    """A fixed number of queries, whatever the size of the pool and its history."""

    def collect(self) -> Iterable[Metric]:
        yield GaugeMetricFamily(f"{PREFIX}up", "1 if the metrics could be read.", 1)
        yield from pool_metrics(PREFIX)
        yield from server_metrics(PREFIX)
        yield from machinery_metrics(PREFIX)
        yield from counter_metrics(PREFIX)


@csrf_exempt  # a POST gets 405
@require_safe
@never_cache
def metrics(request: HttpRequest) -> HttpResponse:
    if settings.METRICS_TOKEN and not _has_token(request):
        return HttpResponse(
            "Send METRICS_TOKEN as a Bearer token.\n",
            status=401,
            content_type="text/plain",
            headers={"WWW-Authenticate": "Bearer"},
        )
    registry = CollectorRegistry()
    registry.register(BotpoolCollector())
    encode, content_type = choose_encoder(request.headers.get("Accept", ""))
    return HttpResponse(encode(registry), content_type=content_type)


def _has_token(request: HttpRequest) -> bool:
    given = request.headers.get("Authorization", "").encode()
    return hmac.compare_digest(given, f"Bearer {settings.METRICS_TOKEN}".encode())
