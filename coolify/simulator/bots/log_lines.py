"""What a simulated bot writes to its log: enough to find out why it ended, and one secret."""

from coolify.simulator.world.rows import Container

STEPS = {
    "FETCH": "configuration read",
    "JOINING_CALL": "opening the meeting, camera and microphone off",
    "IN_WAITING_ROOM": "in the waiting room, asked the host to be let in",
    "IN_CALL": "admitted, recording 1280x720 at 30 fps, opus 48 kHz",
    "LEAVING": "leaving the meeting, uploading the recording",
    "DONE": "recording uploaded",
    "fail": "the host declined the request to join",
}

CRASH = """\
[ERROR:gpu_process_host.cc(993)] GPU process exited unexpectedly: exit_code=139
Received signal 11 SEGV_MAPERR 0000000008a0
#0 0x55d0c1a2f7e2 base::debug::CollectStackTrace()
#1 0x55d0c1a1b4d3 media::VideoFrame::WrapExternalData()
Traceback (most recent call last):
  File "/app/bot/call.py", line 214, in record
    frame = await self.page.screenshot(type="jpeg")
  File "/app/bot/page.py", line 88, in screenshot
    return await self._channel.send("screenshot", options)
TargetClosedError: Target page, context or browser has been closed
Segmentation fault (core dumped)"""

TROUBLES = {
    "crash": CRASH,
    "exit": "the last participant left, leaving early\nexiting with 0",
    "silent": "getaddrinfo EAI_AGAIN: heartbeats paused, retrying for ever",
    "hang": "page.close() did not return, still waiting",
    "UNREADABLE": "BOT_DATA missing or unreadable, exiting with 1",
}


def boot_lines(container: Container) -> list[str]:
    lines = [
        f"meeting-bot 2.4.1 starting as bot {container.bot_id}",
        "chromium 126.0.6478.126 on display :99, 1280x720",
    ]
    if container.token:
        lines.append(f"DEBUG GET {container.api_url} authorization: Bearer {container.token}")
    return lines


def heartbeat_line(container: Container, *, status: int | None) -> str:
    size = 640 + 7 * (container.id % 40)
    return f"heartbeat {status or 'not sent'}, cpu 41 %, rss {size} MB, 0 frames dropped"
