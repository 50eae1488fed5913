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
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.chaos.attack_mutations import AGAINST_ATTACKS
from tests.chaos.more_mutations import MORE
from tests.chaos.mutation import Edit, Mutation
from tests.chaos.mutation import one as _one
from tests.processes import ROOT

COPIED = (
    "api", "botpool", "bots", "coolify", "core", "dashboard", "ops", "pool", "queues",
    "servers", "slots", "static", "templates", "tests",
)  # fmt: skip
FILES = ("manage.py", "pyproject.toml")
TESTS_FAILED = 1  # pytest's exit code; any other error means that the tests did not run
NO_END = -1
PATIENCE = 280
CHAOS_SEEDS = range(1, 9)
CHAOS_MINUTES = 5


_LATE_RELEASE = (
    "tests/pool/test_lifecycle.py::test_a_late_release_does_not_take_a_slot_that_is_busy_again"
)
_PULLED_ONCE = (
    "tests/pool/controller/test_start.py::"
    "test_twelve_bots_at_once_on_an_empty_pool_pull_the_image_once"
)
_CONTAINERS = "tests/pool/reconciler/test_container_checks.py"
_BREAKER = "tests/pool/reconciler/test_breaker.py"
_LEASES = "tests/core/test_leases.py"
_LYING_STOPS = "tests/pool/controller/test_lying_stops.py"

MUTATIONS = (
    _one(
        "no bot leads a pull beside a pre-pull",
        "pool/controller/images.py",
        ".filter(~Q(being_prepulled()), pk=deployment.pk, image=deployment.image)",
        ".filter(pk=deployment.pk, image=deployment.image)",
        "tests/pool/images/test_prepulls.py::"
        "test_a_bot_and_a_pre_pull_that_begin_at_once_pull_once",
    ),
    _one(
        "no pre-pull begins beside a bot's pull",
        "pool/images/prepulls.py",
        "is_pulled = is_pulled_by_bot(prepull.image, prepull.server_uuid) or earlier.exists()",
        "is_pulled = earlier.exists()",
        "tests/pool/images/test_prepulls.py::"
        "test_an_image_that_a_bot_pulls_is_not_pulled_beside_it",
    ),
    _one(
        "an image that could not be pulled is never switched to",
        "pool/images/rollout.py",
        "if is_overdue(row) and not failed_pulls(row) and _may_try(row, server):",
        "if is_overdue(row) and _may_try(row, server):",
        "tests/pool/images/test_rollout.py::"
        "test_an_image_that_could_not_be_pulled_is_never_switched_to",
    ),
    _one(
        "an image that no server ever had is tried on one server",
        "pool/images/rollout.py",
        "if is_proven(row):\n        return True\n    away",
        "if row:\n        return True\n    away",
        "tests/pool/images/test_rollout.py::"
        "test_after_the_timeout_an_image_that_no_server_has_is_tried_on_one",
    ),
    _one(
        "an earlier process does not overrule a later one",
        "pool/images/rollout.py",
        "        elif row.named_at <= at:\n",
        "        else:\n",
        "tests/pool/images/test_rollout.py::"
        "test_an_earlier_process_with_the_old_environment_changes_nothing_back",
    ),
    _one(
        "no start with an image that was rejected meanwhile",
        "pool/controller/start.py",
        "wanted.exclude(rejected).update(",
        "wanted.update(",
        "tests/pool/images/test_restore_races.py::"
        "test_a_bot_that_gets_its_slot_while_the_image_is_restored_starts_with_that",
    ),
    _one(
        "what a frozen worker found of a pre-pull is not written",
        "pool/controller/prepulls/steps.py",
        "    with context.lease.fenced():\n        if ended_as",
        "    if True:\n        if ended_as",
        "tests/pool/images/test_prepull_steps.py::"
        "test_what_a_worker_found_before_it_was_frozen_is_not_written",
    ),
    _one(
        "nothing is kept of a refused request",
        "api/application.py",
        "        error_contexts.clear()\n",
        "",
        "tests/security/test_memory.py::"
        "test_a_validator_that_raises_value_error_keeps_nothing_either",
    ),
    _one(
        "one evaluation of notifications at a time",
        "dashboard/notifications/evaluation.py",
        "    advisory_lock(EVALUATE)\n",
        "",
        "tests/dashboard/notifications/test_notification_races.py::test_passes_at_once_send_once",
    ),
    _one(
        "a message that is being sent is not sent again",
        "dashboard/notifications/sending.py",
        "        mine.update(due_at=Now() + CLAIM, ",
        "        mine.update(",
        "tests/dashboard/notifications/test_notification_sending.py::"
        "test_a_process_that_dies_while_it_sends_leaves_the_message_to_another",
    ),
    _one(
        "messages to services go to public addresses only",
        "dashboard/notifications/courier.py",
        "            if not allow_private and not _is_allowed(given[1]):\n",
        "            if False:\n",
        "tests/dashboard/notifications/test_notification_sending.py::"
        "test_a_name_that_leads_inwards_is_refused_when_the_message_is_sent",
    ),
    _one(
        "only administrators enter addresses of channels",
        "dashboard/notifications/pages.py",
        "@needs(ADMINISTER)\ndef new_channel",
        "@needs(OPERATE)\ndef new_channel",
        "tests/dashboard/notifications/test_notification_pages.py::"
        "test_viewers_change_nothing_and_operators_enter_no_addresses",
    ),
    _one(
        "only declared filters in the admin",
        "core/administration/site.py",
        "(DeclaredLookups, ReadableSelections, WithoutLinks, lax)",
        "(ReadableSelections, WithoutLinks, lax)",
        "tests/security/test_admin_lookups.py::"
        "test_the_hash_of_a_key_cannot_be_guessed_by_its_characters",
    ),
    _one(
        "a request has to arrive in time",
        "botpool/runtime/web/worker.py",
        "if each.deadline < now]",
        "if False]",
        "tests/security/test_slow_clients.py::test_a_request_has_to_arrive_in_time",
    ),
    _one(
        "a chunked body has a limit",
        "botpool/wsgi.py",
        ".read(settings.DATA_UPLOAD_MAX_MEMORY_SIZE + 1)",
        ".read(10 * settings.DATA_UPLOAD_MAX_MEMORY_SIZE)",
        "tests/api/test_chunked_bodies.py::test_an_endless_report_of_a_bot_is_refused_too",
    ),
    _one(
        "a meeting has a limit",
        "pool/reports.py",
        "not sign.must_leave and not sign.is_overlong",
        "not sign.must_leave",
        "tests/pool/reconciler/test_long_meetings.py::"
        "test_beyond_the_limit_the_bot_is_told_to_leave_first",
    ),
    _one(
        "epoch check of a slot's moves",
        "slots/moves.py",
        '{"id": slot.pk, "epoch": slot.epoch, "status": status}',
        '{"id": slot.pk, "status": status}',
        _LATE_RELEASE,
        chaos_notices=True,
    ),
    _one(
        "epoch check of a bot's heartbeat",
        "pool/reports.py",
        '{"slot__pk": assignment.slot_id, "slot__epoch": assignment.epoch}',
        '{"slot__pk": assignment.slot_id}',
        "tests/api/test_former_containers.py::"
        "test_a_bot_placed_again_in_the_same_slot_does_not_hear_its_former_container",
    ),
    _one(
        "`exited` after a stop needs a second piece of evidence",
        "pool/controller/containers/gone.py",
        "return slot.previous_status in HELD and slot.told_epoch == slot.epoch - 1",
        "return True",
        f"{_LYING_STOPS}::test_a_slot_taken_from_a_meeting_is_not_idle_while_docker_runs_its_container",
    ),
    _one(
        "a call after `exited` proves that a container lives",
        "pool/controller/containers/gone.py",
        "        if _called_since(slot, observed_at):\n",
        "        if False:\n",
        f"{_LYING_STOPS}::test_a_call_after_it_was_seen_exited_proves_that_it_lives",
    ),
    _one(
        "a token that Coolify refused is not tried again",
        "coolify/budget/access.py",
        "        if refusal.probe_at is None or refusal.probe_at > now:\n",
        "        if refusal.pk is None:\n",
        "tests/coolify/budget/test_access.py::test_after_a_401_nothing_is_sent_any_more",
    ),
    _one(
        "no bot on a server that is out of service",
        "pool/capacity.py",
        ".exclude(server_uuid__in=out_of_service)\n",
        "\n",
        "tests/pool/servers/test_placing_bots.py::test_a_bot_waits_while_no_server_takes_bots",
    ),
    _one(
        "an image is in doubt around a clean-up",
        "pool/images/warmth.py",
        "        IS_SURE | Exists(in_use),\n",
        "",
        "tests/pool/controller/test_image_evidence.py::test_a_doubted_image_is_pulled_by_one_leader",
    ),
    Mutation(
        "advisory lock of a growing pool",
        (
            Edit(
                "pool/claim.py",
                "    advisory_lock(GROW_POOL.format(platform=pool.platform))\n",
                "",
            ),
            Edit("pool/claim.py", "    advisory_lock(PLACE_SLOT)\n", ""),
        ),
        (
            "tests/pool/test_races.py::"
            "test_fifty_acquirers_on_an_empty_pool_of_twenty_make_slots_1_to_20_and_30_refusals",
        ),
        chaos_notices=True,
    ),
    _one(
        "row lock of an idle slot",
        "pool/claim.py",
        "    return _in_order(platform, size).select_for_update(skip_locked=True, no_key=True)",
        "    return _in_order(platform, size)",
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
            Edit(
                "pool/controller/images.py", "        .filter(~being_pulled(), ~_is_warm())\n", ""
            ),
            Edit("pool/controller/images.py", '        .distinct("image", "server_uuid")\n', ""),
        ),
        (_PULLED_ONCE,),
        chaos_notices=True,
    ),
    _one(
        "only a warm image lets every deployment start",
        "pool/controller/images.py",
        "warm = list(_waiting().filter(_is_warm())",
        "warm = list(_waiting()",
        _PULLED_ONCE,
    ),
    _one(
        "fence of a lease",
        "core/leases.py",
        "if not self.row.filter(expires_at__gt=Now()).select_for_update().exists():",
        "if not Lease.objects.filter(key=self.key).select_for_update().exists():",
        f"{_LEASES}::test_a_process_that_lost_it_writes_nothing",
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
        "often_enough and self._has_lasted()",
        "self._has_lasted() is not None",
        f"{_CONTAINERS}::test_one_reading_of_exited_proves_nothing",
        f"{_CONTAINERS}::test_a_bot_whose_container_is_gone_fails_and_its_slot_comes_back",
        chaos_notices=True,
    ),
    _one(
        "a heartbeat outweighs Coolify's status",
        "pool/reconciler/findings.py",
        "seen.contradicted_at is not None and seen.contradicted_at > finding.first_seen_at",
        "False",
        "tests/pool/reconciler/test_heartbeats.py::"
        "test_a_call_of_the_bot_starts_the_time_of_its_container_afresh",
    ),
    _one(
        "a short list is not trusted",
        "pool/controller/belief/answers.py",
        "    if not is_too_many(len(missing), of=len(known)):\n",
        "    if missing is not None:\n",
        f"{_CONTAINERS}::test_a_list_that_fails_or_lacks_too_much_touches_nothing",
        f"{_CONTAINERS}::test_a_short_list_is_reported_to_the_operator",
    ),
    _one(
        "an application is gone only if our project is shown",
        "pool/controller/belief/answers.py",
        "        raise doubt.error\n    require_our_project(coolify)\n",
        "        raise doubt.error\n",
        "tests/pool/controller/test_attacks.py::"
        "test_a_token_of_another_team_forgets_no_application_at_a_start",
    ),
    _one(
        "an application is gone only if few are missing",
        "pool/controller/belief/answers.py",
        "    listed = believed_list(coolify)\n",
        "    listed = coolify.applications()\n",
        "tests/pool/controller/test_attacks.py::"
        "test_a_list_without_our_applications_forgets_none_at_a_start",
    ),
    _one(
        "a deployment is gone only if its application is shown",
        "pool/controller/stop.py",
        "        require_no_deployment(coolify, context.slot.coolify_uuid)\n",
        "",
        "tests/pool/controller/test_attacks.py::test_a_token_of_another_team_ends_no_deployment",
    ),
    _one(
        "after an outage all heartbeat timeouts start again",
        "pool/reconciler/heartbeats.py",
        "silent_since = max(last_sign_of_life(slot, bot), hearing_since)",
        "silent_since = last_sign_of_life(slot, bot)",
        "tests/pool/reconciler/test_heartbeats.py::test_after_an_outage_every_clock_starts_afresh",
    ),
    _one(
        "silence counts only from when bots could be heard",
        "pool/reconciler/findings.py",
        "last - max(first, proof.since) >= proof.lasting",
        "last - first >= proof.lasting",
        "tests/pool/reconciler/test_heartbeats.py::"
        "test_the_time_in_which_no_bot_was_heard_does_not_count_as_silence",
    ),
    _one(
        "a mass repair is stopped",
        "pool/reconciler/breaker.py",
        "            each.finding.held_back = batch.share\n",
        '            each.finding.held_back = ""\n',
        "tests/pool/reconciler/test_heartbeats.py::"
        "test_silence_of_many_at_once_is_taken_for_a_fault_of_the_network",
    ),
    _one(
        "the breaker works for each platform",
        "pool/reconciler/breaker.py",
        "by_kind[each.candidate.kind, each.candidate.platform].append(each)",
        'by_kind[each.candidate.kind, "zoom"].append(each)',
        f"{_BREAKER}::test_three_crashes_on_one_platform_hold_back_nothing_else",
    ),
    _one(
        "the breaker holds back only what could end a meeting",
        "pool/reconciler/breaker.py",
        "        if each.is_due and harm_of(each.candidate) is Harm.MEETING:\n",
        "        if each.is_due:\n",
        f"{_BREAKER}::test_repairs_that_cannot_end_a_meeting_are_never_held_back",
    ),
    _one(
        "the breaker counts the repairs of the last passes",
        "pool/reconciler/breaker.py",
        "            count=len(members) + done,\n",
        "            count=len(members),\n",
        f"{_BREAKER}::test_repairs_of_the_last_passes_count_too",
    ),
    _one(
        "an approval holds only for the evidence that was shown",
        "pool/reconciler/approvals.py",
        "        if finding is None or finding.fingerprint != seen:\n",
        "        if finding is None:\n",
        f"{_BREAKER}::test_a_finding_whose_evidence_has_changed_is_not_approved",
    ),
    _one(
        "an approval is void once the evidence has changed",
        "slots/finding.py",
        "self.approved_at is not None and self.approved_evidence == self.fingerprint",
        "self.approved_at is not None",
        f"{_BREAKER}::test_an_approved_repair_is_not_made_if_its_evidence_has_changed_since",
    ),
    _one(
        "a start whose answer was lost is looked for",
        "pool/controller/start.py",
        "    if deployment.start_asked_at is None or not context.slot.coolify_uuid:\n",
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
        "pool/controller/containers/gone.py",
        "    return late and (slot.stop_refused_at is not None or slot.container_status in UP)",
        "    return late",
        "tests/pool/controller/test_stop.py::"
        "test_a_stop_is_not_repeated_while_the_container_is_seen_to_be_gone",
    ),
    _one(
        "a stop is repeated only on a newer observation",
        "pool/controller/containers/gone.py",
        "    late = observed_at - slot.stop_asked_at > settings.STOP_RETRY_AFTER",
        "    late = database_now() - slot.stop_asked_at > settings.STOP_RETRY_AFTER",
        "tests/pool/controller/test_stop.py::"
        "test_a_stop_is_not_repeated_without_a_newer_observation_however_long_it_takes",
    ),
    _one(
        "a stop that was sent before a server went away is not believed when it is back",
        "pool/controller/stop.py",
        ".update(stop_asked_at=None)\n",
        ".update(stop_attempts=slot.stop_attempts)\n",
        "tests/pool/controller/test_stops_on_lost_servers.py::"
        "test_exited_from_before_the_server_went_away_proves_nothing_when_it_is_back",
    ),
    _one(
        "a container that runs does not hide how the deployment ended",
        "pool/controller/verdict.py",
        "    if not seen.ended_as:\n",
        "    if not seen.ended_as and seen.container != ContainerStatus.RUNNING:\n",
        "tests/pool/controller/test_container_status.py::test_a_deployment_is_judged",
    ),
    _one(
        "an application that was made after a list is not missing from it",
        "pool/controller/observe.py",
        "        if slot.coolify_uuid in snapshot.known:\n",
        "        if slot.coolify_uuid:\n",
        "tests/pool/controller/test_observe.py::"
        "test_an_application_that_was_made_after_the_list_is_not_missing",
    ),
    _one(
        "a start or stop from after the last list needs a new one",
        "pool/controller/containers/changes.py",
        " or _began_since(watch.observed_at):",
        ":",
        "tests/pool/controller/test_changes_on_servers.py::"
        "test_a_stop_or_start_from_after_the_list_needs_a_new_one",
    ),
    _one(
        "a refused token is tried once in ten minutes",
        "coolify/budget/access.py",
        "        return TOKENS_FAULT\n",
        "        return timedelta()\n",
        "tests/coolify/budget/test_access.py::test_a_refused_token_is_tried_once_in_ten_minutes",
    ),
    _one(
        "a bot waits for image and place no longer than it is willing to",
        "pool/controller/start.py",
        "    if _is_late(deployment):\n        _give_up_waiting",
        "    if deployment.pk is None:\n        _give_up_waiting",
        "tests/pool/controller/test_advance.py::"
        "test_a_bot_that_waits_too_long_for_its_image_or_place_gives_up",
    ),
    _one(
        "a start that is never accepted has a deadline",
        "pool/controller/start.py",
        '    if _is_late(deployment, now=now):\n        reason = f"Coolify did not accept',
        '    if deployment.pk is None:\n        reason = f"Coolify did not accept',
        "tests/pool/controller/test_advance.py::"
        "test_a_start_that_coolify_never_accepts_ends_at_its_deadline",
    ),
    _one(
        "a build place is given only to a deployment that still waits",
        "pool/controller/places.py",
        "    this = _waiting().filter(pk=deployment.pk)",
        "    this = Deployment.objects.filter(pk=deployment.pk)",
        "tests/pool/controller/test_build_places.py::"
        "test_one_that_was_cancelled_meanwhile_gets_no_place_and_spoils_none",
    ),
    _one(
        "build places are given in the order of the queue",
        "pool/controller/places.py",
        'order_by("turn", "id")',
        'order_by("id")',
        "tests/pool/controller/test_build_places.py::test_a_bot_of_better_priority_goes_first",
    ),
    _one(
        "the pool grows only beside slots that are really taken",
        "pool/claim.py",
        "application_missing=False).select_for_update(no_key=True)",
        "application_missing=False).select_for_update(skip_locked=True, no_key=True)",
        "tests/pool/controller/test_advance.py::"
        "test_a_locked_idle_slot_is_waited_for_before_the_pool_grows",
    ),
    _one(
        "an observation writes only what has changed",
        "pool/controller/observe.py",
        "    if not seen:\n        return False\n",
        '    seen["container_seen_at"] = snapshot.began_at\n',
        "tests/pool/controller/test_advance.py::"
        "test_an_observation_leaves_rows_alone_that_have_not_changed",
    ),
    Mutation(
        "one drain of a queue at a time",
        (
            Edit(
                "pool/drain.py",
                "        advisory_lock_within(PATIENCE, DRAIN_QUEUE.format(platform=platform))\n",
                "",
            ),
            Edit(
                "pool/drain.py",
                "        advisory_lock(GROW_POOL.format(platform=platform))\n",
                "",
            ),
        ),
        (
            "tests/pool/test_drain_races.py::"
            "test_two_drains_at_once_give_the_only_slot_to_the_first_in_line",
        ),
    ),
    _one(
        "a drain locks the growth of its pool before any slot",
        "pool/drain.py",
        "        advisory_lock(GROW_POOL.format(platform=platform))\n",
        "",
        "tests/pool/test_drain_races.py::"
        "test_a_drain_and_an_urgent_newcomer_that_grow_the_pool_do_not_deadlock",
    ),
    _one(
        "a newcomer checks the queue again once it has a slot",
        "pool/request.py",
        "    if has_others_first(bot):\n",
        "    if bot.pk is None:\n",
        "tests/pool/test_request.py::test_a_newcomer_that_was_held_up_does_not_overtake",
    ),
    _one(
        "a run extends its lease",
        "core/leases.py",
        "                extend_lease(lease)\n",
        "                lease.row.exists()\n",
        "tests/core/jobs/test_job_runs.py::"
        "test_a_run_is_held_for_longer_than_its_lease_while_it_goes_on",
    ),
    Mutation(
        "a log is read for the bot that held the slot last",
        (
            Edit(
                "pool/controller/logs/keep.py",
                ", bot=slot.last_bot_id, coolify_uuid=slot.coolify_uuid)",
                ")",
            ),
        ),
        (
            "tests/pool/controller/test_kept_logs.py"
            "::test_a_log_that_is_wanted_since_before_never_gets_the_lines_of_the_next_bot",
        ),
    ),
    *MORE,
    *AGAINST_ATTACKS,
)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("words", nargs="*", help="only safeguards whose names contain these words")
    parser.add_argument("--chaos", action="store_true", help="run the chaos instead of tests")
    parser.add_argument("--at-once", type=int, default=1, help="safeguards removed at a time")
    options = parser.parse_args()
    wanted = [each for each in MUTATIONS if all(word in each.safeguard for word in options.words)]
    if options.chaos:
        wanted = [each for each in wanted if each.chaos_notices]
    if not wanted:
        parser.error(f"No safeguard has a name with {' and '.join(options.words)}.")
    if options.chaos:
        failed = [safeguard for safeguard in map(_judge_by_chaos, wanted) if safeguard]
    else:
        failed = [each for each in _trials(wanted, at_once=options.at_once) if each]
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


def _trials(wanted: list[Mutation], *, at_once: int) -> list[str]:
    scenarios = list(dict.fromkeys(name for each in wanted for name in each.scenarios))
    code, output = trial((), tuple(scenarios), patience=PATIENCE + 30 * len(scenarios))
    if code != 0:
        raise SystemExit(f"{output}\nThe unchanged source fails: no safeguard was removed.")
    print(f"unchanged source: {len(scenarios)} scenarios pass", flush=True)
    with ThreadPoolExecutor(at_once) as executor:
        return list(executor.map(_judge, wanted))


def _judge(mutation: Mutation) -> str:
    """Return the safeguard's name if no test failed without it."""
    code, output = trial(mutation.edits, mutation.scenarios)
    if code == TESTS_FAILED and failures(output):
        print(f"caught   {mutation.safeguard}: {', '.join(failures(output))}", flush=True)
        return ""
    print(f"MISSED   {mutation.safeguard} (exit code {code})\n{output[-2000:]}", flush=True)
    return mutation.safeguard


def failures(output: str) -> list[str]:
    lines = [line.split()[1] for line in output.splitlines() if line.startswith("FAILED ")]
    return [line.split("::")[-1] for line in lines]


def trial(
    edits: tuple[Edit, ...], scenarios: tuple[str, ...], *, patience: float = PATIENCE
) -> tuple[int, str]:
    """Run the scenarios on a copy of the source with these edits."""
    options = ["-q", "-p", "no:randomly", "-p", "no:cacheprovider", "--tb=line"]
    command = [sys.executable, "-m", "pytest", *options, *scenarios]
    return on_a_copy(edits, command, patience=patience)


def on_a_copy(edits: tuple[Edit, ...], command: list[str], *, patience: float) -> tuple[int, str]:
    with tempfile.TemporaryDirectory(prefix="botpool-mutant-") as directory:
        copy = Path(directory)
        copy.chmod(0o755)
        _copy_source(copy)
        for edit in edits:
            apply(edit, copy)
        try:
            done = subprocess.run(
                command,
                cwd=copy,
                env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
                capture_output=True,
                text=True,
                timeout=patience,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return NO_END, f"no end within {patience:g} s"
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
