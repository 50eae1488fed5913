"""What a container may write, and what is kept of it."""

import pytest

from bots.masking import MASK, secret_values
from bots.models import Bot
from bots.secrets.known import MOST_SECRETS
from pool.controller.logs.text import LARGEST, LARGEST_RAW, LINES, LONGEST_LINE, clean_log

TOKEN = "b12.s3.e4." + "a" * 43


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07shown", "shown"),
        ("\x1b]8;;https://evil.example\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("nul\x00byte", "nulbyte"),
        ("half \ud83d of a character", "half  of a character"),
        ("left\u202eright", "leftright"),
        ("10 %\r50 %\r100 %\n", "100 %"),
        ("windows\r\nlines\r\n", "windows\nlines"),
        ("tab\tstays", "tab\tstays"),
        ("<script>alert(1)</script>", "<script>alert(1)</script>"),
        ("2026-11-16T09:30:59.120456789Z joined", "2026-11-16T09:30:59.120Z joined"),
        ("", ""),
    ],
)
def test_a_log_is_text_without_control_characters(raw, text):
    assert clean_log(raw).text == text


@pytest.mark.parametrize(
    "line",
    [
        "GET https://api.example/bot?token=S3cretValue&x=1",
        "Authorization: Bearer S3cretValue",
        "authorization: Basic S3cretValue==",
        "Cookie: a=b; session=S3cretValue",
        'body {"apiKey": "S3cretValue", "n": 1}',
        r"body {\"password\":\"S3cretValue\"}",
        "export DB_PASSWORD='S3cretValue and more'",
        "postgres://user:S3cretValue@db/1",
        "zoom.us/j/1?pwd=S3cretValue",
        "BOT_DATA=eyJib3RJZCI6MSwidG9rS3cretValue",
        "decoded b12.s3.e4.S3cretValue",
        "\x1b[1mto\x1b[0mken=S3cretValue",
        "key bp_S3cretValue-abc",
        "-----BEGIN RSA PRIVATE KEY-----\nS3cretValue\n-----END RSA PRIVATE KEY-----",
        "-----BEGIN PGP PRIVATE KEY BLOCK-----\nS3cretValue\n-----END PGP PRIVATE KEY BLOCK-----",
    ],
)
def test_what_looks_like_a_secret_is_hidden(line):
    text = clean_log(f"before\n{line}\nafter").text
    assert "S3cretValue" not in text
    assert MASK in text
    assert text.startswith("before\n") and text.endswith("\nafter")


def test_our_own_secrets_are_hidden_wherever_they_are(settings):
    settings.COOLIFY_API_TOKEN = "9|very/own"
    text = clean_log(f"it is 9|very/own or 9%7Cvery%2Fown, {settings.SECRET_KEY}").text
    assert text == f"it is {MASK} or {MASK}, {MASK}"


def test_the_passcode_of_the_meeting_is_hidden():
    bot = Bot(meeting_url="https://zoom.us/j/55?pwd=PwInUrl1")
    assert clean_log("typed PwInUrl1", bot=bot).text == f"typed {MASK}"


def test_thousands_of_secrets_in_a_configuration_are_not_all_looked_for():
    """64 kB of them would take seconds for each log."""
    bot = Bot(config={"passwords": [f"secret-{n}-" for n in range(MOST_SECRETS + 1)]})
    log = f"secret-0- secret-{MOST_SECRETS - 1}- secret-{MOST_SECRETS}-"
    assert clean_log(log, bot=bot).text == f"{MASK} {MASK} secret-{MOST_SECRETS}-"


def test_values_under_a_secret_name_are_found_at_any_depth():
    config = {"a": [{"token": {"deep": ["one", 2222]}}], "name": "Notetaker", "pin": 1234}
    assert sorted(secret_values(config)) == ["1234", "2222", "one"]


def test_ordinary_lines_stay_as_they_are():
    line = "sha256:4bf5122f344554c5 pulled at 12:03:04, 3 keys, rss 812 MB"
    assert clean_log(line).text == line


def test_only_the_last_lines_are_kept():
    found = clean_log("\n".join(f"line {n}" for n in range(LINES + 5)))
    assert (found.lines, found.is_cut) == (LINES, True)
    assert found.text.startswith("line 5\n")


def test_a_log_is_bounded_whatever_its_lines():
    found = clean_log("\n".join(["x" * 900] * LINES))
    assert len(found.text) <= LARGEST
    assert found.is_cut


def test_a_huge_line_is_cut():
    found = clean_log("x" * 5_000)
    assert len(found.text) == LONGEST_LINE + 2


def test_a_secret_at_the_cut_of_a_huge_line_is_hidden():
    start = "x" * (LONGEST_LINE - 20)
    assert "hunter22" not in clean_log(f"{start} password=hunter22hunter22hunter22").text


def test_no_half_of_a_secret_is_left_at_the_cut_of_a_huge_log():
    raw = TOKEN + "\nlast line" + " " * (LARGEST_RAW - 30)
    assert clean_log(raw).text == "last line"


@pytest.mark.parametrize("evil", ["?", "a=", "eyJ", '\\"', "bearer ", "1|", "://", "&a;"])
def test_no_line_takes_long(evil):
    """A pattern that backtracks would need minutes, and the test would time out."""
    clean_log("\n".join([evil * (LONGEST_LINE // len(evil))] * LINES))
