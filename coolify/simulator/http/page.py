"""The simulator's page: buttons for trouble, and its applications, deployments and servers."""

from html import escape
from itertools import starmap
from typing import Any

from coolify.simulator.clock import timestamp
from coolify.simulator.messages import HTML, Answer
from coolify.simulator.world.world import World

DEPLOYMENTS_SHOWN = 30
# What happens once: the title, what it does, and its path.
ONCE = (
    (
        "Restart Coolify",
        "All queued and running deployments fail. Their bots are placed again.",
        "actions/restart-coolify",
    ),
    (
        "Crash a container",
        "The container that has been running for longest crashes, and Docker starts it again.",
        "actions/crash-any",
    ),
    (
        "Clean up images",
        "The nightly clean-up: images that no application keeps must be pulled again.",
        "actions/clean-up",
    ),
)
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
.scenes { display: grid; gap: .8rem; margin-bottom: 2rem; padding: 0;
          grid-template-columns: repeat(auto-fill, minmax(15rem, 1fr)); list-style: none; }
.scenes li { display: flex; flex-direction: column; gap: .4rem; padding: .8rem 1rem;
             border: 1px solid color-mix(in srgb, currentColor 25%, transparent);
             border-radius: .5rem; }
.scenes li.on { border-color: light-dark(#a8201a, #ff8f87); border-width: 2px; }
.scenes p { margin: 0; flex: 1; font-size: .9rem; }
button { font: inherit; padding: .25rem .9rem; border-radius: .4rem; cursor: pointer;
         border: 1px solid color-mix(in srgb, currentColor 40%, transparent);
         background: color-mix(in srgb, currentColor 8%, transparent); color: inherit; }
.on button { border-color: light-dark(#0a6b2d, #6fdc94); }
form { display: inline; }
"""


def overview(world: World, *, scenes: list[dict[str, Any]]) -> Answer:
    sections = [trouble(scenes), applications(world), deployments(world), servers(world)]
    page = f"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>Coolify simulator</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="refresh" content="3"><style>{STYLE}</style></head>
<body><h1>Coolify simulator</h1>
<p class="note">Version {escape(world.settings.version)}, {world.clock.speed:g} times as fast as
Coolify. {len(world.containers)} containers. As in Coolify, a status may be out of date.</p>
{"".join(sections)}</body></html>"""
    return Answer(200, page, HTML)


def trouble(scenes: list[dict[str, Any]]) -> str:
    cards = [*map(scene_card, scenes), *starmap(once_card, ONCE)]
    return f"""<h2>Trouble</h2>
<p>Switch something on and watch how Botpool copes. {button("Heal everything", "actions/heal")}</p>
<ul class="scenes">{"".join(cards)}</ul>"""


def scene_card(scene: dict[str, Any]) -> str:
    label = "Switch off" if scene["on"] else "Switch on"
    path = f"scenes/{scene['name']}?on={str(not scene['on']).lower()}"
    css = "on" if scene["on"] else "off"
    return card(scene["title"], scene["sentence"], label=label, path=path, css=css)


def once_card(title: str, sentence: str, path: str) -> str:
    return card(title, sentence, label="Do it once", path=path, css="once")


def card(title: str, sentence: str, *, label: str, path: str, css: str) -> str:
    form = button(label, path, about=title)
    return (
        f"<li class='{css}'><strong>{escape(title)}</strong>"
        f"<p>{escape(sentence)}</p><div>{form}</div></li>"
    )


def button(label: str, path: str, *, about: str = "") -> str:
    spoken = f"{label}: {about}" if about else label
    return (
        f'<form method="post" action="/_simulator/{path}">'
        f'<button aria-label="{escape(spoken)}">{escape(label)}</button></form>'
    )


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
        ("Name", "Reachable", "Build places", "Containers", "Cached images"),
        [
            (
                each.name,
                coloured("yes" if each.reachable else "no"),
                each.concurrent_builds,
                sum(c.server_uuid == each.uuid for c in world.containers.values()),
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
