"""Calls from containers. The quoted comments are failures seen in other systems."""

import pytest
from django.db.models.functions import Now

from bots.masking import MASK
from bots.models import Bot, BotEvent
from bots.status import BotStatus, FailureCause
from pool import reports
from pool.lifecycle import confirm_slot_stopped, handle_slot_error
from slots.models import Slot, SlotTransition
from tests.api.conftest import Api, Assigned
from tests.factories import BotFactory, SlotFactory


def next_bot_in(slot):
    slot.refresh_from_db()
    confirm_slot_stopped(slot, reason="Container gone", actor="test")
    return Assigned()


# "A bot's calls after release were answered with errors, and it retried for ever."


def test_a_released_bots_calls_succeed_and_tell_it_to_leave(assigned, caplog):
    assigned.release()
    events = BotEvent.objects.count()
    with caplog.at_level("INFO"):
        for answer in (assigned.heartbeat(), assigned.report("IN_CALL"), assigned.report("DONE")):
            assert (answer.status_code, answer.json()) == (200, {"shouldLeave": True})
    assert BotEvent.objects.count() == events
    assert not [record for record in caplog.records if record.levelname != "INFO"]


def test_a_bot_whose_first_call_comes_after_its_stop_was_requested_must_leave(db):
    late = Assigned(runs=False)
    late.release(BotStatus.CANCELLED)
    Slot.objects.filter(pk=late.slot.pk).update(stop_asked_at=Now())
    assert late.heartbeat().json()["shouldLeave"] is True
    assert late.status() == "CANCELLED"
    assert Slot.objects.get(pk=late.slot.pk).status == "stopping"


def test_a_container_still_sees_its_bot_after_the_release(assigned):
    assigned.release()
    answer = assigned.api.get(f"slots/{assigned.slot.coolify_uuid}/bot").json()
    assert (answer["id"], answer["released"]) == (assigned.bot.pk, True)


def test_an_old_container_never_sees_the_next_bot(assigned):
    assigned.release()
    after = next_bot_in(assigned.slot)
    answer = assigned.api.get(f"slots/{assigned.slot.coolify_uuid}/bot").json()
    assert (answer["id"], answer["released"]) == (assigned.bot.pk, True)
    answer = after.api.get(f"slots/{assigned.slot.coolify_uuid}/bot").json()
    assert (answer["id"], answer["released"]) == (after.bot.pk, False)


def test_an_old_bots_done_does_not_release_the_next_bots_slot(assigned):
    assigned.release()
    after = next_bot_in(assigned.slot)
    assert assigned.report("DONE").json() == {"shouldLeave": True}
    assert Slot.objects.get().assigned_bot_id == after.bot.pk


def test_a_former_container_cannot_speak_for_a_bot_placed_again(slot):
    former = Assigned(runs=False)
    handle_slot_error(former.slot, "Pull failed", cause=FailureCause.CONTAINER_FAILED, actor="test")
    SlotFactory()
    now = Assigned(bot=Bot.objects.get())
    assert former.heartbeat().json() == {"shouldLeave": True}
    assert former.report("FAILED").json() == {"shouldLeave": True}
    assert now.status() == BotStatus.JOINING_CALL
    assert now.heartbeat().json() == {"shouldLeave": False}


def test_a_deleted_bot_is_told_to_leave(assigned):
    assigned.release()
    Bot.objects.filter(pk=assigned.bot.pk).delete()
    assert assigned.heartbeat().json() == {"shouldLeave": True}


# "DONE and FAILED bots were brought back to life by a late status."


@pytest.mark.parametrize("end", ["DONE", "FAILED"])
@pytest.mark.parametrize("late", ["JOINING_CALL", "IN_CALL", "LEAVING", "DONE", "FAILED"])
def test_a_late_status_does_not_revive_a_bot(assigned, end, late):
    assigned.report(end, "The first one counts")
    assert assigned.report(late).json() == {"shouldLeave": True}
    assert assigned.status() == end


# "Anyone could read a meeting's configuration by counting up ids, or end any bot."


def test_a_different_bots_token_gets_404(assigned):
    SlotFactory()
    other = Assigned()
    for call in ("heartbeat", "status"):
        answer = other.api.post(f"bots/{assigned.bot.pk}/{call}", {"status": "DONE"})
        assert answer.status_code == 404
    assert other.api.get(f"slots/{assigned.slot.coolify_uuid}/bot").status_code == 404
    assert assigned.status() == BotStatus.JOINING_CALL


@pytest.mark.parametrize("token", ["", "guess", "b1.s1.e1." + "A" * 43])
def test_an_invalid_token_gets_401(assigned, token):
    api = Api(token)
    assert api.post(f"bots/{assigned.bot.pk}/heartbeat").status_code == 401
    assert api.post(f"bots/{assigned.bot.pk}/status", {"status": "DONE"}).status_code == 401
    assert api.get(f"slots/{assigned.slot.coolify_uuid}/bot").status_code == 401


def test_an_api_key_is_no_bot_token(assigned, operator_api):
    assert operator_api.post(f"bots/{assigned.bot.pk}/heartbeat").status_code == 401


def test_a_bot_token_is_no_api_key(assigned):
    for path in ("bots", f"bots/{assigned.bot.pk}", "pool", "slots", "queue"):
        assert assigned.api.get(path).status_code == 401
    assert assigned.api.post(f"bots/{assigned.bot.pk}/cancel").status_code == 401


# "Events were buffered in memory and dropped on an error."


def test_a_status_is_in_the_history_before_the_response(assigned):
    assigned.report("IN_CALL", "Let in by the host")
    event = BotEvent.objects.latest("id")
    assert (event.from_status, event.to_status) == ("JOINING_CALL", "IN_CALL")
    assert (event.reason, event.actor) == ("Let in by the host", f"bot:{assigned.bot.pk}")
    assert event.epoch == assigned.slot.epoch


# --- Heartbeats -------------------------------------------------------------------------------


def test_a_heartbeat_is_recorded_without_history(assigned):
    events = BotEvent.objects.count()
    assert assigned.heartbeat().json() == {"shouldLeave": False}
    assigned.bot.refresh_from_db()
    assert assigned.bot.last_heartbeat_at is not None
    assert BotEvent.objects.count() == events


def test_a_heartbeat_costs_two_round_trips(assigned, django_assert_num_queries):
    with django_assert_num_queries(2):
        assigned.heartbeat()


@pytest.mark.parametrize("call", ["heartbeat", "status"])
def test_a_call_from_the_container_proves_that_it_runs(slot, call):
    starting = Assigned(runs=False)
    starting.heartbeat() if call == "heartbeat" else starting.report("JOINING_CALL")
    slot.refresh_from_db()
    assert slot.status == "busy"
    assert starting.status() == BotStatus.JOINING_CALL


def test_a_status_counts_as_a_heartbeat(assigned):
    assigned.report("IN_CALL")
    assigned.bot.refresh_from_db()
    assert assigned.bot.last_heartbeat_at is not None


def test_the_slots_history_has_the_bots_correlation_id(slot):
    starting = Assigned(bot=BotFactory(correlation_id="order-4711"), runs=False)
    starting.report("DONE")
    history = slot.transitions.order_by("id").values_list("to_status", "correlation_id")
    assert list(history) == [
        ("deploying", "order-4711"),
        ("busy", "order-4711"),
        ("stopping", "order-4711"),
    ]


# --- Statuses ---------------------------------------------------------------------------------


def test_a_bot_goes_through_its_meeting(assigned, slot):
    for status in ("JOINING_CALL", "IN_WAITING_ROOM", "IN_CALL", "LEAVING"):
        assert assigned.report(status).json() == {"shouldLeave": False}
        assert assigned.status() == status
    assert assigned.report("DONE").json() == {"shouldLeave": True}
    slot.refresh_from_db()
    assert (assigned.status(), slot.status) == ("DONE", "stopping")


def test_a_reported_failure_is_a_meeting_failure_with_the_bots_reason(assigned):
    assigned.report("FAILED", "The host refused the bot")
    assigned.bot.refresh_from_db()
    assert (assigned.bot.failure_kind, assigned.bot.failure_reason) == (
        "meeting",
        "The host refused the bot",
    )


def test_a_failure_without_a_reason_gets_one(assigned):
    assigned.api.post(f"bots/{assigned.bot.pk}/status", {"status": "FAILED"})
    assigned.bot.refresh_from_db()
    assert assigned.bot.failure_reason == "The bot failed and gave no reason"


def test_a_repeated_or_earlier_status_changes_nothing(assigned):
    assigned.report("LEAVING")
    events = BotEvent.objects.count()
    for status in ("LEAVING", "IN_CALL", "JOINING_CALL"):
        assert assigned.report(status).json() == {"shouldLeave": False}
    assert assigned.status() == BotStatus.LEAVING
    assert BotEvent.objects.count() == events


def test_a_bot_may_be_done_before_its_container_was_seen_running(slot):
    starting = Assigned(runs=False)
    starting.report("DONE")
    assert starting.status() == BotStatus.DONE


@pytest.mark.parametrize("status", ["PENDING", "QUEUED", "DEPLOYING", "CANCELLED", "", None, 5])
def test_a_status_that_bots_cannot_report_is_refused(assigned, status):
    answer = assigned.report(status)
    assert answer.status_code == 422
    assert set(answer.json()["errors"]) == {"status"}


def test_a_bot_can_be_sent_back_to_the_waiting_room(assigned):
    for status in ("IN_CALL", "IN_WAITING_ROOM", "IN_CALL"):
        assert assigned.report(status).json() == {"shouldLeave": False}
        assert assigned.status() == status


# --- Reasons, and other input that must not cost a slot --------------------------------------


def last_reason(assigned):
    return assigned.bot.events.latest("id").reason


@pytest.mark.parametrize("status", ["IN_CALL", "LEAVING", "DONE", "FAILED"])
def test_a_long_reason_is_cut(assigned, status):
    assert assigned.report(status, "x" * 1001).status_code == 200
    assert assigned.status() == status
    assert last_reason(assigned) == "x" * 999 + "…"


def test_a_bot_that_is_sent_back_without_end_fills_no_history(assigned, monkeypatch):
    monkeypatch.setattr(reports, "MOST_RETURNS", 3)
    for _ in range(5):
        for status in ("IN_CALL", "IN_WAITING_ROOM"):
            answer = assigned.report(status, "")
            assert (answer.status_code, answer.json()) == (200, {"shouldLeave": False})
    assert assigned.bot.events.filter(to_status="IN_WAITING_ROOM").count() == 3
    assert assigned.status() == "IN_CALL"
    assigned.report("DONE", "")
    assert assigned.status() == "DONE"


SECRETIVE = (
    "Could not join https://zoom.us/j/555?pwd=S3CRET1 with passcode: S3CRET2 token=S3CRET3 "
    "of postgres://bot:S3CRET4@db"
)


@pytest.mark.parametrize("status", ["IN_CALL", "FAILED"])
@pytest.mark.parametrize("name", ["reason", "failureReason"])
def test_a_secret_in_a_reason_is_neither_stored_nor_logged(assigned, caplog, status, name):
    with caplog.at_level("INFO"):
        assigned.api.post(f"bots/{assigned.bot.pk}/status", {"status": status, name: SECRETIVE})
    assigned.bot.refresh_from_db()
    stored = [*assigned.bot.events.values_list("reason", flat=True), assigned.bot.status_reason]
    stored += [assigned.bot.failure_reason]
    stored += SlotTransition.objects.values_list("reason", flat=True)
    assert any("https://zoom.us/j/555" in text for text in stored)
    assert "S3CRET" not in "".join(stored) + caplog.text


CONFIG = {"passcode": "918273", "login": {"password": 'open"sesame'}, "language": "German"}


@pytest.mark.parametrize(
    ("reason", "kept"),
    [
        ("Refused: 918273, speaks German", "Refused: M, speaks German"),
        ("typed open%22sesame in German", "typed M in German"),
        ({"typed": 'open"sesame'}, '{"typed": "M"}'),
    ],
)
@pytest.mark.parametrize("name", ["reason", "failureReason"])
def test_the_secrets_of_its_own_config_are_hidden_in_a_reason(slot, caplog, name, reason, kept):
    here = Assigned(bot=BotFactory(config=CONFIG))
    with caplog.at_level("INFO"):
        here.api.post(f"bots/{here.bot.pk}/status", {"status": "FAILED", name: reason})
    assert last_reason(here) == kept.replace("M", MASK)
    assert "918273" not in caplog.text


@pytest.mark.parametrize(
    ("address", "reason", "kept"),
    [
        ("https://zoom.us/j/55?pwd=PwIn%20Url&tk=Mixed1", "PwIn Url, Mixed1", "M, M"),
        (
            "https://zoom.us/j/55?p=n0t-plain&from=calendar",
            "n0t-plain from calendar",
            "M from calendar",
        ),
        ("https://zoom.us/j/55#success?pwd=Frag1", "typed Frag1 in 55", "typed M in 55"),
    ],
)
def test_the_passcode_of_its_address_is_hidden_in_a_reason(slot, address, reason, kept):
    here = Assigned(bot=BotFactory(meeting_url=address, platform="zoom"))
    here.report("LEAVING", reason)
    assert last_reason(here) == kept.replace("M", MASK)


def test_a_known_secret_at_the_cut_of_a_long_reason_is_hidden(slot):
    here = Assigned(bot=BotFactory(config=CONFIG))
    here.report("FAILED", "x" * 995 + "918273")
    assert "9182" not in last_reason(here)


def test_the_token_of_a_bot_is_hidden_in_its_reason(assigned):
    mac = assigned.token.rpartition(".")[2]
    assigned.report("FAILED", f"sent {assigned.token}, then {mac} alone")
    assert last_reason(assigned) == f"sent {MASK}, then {MASK} alone"


def test_a_secret_at_the_cut_of_a_long_reason_is_hidden(assigned):
    assigned.report("FAILED", "x" * 970 + " postgres://bot:S3CRET-" + "x" * 30 + "@db")
    assert "S3CRET" not in last_reason(assigned)


def test_a_reason_of_the_maximum_length_is_kept(assigned):
    assigned.report("FAILED", "x" * 1000)
    assert last_reason(assigned) == "x" * 1000


@pytest.mark.parametrize("character", ["\x00", "\ud800"])
def test_characters_that_cannot_be_stored_are_dropped_from_a_reason(assigned, character):
    assert assigned.report("FAILED", f"No{character} entry").status_code == 200
    assert last_reason(assigned) == "No entry"


def test_a_reason_that_becomes_empty_counts_as_missing(assigned):
    assigned.report("FAILED", "\x00")
    assert last_reason(assigned) == "The bot failed and gave no reason"


@pytest.mark.parametrize(
    ("reason", "kept"),
    [
        (5, "5"),
        (["left"], '["left"]'),
        ({"text": "Größe"}, '{"text": "Größe"}'),
        (["x" * 2000], '["' + "x" * 997 + "…"),
        ([], "The bot failed and gave no reason"),
        (False, "The bot failed and gave no reason"),
    ],
)
def test_a_reason_that_is_not_a_string_becomes_one(assigned, reason, kept):
    assert assigned.report("FAILED", reason).status_code == 200
    assert (assigned.status(), last_reason(assigned)) == ("FAILED", kept)


@pytest.mark.parametrize(
    "detail",
    [
        b'"stats": {"loss": NaN, "gain": [Infinity, -Infinity]}',
        b'"stats": 1e999',
        b'"stats": ' + b"9" * 5000,
        b'"reason": "two\nlines"',
        b'"reason": "cut in the middle of \xc3"',
        b'"reason": ' + b"[" * 300 + b"]" * 300,
        b'"stats": ' + b"[" * 3_000 + b"]" * 3_000,
        b'"stats": "\\"[", "more": ' + b'{"a":' * 90_000 + b"1" + b"}" * 90_000,
    ],
)
def test_a_last_report_is_not_refused_for_a_detail(assigned, detail):
    body = b'{"status": "DONE", ' + detail + b"}"
    assert assigned.api.post(f"bots/{assigned.bot.pk}/status", body).status_code == 200
    assert assigned.status() == "DONE"


@pytest.mark.parametrize(
    "body",
    [
        b'\xef\xbb\xbf{"status": "DONE"}',
        b'\xef\xbb\xbf{"status": "DONE", "reason": "caf\xe9"}',
        b"\xef\xbb\xbf\xef\xbb\xbf" + b'{"status": "DONE"}',
        '\ufeff{"status": "DONE"}'.encode("utf-16-le"),
    ],
)
def test_a_last_report_may_begin_with_a_byte_order_mark(assigned, body):
    assert assigned.api.post(f"bots/{assigned.bot.pk}/status", body).status_code == 200
    assert assigned.status() == "DONE"


@pytest.mark.parametrize("status", ["done", " DONE ", "Done\n"])
def test_the_case_of_a_status_and_blanks_around_it_do_not_matter(assigned, status):
    assert assigned.report(status).status_code == 200
    assert assigned.status() == "DONE"


def test_what_is_nested_too_deeply_in_a_report_is_left_out(assigned):
    reason = b'{"why": "No entry", "deep": ' + b"[" * 3_000 + b"]" * 3_000 + b"}"
    body = b'{"status": "FAILED", "reason": ' + reason + b"}"
    assert assigned.api.post(f"bots/{assigned.bot.pk}/status", body).status_code == 200
    assert '"why": "No entry"' in last_reason(assigned)


def test_clients_must_still_send_strict_json(client_api):
    for detail in ('"x": NaN', '"x": 1e999', '"x": "two\nlines"'):
        body = '{"meetingUrl": "https://zoom.us/j/1", "config": {' + detail + "}}"
        assert client_api.post("bots", body).status_code == 400


@pytest.mark.parametrize("reason", [{}, {"reason": None}])
def test_a_failure_reason_replaces_a_missing_reason(assigned, reason):
    body = {"status": "FAILED", "failureReason": "No entry\x00", **reason}
    assert assigned.api.post(f"bots/{assigned.bot.pk}/status", body).status_code == 200
    assert last_reason(assigned) == "No entry"


def test_the_reason_wins_over_the_failure_reason(assigned):
    body = {"status": "FAILED", "reason": "No entry", "failureReason": "E17"}
    assigned.api.post(f"bots/{assigned.bot.pk}/status", body)
    assert last_reason(assigned) == "No entry"


@pytest.mark.parametrize(
    "unknown", [{"failureReason": {"code": 17}}, {"exitCode": 1}, {"a\x00b": "\ud800"}]
)
def test_an_unknown_field_does_not_cost_the_slot(assigned, unknown):
    path = f"bots/{assigned.bot.pk}"
    assert assigned.api.post(f"{path}/heartbeat", unknown).status_code == 200
    answer = assigned.api.post(f"{path}/status", {"status": "FAILED", **unknown})
    assert (answer.status_code, assigned.status()) == (200, "FAILED")


@pytest.mark.parametrize("call", ["heartbeat", "status"])
def test_an_unknown_parameter_does_not_cost_the_slot(assigned, call):
    body = {"status": "FAILED"}
    assert assigned.api.post(f"bots/{assigned.bot.pk}/{call}?try=2", body).status_code == 200


# --- The bot of a container -------------------------------------------------------------------


def test_a_container_gets_its_bot_with_the_config(slot):
    here = Assigned(bot=BotFactory(config={"language": "de"}))
    answer = here.api.get(f"slots/{slot.coolify_uuid}/bot")
    assert answer.status_code == 200
    assert (answer.json()["id"], answer.json()["config"]) == (here.bot.pk, {"language": "de"})
    assert (answer.json()["released"], answer.json()["shouldLeave"]) == (False, False)


def test_a_container_whose_application_was_replaced_is_released(assigned):
    uuid = assigned.slot.coolify_uuid
    assigned.release()
    Slot.objects.update(coolify_uuid="a-new-one")
    assert assigned.api.get(f"slots/{uuid}/bot").json()["released"] is True


@pytest.mark.parametrize("uuid", ["unknown", "%00", "a b", "x" * 65])
def test_an_unknown_container_is_refused(assigned, uuid):
    assert assigned.api.get(f"slots/{uuid}/bot").status_code in (404, 422)
