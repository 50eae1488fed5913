"""`python -m tests.chaos.mutations`: remove each safeguard in turn; a test must fail.

A safeguard is removed from a copy of the source: the product has no switch for it. The scenarios
are tests of the suite, and pass on the unchanged source.

With `--chaos`, a run of the chaos must find a violation instead, with one of CHAOS_SEEDS. Only
safeguards without a second one behind them are tried this way.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tests.processes import ROOT

COPIED = (
    "api", "botpool", "bots", "coolify", "core", "dashboard", "pool", "queues", "slots",
    "static", "templates", "tests",
)  # fmt: skip
FILES = ("manage.py", "pyproject.toml")
TESTS_FAILED = 1  # pytest's exit code; any other error means that the tests did not run
PATIENCE = 280
CHAOS_SEEDS = range(1, 9)
CHAOS_MINUTES = 5


@dataclass(frozen=True)
class Edit:
    file: str
    old: str
    new: str


@dataclass(frozen=True)
class Mutation:
    safeguard: str
    edits: tuple[Edit, ...]
    scenarios: tuple[str, ...]
    chaos_notices: bool = False


def _one(
    safeguard: str, file: str, old: str, new: str, *scenarios: str, chaos_notices: bool = False
) -> Mutation:
    return Mutation(safeguard, (Edit(file, old, new),), scenarios, chaos_notices)


_LATE_RELEASE = (
    "tests/pool/test_lifecycle.py::test_a_late_release_does_not_take_the_slot_from_its_next_bot"
)
_PULLED_ONCE = (
    "tests/pool/controller/test_start.py::"
    "test_twelve_bots_at_once_on_an_empty_pool_pull_the_image_once"
)
_CONTAINERS = "tests/pool/reconciler/test_container_checks.py"
_LEASES = "tests/core/test_leases.py"

MUTATIONS = (
    _one(
        "epoch check of a slot's moves",
        "slots/moves.py",
        "WHERE id = %(slot)s AND epoch = %(epoch)s AND status",
        "WHERE id = %(slot)s AND status",
        _LATE_RELEASE,
        chaos_notices=True,
    ),
    _one(
        "epoch check of a bot's heartbeat",
        "pool/reports.py",
        "AND slots_slot.epoch = %(epoch)s AND",
        "AND",
        "tests/api/test_former_containers.py::"
        "test_a_bot_placed_again_in_the_same_slot_does_not_hear_its_former_container",
    ),
    _one(
        "advisory lock of a growing pool",
        "pool/claim.py",
        "    return fetch_one(_LOCK_IF_ROOM, {**opening_parameters(platform), **lock}) is not None",
        "    return lock is not None",
        "tests/pool/test_races.py::test_fifty_acquirers_on_an_empty_pool_of_twenty_make_slots_1_to_20_and_30_refusals",
        chaos_notices=True,
    ),
    _one(
        "row lock of an idle slot",
        "pool/claim.py",
        "    FOR UPDATE SKIP LOCKED\n",
        "",
        "tests/pool/test_races.py::test_parallel_acquirers_never_share_an_idle_slot",
    ),
    _one(
        "constraint: one puller per image and server",
        "slots/migrations/0004_deployments_and_leases.py",
        "models.UniqueConstraint(condition=models.Q(('pulling', True)), "
        "fields=('image', 'server_uuid'), name='one_puller_per_image_and_server'), ",
        "",
        "tests/slots/test_constraints.py",
        chaos_notices=True,
    ),
    Mutation(
        "one leader for a cold image",
        (
            Edit(
                "slots/migrations/0004_deployments_and_leases.py",
                "models.UniqueConstraint(condition=models.Q(('pulling', True)), "
                "fields=('image', 'server_uuid'), name='one_puller_per_image_and_server'), ",
                "",
            ),
            Edit("pool/controller/images.py", "        .filter(~_is_pulled(), ~_is_warm())\n", ""),
            Edit("pool/controller/images.py", '        .distinct("image", "server_uuid")\n', ""),
        ),
        (_PULLED_ONCE,),
        chaos_notices=True,
    ),
    _one(
        "only a warm image lets every deployment start",
        "pool/controller/images.py",
        "        .filter(_is_warm())\n",
        "",
        _PULLED_ONCE,
    ),
    _one(
        "fence of a lease",
        "core/leases.py",
        "WHERE key = %(key)s AND fence = %(fence)s AND holder <> '' AND expires_at > "
        "clock_timestamp()\nFOR UPDATE",
        "WHERE key = %(key)s AND %(fence)s > 0\nFOR UPDATE",
        f"{_LEASES}::test_whoever_lost_it_writes_nothing",
        f"{_LEASES}::test_a_holder_that_was_frozen_longer_than_its_lease_has_its_write_refused",
        chaos_notices=True,
    ),
    _one(
        "a lease has one holder",
        "core/leases.py",
        " AND (holder = '' OR expires_at <= clock_timestamp())\n",
        "\n",
        f"{_LEASES}::test_of_many_at_once_one_gets_it",
    ),
    _one(
        "evidence has to last",
        "pool/reconciler/findings.py",
        "long_enough = lasted >= sighting.lasting and finding.sightings >= sighting.looks",
        "long_enough = lasted is not None",
        f"{_CONTAINERS}::test_one_reading_of_exited_proves_nothing",
        f"{_CONTAINERS}::test_a_bot_whose_container_is_gone_fails_and_its_slot_comes_back",
        chaos_notices=True,
    ),
    _one(
        "a heartbeat outweighs Coolify's status",
        "pool/reconciler/findings.py",
        "seen.contradicted_at is not None and seen.contradicted_at > finding.first_seen_at",
        "False",
        f"{_CONTAINERS}::test_a_heartbeat_beats_a_stale_status",
    ),
    _one(
        "a short list is not trusted",
        "pool/reconciler/reconcile.py",
        "    return names if is_too_many(len(names), of=slots.count()) else []",
        "    return names[:0]",
        f"{_CONTAINERS}::test_a_list_that_fails_or_lacks_too_much_touches_nothing",
        f"{_CONTAINERS}::test_a_short_list_is_told_to_the_operator",
    ),
    _one(
        "after an outage all heartbeat timeouts start again",
        "pool/reconciler/heartbeats.py",
        "silent_since = max(last_sign_of_life(slot, bot), hearing_since)",
        "silent_since = last_sign_of_life(slot, bot)",
        "tests/pool/reconciler/test_heartbeats.py::test_after_an_outage_every_clock_starts_afresh",
    ),
    _one(
        "a mass repair is stopped",
        "pool/reconciler/reconcile.py",
        "    if not is_too_many(len(touched), of=held):\n",
        "    if touched is not None:\n",
        "tests/pool/reconciler/test_heartbeats.py::"
        "test_silence_of_many_at_once_is_taken_for_a_fault_of_the_network",
    ),
    _one(
        "a start whose answer was lost is looked for",
        "pool/controller/start.py",
        "    if deployment.start_asked_at is None or not slot.coolify_uuid:\n",
        "    if deployment.pk:\n",
        "tests/pool/controller/test_start.py::test_a_lost_answer_to_the_start_does_not_start_it_twice",
    ),
    _one(
        "an application whose answer was lost is looked for",
        "pool/controller/applications.py",
        "    if slot.application_asked_at is None:\n",
        "    if slot.pk:\n",
        "tests/pool/controller/test_start.py::"
        "test_a_lost_answer_to_the_creation_does_not_make_a_second_application",
    ),
    _one(
        "a stop is not repeated while the container is observed gone",
        "pool/controller/teardown.py",
        "    return slot.seen_gone_since is None and database_now()",
        "    return database_now()",
        "tests/pool/controller/test_stop.py::"
        "test_a_stop_is_not_repeated_while_the_container_is_seen_to_be_gone",
    ),
    _one(
        "one drain of a queue at a time",
        "pool/drain.py",
        "        advisory_lock_within(PATIENCE, DRAIN_QUEUE.format(platform=platform))\n",
        "",
        "tests/pool/test_drain_races.py::"
        "test_two_drains_at_once_give_the_only_slot_to_the_first_in_line",
    ),
    _one(
        "a newcomer checks the queue again once it has a slot",
        "pool/request.py",
        "    if _somebody_is_ahead_of(bot):\n",
        "    if bot.pk is None:\n",
        "tests/pool/test_request.py::test_a_newcomer_that_was_held_up_does_not_overtake",
    ),
    _one(
        "a run of periodic work extends its lease",
        "core/jobs/periodic.py",
        "                mine.update(running_until=Now() + RUN_LEASE)",
        "                mine.exists()",
        "tests/core/jobs/test_periodic_runs.py::"
        "test_a_run_is_held_for_longer_than_its_lease_while_it_goes_on",
    ),
)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("words", nargs="*", help="only safeguards whose names contain these words")
    parser.add_argument("--chaos", action="store_true", help="run the chaos instead of tests")
    options = parser.parse_args()
    wanted = [each for each in MUTATIONS if all(word in each.safeguard for word in options.words)]
    if options.chaos:
        wanted = [each for each in wanted if each.chaos_notices]
        failed = [safeguard for safeguard in map(_judge_by_chaos, wanted) if safeguard]
    else:
        failed = [safeguard for safeguard in _trials(wanted) if safeguard]
    print(f"\n{len(wanted) - len(failed)} of {len(wanted)} removed safeguards were noticed.")
    return 1 if failed else 0


def _judge_by_chaos(mutation: Mutation) -> str:
    for seed in CHAOS_SEEDS:
        words = ["--seed", str(seed), "--minutes", str(CHAOS_MINUTES)]
        command = [sys.executable, "-m", "tests.chaos", *words]
        code, output = on_a_copy(mutation.edits, command, patience=60 * CHAOS_MINUTES + PATIENCE)
        found = output.partition(" violations:")[2].strip().splitlines()
        if code == 1 and found:
            print(f"caught   {mutation.safeguard}: seed {seed}, {len(found)} lines:", flush=True)
            print(*(f"           {line}" for line in found[:6]), sep="\n", flush=True)
            return ""
        last = (output.strip().splitlines() or [""])[-1]
        print(f"not yet  {mutation.safeguard}: seed {seed}, exit code {code}: {last}", flush=True)
    print(f"MISSED   {mutation.safeguard}\n{output[-1500:]}", flush=True)
    return mutation.safeguard


def _trials(wanted: list[Mutation]) -> list[str]:
    scenarios = list(dict.fromkeys(name for each in wanted for name in each.scenarios))
    code, output = trial((), tuple(scenarios))
    if code != 0:
        print(output)
        return ["the unchanged source"]
    print(f"unchanged source: {len(scenarios)} scenarios pass", flush=True)
    return [_judge(each) for each in wanted]


def _judge(mutation: Mutation) -> str:
    """Return the safeguard's name if no test failed without it."""
    code, output = trial(mutation.edits, mutation.scenarios)
    if code == TESTS_FAILED:
        print(f"caught   {mutation.safeguard}: {', '.join(failures(output))}", flush=True)
        return ""
    print(f"MISSED   {mutation.safeguard} (exit code {code})\n{output[-2000:]}", flush=True)
    return mutation.safeguard


def failures(output: str) -> list[str]:
    lines = [line.split()[1] for line in output.splitlines() if line.startswith("FAILED ")]
    return [line.split("::")[-1] for line in lines]


def trial(edits: tuple[Edit, ...], scenarios: tuple[str, ...]) -> tuple[int, str]:
    """Run the scenarios on a copy of the source with these edits."""
    options = ["-q", "-p", "no:randomly", "-p", "no:cacheprovider", "--tb=line"]
    command = [sys.executable, "-m", "pytest", *options, *scenarios]
    return on_a_copy(edits, command, patience=PATIENCE)


def on_a_copy(edits: tuple[Edit, ...], command: list[str], *, patience: float) -> tuple[int, str]:
    with tempfile.TemporaryDirectory(prefix="botpool-mutant-") as directory:
        copy = Path(directory)
        copy.chmod(0o755)
        _copy_source(copy)
        for edit in edits:
            apply(edit, copy)
        done = subprocess.run(
            command,
            cwd=copy,
            env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True,
            text=True,
            timeout=patience,
            check=False,
        )
    return done.returncode, done.stdout + done.stderr


def _copy_source(copy: Path) -> None:
    for name in COPIED:
        shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in FILES:
        shutil.copy(ROOT / name, copy / name)


def apply(edit: Edit, root: Path) -> None:
    file = root / edit.file
    source = file.read_text()
    assert source.count(edit.old) == 1, f"{edit.file} must contain this exactly once:\n{edit.old}"
    file.write_text(source.replace(edit.old, edit.new))


if __name__ == "__main__":
    sys.exit(main())
