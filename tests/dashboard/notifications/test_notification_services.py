"""Which addresses are allowed, and what is shown of them."""

import os
import sys
import warnings

import pytest
from apprise.manager_plugins import NotificationManager

from dashboard.notifications.courier import Refused, Witness, guard
from dashboard.notifications.services import SERVICES, WrongAddress, check_address


@pytest.fixture(scope="module")
def known():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of Apprise's own imports
        return set(NotificationManager().schemas())


@pytest.mark.parametrize("service", SERVICES, ids=lambda service: service.name)
def test_every_service_that_is_offered_is_known_to_apprise(service, known):
    assert check_address(service.example).startswith(service.name)
    for scheme in service.schemes:
        assert scheme in known


@pytest.mark.parametrize(
    "scheme",
    ["dbus", "gnome", "glib", "qt", "macosx", "windows", "syslog", "rsyslog", "exec", "file",
     "json", "form", "xml", "apprise", "apprises", "mqtt", "custom", "growl", "kodi", "irc"],
)  # fmt: skip
def test_services_of_this_machine_and_gateways_are_refused(scheme):
    with pytest.raises(WrongAddress, match="must begin with"):
        check_address(f"{scheme}://127.0.0.1/x")


@pytest.mark.parametrize(
    "url",
    ["http://127.0.0.1/", "https://10.0.0.1/x", "gotify://192.168.1.1/token", "ntfy://[::1]/topic",
     "mailto://user:pw@localhost", "mmost://169.254.169.254/token", "ntfy://[::ffff:10.0.0.1]/x"],
)  # fmt: skip
def test_private_addresses_are_refused_unless_allowed(url, settings):
    with pytest.raises(WrongAddress, match="WEBHOOK_ALLOW_PRIVATE"):
        check_address(url)
    settings.WEBHOOK_ALLOW_PRIVATE = True
    check_address(url)


@pytest.mark.parametrize(
    "option",
    [
        "?template=/etc/passwd",
        "?+Template=x",
        "?pgp=yes",
        "?a=1;attach=/etc/passwd",
        "?redirect=yes",
        "#channel?template=x",
        "?a=b#&%74emplate=x",
    ],
)
def test_options_that_read_files_or_follow_redirects_are_refused(option):
    with pytest.raises(WrongAddress, match="is not allowed"):
        check_address(f"slack://a/b/c/{option}")


@pytest.mark.parametrize("url", ["", "nonsense", "http://[", "slack://a b", "https://u:p@host/"])
def test_nonsense_is_refused_without_repeating_it(url):
    with pytest.raises(WrongAddress) as refusal:
        check_address(url)
    assert not url or url not in str(refusal.value)


def test_only_the_host_of_an_address_is_shown():
    assert check_address("slack://tokenA/tokenB/tokenC") == "Slack"
    assert check_address("https://app.example/hook/s3cret?k=v") == "Webhook, app.example"
    mail = "mailtos://user:pw@smtp.example.com?to=ops@example.com"
    assert check_address(mail) == "E-mail, smtp.example.com"


# --- The guard of the process that calls Apprise ---


@pytest.mark.parametrize(
    ("event", "given"),
    [
        ("socket.connect", (None, ("127.0.0.1", 25))),
        ("socket.connect", (None, ("::1", 25, 0, 0))),
        ("socket.connect", (None, "/run/docker.sock")),
        ("socket.sendto", (None, ("10.0.0.1", 53))),
        ("subprocess.Popen", ("sh", [], None, None)),
        ("os.system", (b"true",)),
        ("open", ("/etc/passwd", "r", os.O_RDONLY)),
        ("open", (__file__, "r", os.O_RDONLY)),
        ("open", (f"{sys.prefix}/x", "w", os.O_WRONLY | os.O_CREAT)),
        ("open", (f"{sys.prefix}/../../etc/passwd", "r", os.O_RDONLY)),
    ],
)
def test_the_guard_refuses(event, given):
    with pytest.raises(Refused):
        guard(Witness(), allow_private=False)(event, given)


def test_the_guard_lets_public_addresses_and_pythons_own_files_pass():
    check = guard(Witness(), allow_private=False)
    check("socket.connect", (None, ("93.184.215.14", 443)))
    check("open", (f"{sys.prefix}/lib/x.py", "r", os.O_RDONLY))


def test_no_part_of_an_address_is_repeated_in_an_error():
    witness = Witness()
    witness.said = "Failed to send to hunter2@smtp.example.com: xoxb-123"
    words = witness.words("mailto://user:hunter2@smtp.example.com?token=xoxb-123")
    assert words == "Failed to send to …@…: …"
