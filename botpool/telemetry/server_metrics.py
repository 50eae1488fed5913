"""The current state of the servers and of the images on them."""

from collections import Counter
from collections.abc import Iterator

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric

from pool.images.overview import ImageState, image_overviews
from pool.servers.overview import server_overviews
from servers.health import ServerState
from slots.images import Prepull, PrepullStatus
from slots.status import SlotStatus


def server_metrics(prefix: str) -> Iterator[Metric]:
    state = GaugeMetricFamily(
        f"{prefix}server_state", "1 for the state that a server is in.", labels=["server", "state"]
    )
    slots = GaugeMetricFamily(
        f"{prefix}server_slots", "Slots on a server by status.", labels=["server", "status"]
    )
    images = GaugeMetricFamily(
        f"{prefix}server_images",
        "Images that are warm, doubted or cold on a server.",
        labels=["server", "state"],
    )
    for each in server_overviews():
        name = str(each.server)
        known = Counter(image.state for image in each.images)
        for value in ServerState.values:
            state.add_metric([name, value], float(each.server.state == value))
        for value in SlotStatus.values:
            slots.add_metric([name, value], each.slots[value])
        for value in ("warm", "doubted", "cold"):
            images.add_metric([name, value], known[value])
    return iter([state, slots, images, *image_metrics(prefix)])


def image_metrics(prefix: str) -> Iterator[Metric]:
    state = GaugeMetricFamily(
        f"{prefix}image_state",
        "1 for the state of a platform's image: settled, switching, pull_failed or restored.",
        labels=["platform", "state"],
    )
    for each in image_overviews():
        for value in ImageState.values:
            state.add_metric([each.row.platform, value], float(each.state == value))
    prepulls = GaugeMetricFamily(
        f"{prefix}prepulls", "Pre-pulls of images on record, by status.", labels=["status"]
    )
    known = Counter(Prepull.objects.values_list("status", flat=True))
    for value in PrepullStatus.values:
        prepulls.add_metric([value], known[value])
    return iter([state, prepulls])
