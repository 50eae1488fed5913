"""The alerts and the dashboard use metrics, labels and values that exist."""

import json
import math
import re
from datetime import timedelta
from pathlib import Path

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from botpool.schedule import WORKS
from botpool.telemetry.counters import count_history
from coolify.client.calls import CallClass
from coolify.models import CallCount
from slots.finding import Finding, FindingKind
from slots.models import Lease, PlatformImage, SlotTransition
from tests.factories import SlotFactory
from tests.ops.history import a_deployment, an_ended_bot, time_passes

pytestmark = pytest.mark.django_db

OPS = Path(__file__).parents[2] / "ops"
SELECTOR = re.compile(r"(botpool_[a-z_]+)(?:\{([^}]*)\})?")
MATCHER = re.compile(r'([a-z_]+)\s*(=~|=)\s*"([^"]*)"')

# Values that appear in the metrics only after an event.
KNOWN_VALUES = {
    "status": {"idle", "busy", "error", "deploying", "stopping"},
    "work": {work.name for work in WORKS},
    "class": set(CallClass),
    "kind": set(FindingKind.values),
    "outcome": {"granted", "refused", "failed", "repaired", "passed"},
    "result": {"finished", "failed", "timed_out", "cancelled"},
    "failure": {"infrastructure", "meeting", ""},
    "image": {"warm", "waited", "pulled"},
}


def group_of_alerts() -> dict:
    (group,) = yaml.safe_load((OPS / "alerts.yml").read_text())["groups"]
    return group


def alerts() -> list[dict]:
    return group_of_alerts()["rules"]


def dashboard() -> dict:
    return json.loads((OPS / "grafana-dashboard.json").read_text())


def expressions() -> list[str]:
    panels = [panel for panel in dashboard()["panels"] if panel["type"] != "row"]
    asked = [target["expr"] for panel in panels for target in panel["targets"]]
    return [rule["expr"] for rule in alerts()] + asked


@pytest.fixture
def samples(client) -> dict[str, set[str]]:
    """The labels of every possible sample."""
    bot = an_ended_bot(waited=1, started=1)
    a_deployment(bot=bot, slot=SlotFactory())
    earlier = bot.ended_at - timedelta(minutes=1)
    Finding.objects.create(kind=FindingKind.TOO_MANY, subject="x", reason="x", ended_at=earlier)
    SlotTransition.objects.create(slot_id=1, at=earlier, to_status="idle", reason="x", epoch=0)
    Lease.objects.create(key="slot:1")
    PlatformImage.objects.create(platform="zoom", image="a", named="a", named_at=earlier)
    CallCount.objects.create(call_class="urgent", name="start", outcome="granted", total=1)
    for work in WORKS:
        Lease.objects.create(key=work.name, finished_at=bot.ended_at)
    time_passes()
    count_history()
    found: dict[str, set[str]] = {}
    for family in text_string_to_metric_families(client.get("/metrics").content.decode()):
        for sample in family.samples:
            found.setdefault(sample.name, set()).update(sample.labels)
    return found


def test_they_use_metrics_and_labels_that_exist(samples):
    asked = [match for expr in expressions() for match in SELECTOR.finditer(expr)]
    assert len(asked) > 40
    for match in asked:
        assert match[1] in samples, match[1]
        for label, _, _ in MATCHER.findall(match[2] or ""):
            assert label in samples[match[1]], match[0]


def test_they_group_by_labels_that_exist(samples):
    for expr in expressions():
        metrics = [match[1] for match in SELECTOR.finditer(expr)]
        for labels in re.findall(r"by \(([^)]*)\)", expr):
            for label in re.split(r",\s*", labels):
                assert any(label in samples[metric] for metric in metrics), (label, expr)


def test_they_use_label_values_that_exist():
    for expr in expressions():
        for label, _, values in MATCHER.findall(expr):
            for value in values.split("|"):
                assert value == "$platform" or value in KNOWN_VALUES[label], (label, value)


def test_every_alert_has_a_summary_and_a_severity():
    for rule in alerts():
        assert rule["labels"]["severity"] in {"page", "warn"}
        assert rule["annotations"]["summary"]
    assert len({rule["alert"] for rule in alerts()}) == len(alerts())


def test_the_queue_alert_fires_before_bots_time_out(settings):
    (rule,) = [rule for rule in alerts() if rule["alert"] == "BotpoolQueueOld"]
    threshold = float(rule["expr"].rpartition(">")[2])
    scrape, evaluation = 15, int(group_of_alerts()["interval"].removesuffix("s"))
    # Prometheus checks only at evaluations whether the condition has lasted.
    lasting = math.ceil(float(rule["for"].removesuffix("s")) / evaluation) * evaluation
    fires_after = threshold + scrape + evaluation + lasting
    assert fires_after < settings.DEFAULT_QUEUE_TIMEOUT.total_seconds()


def test_the_documentation_quotes_the_help_texts(client):
    text = (OPS.parent / "docs" / "metrics.md").read_text()
    described = dict(re.findall(r"^\| `(botpool_[a-z_]+)` \|[^|]*\| (.*) \|$", text, re.MULTILINE))
    for family in text_string_to_metric_families(client.get("/metrics").content.decode()):
        name = family.name + ("_total" if family.type == "counter" else "")
        assert described[name].startswith(family.documentation), name


def test_every_metric_is_documented(samples):
    text = (OPS.parent / "docs" / "metrics.md").read_text()
    documented = set(re.findall(r"`(botpool_[a-z_]+)`", text))
    families = {re.sub(r"_(bucket|sum|count|created)$", "", name) for name in samples}
    assert {name for name in families if not name.endswith("_created")} == documented


def test_panels_fit_the_grid_and_have_unique_ids():
    panels = dashboard()["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    for panel in panels:
        assert panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24
