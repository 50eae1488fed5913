import pytest

from bots.meetings import WrongAddress, platform_of
from bots.status import Platform


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
