"""The simulator's page: its applications, deployments and servers."""

from html import escape

from coolify.simulator.clock import timestamp
from coolify.simulator.messages import HTML, Answer
from coolify.simulator.world.world import World

DEPLOYMENTS_SHOWN = 30
STYLE = """
:root { color-scheme: light dark; }
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 75rem; padding: 0 1rem; }
table { border-collapse: collapse; width: 100%; margin-bottom: 2rem; }
th, td { text-align: left; padding: .3rem .6rem; vertical-align: top;
         border-bottom: 1px solid color-mix(in srgb, currentColor 20%, transparent); }
div { overflow-x: auto; }
.note { opacity: .7; }
.running, .finished, .yes { color: light-dark(#0a6b2d, #6fdc94); }
.exited, .queued { opacity: .75; }
.restarting, .degraded, .failed, .no { color: light-dark(#a8201a, #ff8f87); }
"""


def overview(world: World) -> Answer:
    sections = [applications(world), deployments(world), servers(world)]
    page = f"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>Coolify simulator</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="refresh" content="3"><style>{STYLE}</style></head>
<body><h1>Coolify simulator</h1>
<p class="note">Version {escape(world.settings.version)}, {world.clock.speed:g} times as fast as
Coolify. {len(world.containers)} containers. As in Coolify, a status may be out of date.</p>
{"".join(sections)}</body></html>"""
    return Answer(200, page, HTML)


def applications(world: World) -> str:
    rows = sorted(world.applications.values(), key=lambda each: each.name)
    return table(
        "Applications",
        ("Name", "Status", "Description", "Image", "Restarts", "Server"),
        [
            (
                each.name,
                coloured(each.status),
                each.description,
                each.image,
                each.restart_count,
                world.server_of(each).name,
            )
            for each in rows
        ],
    )


def deployments(world: World) -> str:
    rows = list(world.deployments.values())[: -DEPLOYMENTS_SHOWN - 1 : -1]
    return table(
        "Latest deployments",
        ("Application", "Status", "Server", "Created", "Finished"),
        [
            (
                each.application_name,
                coloured(each.status),
                each.server_name,
                short_time(each.created_at),
                short_time(each.finished_at),
            )
            for each in rows
        ],
    )


def servers(world: World) -> str:
    return table(
        "Servers",
        ("Name", "Reachable", "Build places", "Cached images"),
        [
            (
                each.name,
                coloured("yes" if each.reachable else "no"),
                each.concurrent_builds,
                ", ".join(each.cached_images),
            )
            for each in world.servers.values()
        ],
    )


class Markup(str):
    """Text that is already HTML and needs no escaping."""


def coloured(status: str) -> Markup:
    return Markup(f'<span class="{escape(status.partition(":")[0])}">{escape(status)}</span>')


def short_time(moment: float | None) -> str:
    text = timestamp(moment)
    return text[11:19] if text else ""


def table(title: str, heads: tuple[str, ...], rows: list[tuple[object, ...]]) -> str:
    if not rows:
        return f"<h2>{escape(title)}</h2><p class='note'>None yet.</p>"
    head = "".join(f"<th scope='col'>{escape(each)}</th>" for each in heads)
    body = "".join(f"<tr>{''.join(cell(value) for value in row)}</tr>" for row in rows)
    return (
        f"<h2>{escape(title)}</h2><div><table><thead><tr>{head}</tr></thead>"
        f"<tbody>{body}</tbody></table></div>"
    )


def cell(value: object) -> str:
    shown = value if isinstance(value, Markup) else escape("" if value is None else str(value))
    return f"<td>{shown}</td>"
