import re

import pytest

from bots.masking import MASK
from bots.meetings import WrongAddress, masked_address, platform_of, searched_words
from bots.status import Platform

# Directions, joiners, spaces, separators, fillers, tags, what is not assigned.
UNSEEN = (
    "\u202e\u202a\u2066\u2069\u200e\u061c\u200b\u200d\u2060\ufeff\xad\x85\xa0\u3000\u2028\u3164"
)
UNSEEN += "\u115f\u2800\ufe0f\u034f\U000e0041\U000e0100\ue000\x7f\t"


@pytest.mark.parametrize(
    ("address", "platform"),
    [
        ("https://meet.google.com/abc-defg-hij", "google-meet"),
        ("https://meet.google.com/abc-defg-hij?authuser=0", "google-meet"),
        ("https://meet.google.com/lookup/team-standup", "google-meet"),
        ("HTTPS://MEET.GOOGLE.COM/abc-defg-hij", "google-meet"),
        ("https://teams.microsoft.com/l/meetup-join/19%3ameeting_x%40thread.v2/0", "teams"),
        ("https://teams.microsoft.com/meet/2345678901234?p=abc", "teams"),
        ("https://teams.microsoft.com/_#/l/meetup-join/19:meeting_x@thread.v2/0", "teams"),
        ("https://teams.live.com/meet/9312345678901?p=abc", "teams"),
        ("https://gov.teams.microsoft.us/l/meetup-join/19%3ameeting_x", "teams"),
        ("https://zoom.us/j/12345678901", "zoom"),
        ("https://us02web.zoom.us/j/12345678901?pwd=abc", "zoom"),
        ("https://company.zoom.us/my/jane.doe", "zoom"),
        ("https://app.zoom.us/wc/12345678901/join", "zoom"),
        ("https://company.zoomgov.com/j/1601234567", "zoom"),
        ("http://zoom.us/j/1", "zoom"),
    ],
)
def test_the_platform_follows_from_the_address(address, platform):
    assert platform_of(address) == platform


@pytest.mark.parametrize(
    "address",
    [
        "",
        "meet.google.com/abc-defg-hij",
        "ftp://zoom.us/j/1",
        "javascript:alert(1)",
        "https://",
        "https://meet.google.com",
        "https://meet.google.com/",
        "https://meet.google.com.evil.example/abc-defg-hij",
        "https://evil.example/meet.google.com/abc-defg-hij",
        "https://meet.google.com@evil.example/abc",
        "https://user@meet.google.com/abc",
        "https://notzoom.us/j/1",
        "https://zoom.us/pricing",
        "https://teams.microsoft.com/",
        "https://zoom.us/j/1 2",
        "https://zoom.us/j/1\n",
        "https://zoom.us\\j\\1",
        "https://zoom.us:99999/j/1",
        "https://[zoom.us/j/1",
        *(f"https://zoom.us/j/1{unseen}2" for unseen in UNSEEN),
        "https://zoom.us/j/" + "1" * 2000,
        "https://zoom.us/j/" + "я" * 1000,
    ],
)
def test_an_address_of_no_meeting_is_refused(address):
    with pytest.raises(WrongAddress):
        platform_of(address)


def test_a_company_may_host_meetings_on_its_own_domain():
    assert platform_of("https://meet.company.example/j/1", given=Platform.ZOOM) == "zoom"


def test_an_address_of_a_different_platform_is_refused():
    with pytest.raises(WrongAddress, match="This is a zoom address, not a teams address"):
        platform_of("https://zoom.us/j/1", given=Platform.TEAMS)


@pytest.mark.parametrize("unseen", UNSEEN)
def test_an_invisible_character_is_refused_wherever_the_meeting_is(unseen):
    with pytest.raises(WrongAddress, match="invisible"):
        platform_of(f"https://meet.company.example/j/1?x={unseen}", given=Platform.ZOOM)


@pytest.mark.parametrize(
    "address", ["https://meet.company.example/j/Jürgen", "https://bücher.example/会议"]
)
def test_letters_of_all_languages_are_allowed(address):
    assert platform_of(address, given=Platform.ZOOM) == "zoom"


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("https://zoom.us/j/1?pwd=s3cret", "https://zoom.us/j/1?pwd=M"),
        (
            "https://zoom.us/j/1?pwd=s3;cret&tk=s3cret#success",
            "https://zoom.us/j/1?pwd=M&tk=M#success",
        ),
        ("https://zoom.us/j/1?s3cret", "https://zoom.us/j/1?M"),
        ("https://zoom.us/j/1;pwd=s3cret", "https://zoom.us/j/1;pwd=M"),
        ("https://zoom.us/j/1#pwd=s3cret", "https://zoom.us/j/1#pwd=M"),
        ("https://teams.live.com/meet/93?p=s3cret", "https://teams.live.com/meet/93?p=M"),
        (
            "https://teams.microsoft.com/_#/l/meetup-join/19:meeting_x@thread.v2/0?context=s3cret",
            "https://teams.microsoft.com/_#/l/meetup-join/19:meeting_x@thread.v2/0?context=M",
        ),
        ("https://meet.google.com/abc-defg-hij", "https://meet.google.com/abc-defg-hij"),
        # Escaped signs.
        ("https://zoom.us/j/77%3Fpwd%3Ds3cret", "https://zoom.us/j/77%3Fpwd%3DM"),
        ("https://zoom.us/j/77%253Fuser%253Ds3cret", "https://zoom.us/j/77?user=M"),
        ("https://zoom.us/j/77?a=b%23/s3cret", "https://zoom.us/j/77?a=M"),
        ("https://zoom.us/j/77%3Fuser%3D%E2%80%AEs3cret", "https://zoom.us/j/77?user=M"),
        ("https://zoom.us/j/a%20b%0Ac%3A%40", "https://zoom.us/j/a%20b%0Ac%3A%40"),
    ],
)
def test_an_address_is_shown_without_the_values_of_its_query(address, shown):
    assert masked_address(address) == re.sub(r"(?<=[=?D])M", MASK, shown)
    assert "s3cret" not in searched_words(address)
