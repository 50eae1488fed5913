"""Checks Botpool's dependencies for known vulnerabilities: `make lint` fails if there is one.

If the vulnerability service cannot be reached, nothing is checked: an error only with --strict.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
FILES = ("requirements.txt", "requirements-dev.txt")
TIMEOUT = 10  # seconds for one answer
LONGEST = 240

# Advisories that do not affect us, each with the reason. None at present.
IGNORED: dict[str, str] = {}


def main() -> int:
    parser = argparse.ArgumentParser(prog="audit.py", description=__doc__)
    parser.add_argument("files", nargs="*", type=Path, default=[ROOT / name for name in FILES])
    parser.add_argument("--strict", action="store_true", help="fail if a check is impossible")
    parser.add_argument("--osv-url", help="use this service instead of PyPI's")
    options = parser.parse_args()
    dependencies = _audit(options.files, osv_url=options.osv_url)
    checked = [each for each in dependencies if "skip_reason" not in each]
    vulnerable = [each for each in checked if each["vulns"]]
    for each in vulnerable:
        for found in each["vulns"]:
            fixed = ", ".join(found["fix_versions"]) or "no version yet"
            print(f"audit: {each['name']} {each['version']}: {found['id']}, fixed in {fixed}")
    if not checked:
        print("audit: nothing was checked, the vulnerability service cannot be reached from here")
    else:
        counts = f"{len(checked)} of {len(dependencies)} packages checked"
        print(f"audit: {counts}, {len(vulnerable)} vulnerable")
    unchecked = len(checked) < len(dependencies) or not checked
    return 1 if vulnerable or (options.strict and unchecked) else 0


def _audit(files: list[Path], *, osv_url: str | None) -> list[dict[str, Any]]:
    words = [word for file in files for word in ("-r", str(file))]
    words += ["--disable-pip", "--require-hashes", "--format", "json", "--progress-spinner", "off"]
    words += ["--timeout", str(TIMEOUT)]
    words += [word for advisory in IGNORED for word in ("--ignore-vuln", advisory)]
    if osv_url:
        words += ["--vulnerability-service", "osv", "--osv-url", osv_url]
    try:
        done = subprocess.run(
            [sys.executable, "-m", "pip_audit", *words],
            capture_output=True,
            text=True,
            check=False,
            timeout=LONGEST,
        )
        found: list[dict[str, Any]] = json.loads(done.stdout)["dependencies"]
    except (subprocess.TimeoutExpired, ValueError):
        return []  # pip-audit prints no JSON if the service does not answer
    return found


if __name__ == "__main__":
    sys.exit(main())
