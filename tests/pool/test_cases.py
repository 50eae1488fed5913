"""What went wrong in systems like ours, and the tests that show that it does not happen here.

Cases that no other test covers have one in test_cases_on_simulator.py, named after them.
"""

import re

import pytest

from tests.processes import ROOT

HERE = "pool/test_cases_on_simulator.py"

SLOTS = {
    "Ten bots at once on an empty pool": [
        "pool/test_races.py::test_fifty_acquirers_on_an_empty_pool_of_twenty_make_slots_1_to_20",
        "pool/test_races.py::test_without_the_advisory_lock_two_make_the_same_slot",
    ],
    "The slot said `busy` at once": [f"{HERE}::test_the_slot_said_busy_at_once"],
    "The application had been deleted": [
        "pool/controller/test_start.py::test_an_application_deleted_behind_our_back_is_made_again",
        f"{HERE}::test_stop_and_delete_answered_404",
    ],
    "The uuid of the application was kept in two tables": [
        "api/test_bots_calling_back.py::test_an_old_container_never_sees_the_next_bot",
        "slots/test_constraints.py::test_two_slots_with_one_application",
    ],
    "Two releases of one bot": [
        "pool/test_lifecycle.py::test_a_late_release_does_not_take_the_slot_from_its_next_bot",
        "pool/test_races.py::test_of_many_releases_of_one_bot_one_does_it",
    ],
    "A background loop of the previous bot": [
        "pool/test_lifecycle.py::test_a_late_error_of_the_last_bot_does_not_hit_the_next_one",
    ],
    "A slot of one platform given to a bot of another": [
        "pool/test_lifecycle.py::test_a_slot_of_another_platform_is_not_given",
        "slots/test_constraints.py::test_a_bot_of_another_platform",
    ],
    "Release failed at the stop call": [f"{HERE}::test_release_failed_at_the_stop_call"],
    "A slot whose bot never started": [
        "pool/reconciler/test_row_checks.py::test_a_slot_stuck_in_deploying_is_released_by_force",
        "pool/reconciler/test_row_checks.py::test_a_slot_held_by_a_bot_that_has_ended_is_released",
        "slots/test_constraints.py::test_a_bot_that_holds_a_slot_cannot_be_deleted",
    ],
}
DEPLOYMENTS = {
    "After the first pull finished or failed": [
        "pool/controller/test_start.py::test_when_the_leader_fails_exactly_one_of_the_others_leads",
        "pool/controller/test_start.py::test_twelve_bots_at_once_on_an_empty_pool_pull_the_image_once",
    ],
    "The lock was held for whole deployments": [
        f"{HERE}::test_the_lock_was_held_although_the_image_had_long_been_cached",
        "pool/controller/test_start.py::test_different_images_are_pulled_side_by_side",
    ],
    "Four hung deployments blocked every other one": [
        f"{HERE}::test_four_hung_deployments_blocked_every_other_one",
    ],
    "429 while polling was read as": [
        "pool/controller/test_start.py::test_429_while_watching_is_not_a_failed_deployment",
        "pool/controller/test_start.py::test_a_server_error_at_the_start_is_tried_again",
    ],
    "`force=true` on each start": [
        "coolify/client/test_client_starts.py::test_a_start_is_a_post_without_force",
    ],
    "A five-minute limit killed slow but healthy": [
        f"{HERE}::test_waiting_time_in_the_queue_was_counted_against_the_limit",
    ],
}
RECONCILING = {
    "One HTTP 500 on the listing": [
        "pool/reconciler/test_container_checks.py::test_a_list_that_fails_or_lacks_too_much_touches",
        "pool/reconciler/test_cleanup.py::test_a_list_that_fails_deletes_nothing",
        "pool/reconciler/test_cleanup.py::test_a_botpool_that_lost_its_rows_does_not_delete_the_whole_pool",
    ],
    "The clean-up met a slot in the middle of its creation": [
        "pool/reconciler/test_cleanup.py::test_it_is_never_deleted_while_a_slot_of_that_name_is_being_made",
    ],
    "Staging and production shared a Coolify": [
        "pool/reconciler/test_cleanup.py::test_only_exactly_a_slots_name_is_ours",
        "pool/reconciler/test_cleanup.py::test_an_application_in_another_environment_is_not_ours",
    ],
    "The control plane was down for six minutes": [
        "pool/reconciler/test_heartbeats.py::test_after_an_outage_every_clock_starts_afresh",
    ],
    "A reconciler killed healthy bots in the waiting room": [
        "pool/reconciler/test_container_checks.py::test_a_heartbeat_beats_a_stale_status",
        "pool/reconciler/test_heartbeats.py::test_a_bot_that_was_heard_lives_wherever_it_is",
    ],
    "The reconciler read the state, then took the lock": [
        "pool/reconciler/test_row_checks.py::test_a_slot_that_has_moved_on_since_it_was_seen_is_left",
        "pool/reconciler/test_container_checks.py::test_a_status_that_has_changed_inside_the_lease",
        "pool/reconciler/test_heartbeats.py::test_a_heartbeat_that_comes_in_at_the_last_moment_saves_the",
    ],
    "A periodic pass was still running": [
        "pool/reconciler/test_row_checks.py::test_only_one_pass_runs_at_a_time",
        "core/jobs/test_jobs.py::test_of_many_workers_at_once_one_runs_it",
    ],
    "A worker missed one heartbeat": [
        "core/test_leases.py::test_a_holder_that_was_frozen_longer_than_its_lease_has_its_write",
        "pool/controller/test_killed_workers.py::test_killed_workers_lose_and_double_no_bot",
        "api/test_bots_calling_back.py::test_an_old_bots_done_does_not_release_the_next_bots_slot",
    ],
}
CASES = {
    "Slots": SLOTS,
    "Deployments and images": DEPLOYMENTS,
    "Reconciling, clean-up, heartbeats": RECONCILING,
}
LIST = ROOT.parent / "shared" / "cases.md"


@pytest.mark.skipif(not LIST.exists(), reason="the list of cases is not on this machine")
@pytest.mark.parametrize("section", CASES)
def test_every_case_of_the_list_has_its_test(section):
    text = re.split(r"^## ", LIST.read_text(), flags=re.M)
    lines = next(part for part in text if part.startswith(section)).splitlines()
    cases = [line.removeprefix("- ") for line in lines if line.startswith("- ")]
    assert cases
    assert [case for case in cases if not case.startswith(tuple(CASES[section]))] == []


def test_the_tests_named_here_exist():
    named = [test for cases in CASES.values() for tests in cases.values() for test in tests]
    assert [test for test in named if not _exists(test)] == []


def _exists(test):
    path, name = test.split("::")
    return f"\ndef {name}" in (ROOT / "tests" / path).read_text()
