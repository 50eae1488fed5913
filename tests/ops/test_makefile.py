"""The Makefile, and the hooks and the workflow that run the same checks."""

import os
import re
import subprocess

import yaml

from tests.processes import ROOT

AUDIT = ".venv/bin/python ops/audit.py"  # needs the network, so it is not a hook


def make(*words: str) -> list[str]:
    # Without the variables of a `make test` that runs this.
    env = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    done = subprocess.run(
        ["make", "--no-print-directory", *words],
        cwd=ROOT,
        env=env,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return done.stdout.splitlines()


def phony_targets() -> list[str]:
    (targets,) = re.findall(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    return targets.split()


def hooks() -> list[dict]:
    (repository,) = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    assert repository["repo"] == "local"
    return repository["hooks"]


def test_help_has_one_line_for_each_target():
    listed = [re.match(r"make (\S+) +\S", line) for line in make("help")]
    assert all(listed)
    assert sorted(match[1] for match in listed if match) == sorted(phony_targets())


def test_make_without_a_target_prints_the_help():
    assert make() == make("help")


def test_hooks_run_the_commands_of_make_lint():
    lint = make("--dry-run", "--old-file=.venv/.installed-dev", "lint")
    commands = [hook["entry"].removeprefix("env ") for hook in hooks()]
    assert commands == [line for line in lint if line != AUDIT]


def test_hooks_install_nothing():
    assert {hook["language"] for hook in hooks()} == {"system"}


def test_the_workflow_runs_the_checks_of_every_change():
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text())
    (job,) = workflow["jobs"].values()
    assert [step["run"] for step in job["steps"] if "run" in step] == [".ci/run"]
