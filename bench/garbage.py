"""`python -m bench.garbage PORT KEY`: 50 refused requests of 1 MB a second, until stdin closes.

A process of its own, so that it does not slow the client that is measured. Prints how many it sent.
"""

import json
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import requests

RATE = 50
SENDERS = 8
MEETING = "https://meet.google.com/abc-defg-hij"
BODY = json.dumps({"meetingUrl": MEETING, "config": {"x": "y" * 990_000}}).encode()


def main(port: str, key: str) -> None:
    over = threading.Event()
    with ThreadPoolExecutor(SENDERS) as senders:
        counts = [senders.submit(_send, port, key, over) for _ in range(SENDERS)]
        sys.stdin.read()
        over.set()
    print(sum(count.result() for count in counts))


def _send(port: str, key: str, over: threading.Event) -> int:
    """Keep the pace as far as the server does."""
    sent, begin = 0, time.monotonic()
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    with requests.Session() as session:
        while not over.wait(max(0.0, begin + sent * SENDERS / RATE - time.monotonic())):
            url = f"http://127.0.0.1:{port}/api/v1/bots"
            try:
                answer = session.post(url, BODY, headers=headers, timeout=60)
            except requests.ConnectionError:
                continue  # the web process was replaced, as after every 20,000 requests
            assert answer.status_code == 422, answer.status_code
            sent += 1
    return sent


if __name__ == "__main__":
    main(*sys.argv[1:])
