"""The audit of dependencies, with a fake service that knows one vulnerability."""

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from tests.processes import ROOT

ADVISORY = {
    "id": "GHSA-test-test-test",
    "summary": "It is bad",
    "published": "2026-01-01T00:00:00Z",
    "modified": "2026-01-01T00:00:00Z",
    "affected": [
        {
            "package": {"name": "six", "ecosystem": "PyPI"},
            "ranges": [{"type": "ECOSYSTEM", "events": [{"introduced": "0"}, {"fixed": "1.17.0"}]}],
        }
    ],
}


class Service(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        bad = (asked["package"]["name"], asked["version"]) == ("six", "1.16.0")
        body = json.dumps({"vulns": [ADVISORY]} if bad else {}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def service() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), Service) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


def audit(file: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "ops" / "audit.py"), str(file), *words]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def requirements(directory: Path, line: str) -> Path:
    file = directory / "requirements.txt"
    file.write_text(f"{line} --hash=sha256:{'0' * 64}\n")
    return file


def test_a_known_vulnerability_fails_and_is_named(tmp_path, service):
    done = audit(requirements(tmp_path, "six==1.16.0"), "--osv-url", service)
    assert done.returncode == 1
    assert "six 1.16.0: GHSA-test-test-test, fixed in 1.17.0" in done.stdout


def test_it_passes_without_vulnerabilities(tmp_path, service):
    done = audit(requirements(tmp_path, "six==1.17.0"), "--osv-url", service)
    assert (done.returncode, done.stdout) == (0, "audit: 1 of 1 packages checked, 0 vulnerable\n")


def test_an_unreachable_service_is_an_error_only_with_strict(tmp_path):
    file, nowhere = requirements(tmp_path, "six==1.16.0"), ("--osv-url", "http://127.0.0.1:9/")
    done = audit(file, *nowhere)
    assert (done.returncode, "nothing was checked" in done.stdout) == (0, True)
    assert audit(file, *nowhere, "--strict").returncode == 1
