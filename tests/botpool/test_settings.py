"""Settings come from the environment only. A wrong value is refused with one line."""

import errno
import os
import runpy
import subprocess
import sys
from unittest.mock import Mock, patch

import pytest
from django.conf import global_settings

from botpool.runtime.secret_files import read_or_make, write_privately


def only(**environment):
    """Nothing in the environment but these variables."""
    kept = {name: os.environ[name] for name in ("PATH", "BOTPOOL_DATA_DIR", "BOTPOOL_ENV_FILE")}
    return patch.dict(os.environ, kept | environment, clear=True)


def read(**environment):
    with only(**environment):
        found = vars(global_settings) | runpy.run_path("botpool/settings.py")
    return {name: str(value) for name, value in found.items() if name.isupper()}


def refused(**environment):
    """The line with which the program stops."""
    with only(**environment), pytest.raises(SystemExit) as stop:
        runpy.run_path("botpool/settings.py")
    [line] = str(stop.value).splitlines()
    return line


def manage(*words, **environment):
    with only(**environment):
        return subprocess.run(
            [sys.executable, "manage.py", *words], capture_output=True, text=True, check=False
        )


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("MAX_POOL_SIZE", "many", "a whole number from 0 to 10000"),
        ("MAX_POOL_SIZE_ZOOM", "-1", "a whole number from 0 to 10000"),
        ("COOLIFY_RATE_LIMIT", "0", "a whole number from 1 to 100000"),
        ("COOLIFY_CONCURRENCY", "0", "a whole number from 1 to 64"),
        ("COOLIFY_CONCURRENCY", "65", "a whole number from 1 to 64"),
        ("WORKERS", "0", "a whole number from 1 to 66"),
        ("NOTIFY_FAILURE_PERCENT", "0", "a whole number from 1 to 100"),
        ("DEPLOY_TIMEOUT", "25m", "milliseconds"),
        ("COOLIFY_DESCRIPTION_STYLE", "curly", "brackets or plain"),
        ("COOLIFY_API_URL", "coolify.example", "http:// or https://"),
        ("COOLIFY_API_URL", "https://coolify.example", "ends with /api/v1"),
        ("BOTPOOL_PUBLIC_URL", "http://[", "http:// or https://"),
        ("COOLIFY_API_URL", "https://no address/api/v1", "http:// or https://"),
        ("BOTPOOL_PUBLIC_URL", "http://x:99999", "a port from 1 to 65535"),
        ("BOTPOOL_PUBLIC_URL", "http://x:0", "a port from 1 to 65535"),
        ("BOTPOOL_PUBLIC_URL", "http://x:abc/", "a port from 1 to 65535"),
        ("BOTPOOL_PUBLIC_URL", "https://x/y?z=1#f", "without query and fragment"),
        ("BOTPOOL_PUBLIC_URL", "https://x/?", "without query and fragment"),
        ("BOTPOOL_PUBLIC_URL", "https://x/#f", "without query and fragment"),
        ("COOLIFY_API_URL", "http://x:port/api/v1", "a port from 1 to 65535"),
        ("COOLIFY_API_URL", "http://x/?y=/api/v1", "without query and fragment"),
        ("REDIS_URL", "redis://h:99999", "a port from 1 to 65535"),
        ("REDIS_URL", "redis://h/0#f", "without fragment"),
        ("BOTPOOL_DATA_DIR", "~nosuchuserx/x", "the path of a directory"),
        ("SLOT_NAME_PREFIX", "Pool!", "lower-case letters"),
        ("BOT_IMAGE_ZOOM", "no-tag", "an image with its tag"),
        ("BOT_IMAGE_ZOOM", "registry.example/Bot:1", "in lower case"),
        ("BOT_IMAGE_ZOOM", "bot:sha256:abc", "an image with its tag"),
        ("BOT_IMAGE_ZOOM", "bot:" + 129 * "a", "an image with its tag"),
        ("DATABASE_URL", "sqlite:///db.sqlite3", "SQLite and others are not supported"),
        ("DEFAULT_QUEUE_TIMEOUT", "700000", "at most MAX_QUEUE_TIMEOUT"),
        ("REDIS_URL", "http://redis", "redis://"),
        ("ALLOWED_HOSTS", "localhost,http://foo", "host names without http:// and port"),
        ("ALLOWED_HOSTS", "foo:8000", "host names without http:// and port"),
        ("COOLIFY_SERVER_UUID", ",,", "one or more"),
        ("MAX_POOL_SIZE_ZOMM", "5", "MAX_POOL_SIZE_TEAMS, MAX_POOL_SIZE_ZOOM"),
        ("SECRET_KEY", "50 random characters, the same for all processes", "without spaces"),
        ("SECRET_KEY", "0123456789abcdef" * 2 + "\x01", "without spaces"),
        ("SECRET_KEY_FALLBACKS", "0123456789abcdef,a key", "without spaces"),
        ("COOLIFY_WEBHOOK_SECRET", "Zm9v/YmFy" * 8, "letters, digits and -._~"),
        ("COOLIFY_WEBHOOK_SECRET", "what?", "letters, digits and -._~"),
        ("COOLIFY_WEBHOOK_SECRET", "random characters", "letters, digits and -._~"),
        ("DATABASE_URL", "postgres://bp:a/b@db:5432/pool", "percent-encoded: / as %2F"),
        ("DATABASE_URL", "postgres://bp:a#b@db:5432/pool", "percent-encoded: / as %2F"),
        ("DATABASE_URL", "postgres://bp:1/2@db:5432/pool", "percent-encoded: / as %2F"),
        ("DATABASE_URL", "postgres://bp:12?b@db:5432/pool", "percent-encoded: / as %2F"),
        ("DATABASE_URL", "postgres://bp:p@ss/w@db:5432/pool", "percent-encoded: / as %2F"),
        ("DATABASE_URL", "postgres://db:5432/", "host:port/name"),
        ("DATABASE_URL", "postgres://db/pool?pool=true", "what libpq knows"),
        ("DATABASE_URL", "postgres://db/pool?conn_max_age=60", "what libpq knows"),
        ("DATABASE_URL", "postgres://db/pool?connect_timeout=x", "what libpq knows"),
        ("BOTPOOL_DATA_DIR", "/tmp/a\nb", "printable characters"),
        ("BOTPOOL_DATA_DIR", "/tmp/a\udcff", "printable characters"),
        ("FORWARDED_ALLOW_IPS", "proxy.example", "addresses and networks"),
        ("BOT_IMAGE_MEET", "bot:1", "BOT_IMAGE_GOOGLE_MEET, BOT_IMAGE_TEAMS"),
    ],
)
def test_a_wrong_value_is_refused_with_one_line(name, value, allowed):
    line = refused(**{name: value})
    assert name in line
    assert allowed in line


def test_a_wrong_value_is_shown():
    done = manage("check", MAX_POOL_SIZE="many")
    assert done.returncode == 1
    [line] = done.stderr.splitlines()
    assert "'many'" in line


@pytest.mark.parametrize(
    "name", ["SECRET_KEY", "SECRET_KEY_FALLBACKS", "COOLIFY_WEBHOOK_SECRET", "REDIS_URL"]
)
def test_a_wrong_secret_is_not_shown(name):
    assert "hunter" not in refused(**{name: "hunter /2"})


def test_the_password_in_a_wrong_database_url_is_not_shown():
    assert "hunter2" not in refused(DATABASE_URL="mysql://root:hunter2@db/botpool")


@pytest.mark.parametrize("name", ["COOLIFY_API_URL", "BOTPOOL_PUBLIC_URL"])
@pytest.mark.parametrize(
    "url",
    [
        "http://u:hunter2@127.0.0.1:9/api/v1",
        "http://hunter2@127.0.0.1:9/api/v1",
        "http://u:hunter2/x@127.0.0.1:9/api/v1",
        "ftp://u:hunter2@127.0.0.1:9/api/v1",
    ],
)
def test_an_address_with_a_password_is_refused_without_showing_it(name, url):
    line = refused(**{name: url})
    assert line.startswith(f"botpool: {name} is (hidden); allowed: ")
    assert "without user name and password" in line
    assert "hunter2" not in line


def test_an_address_may_end_with_a_slash():
    found = read(COOLIFY_API_URL="https://coolify.example/api/v1/")
    assert found["COOLIFY_API_URL"] == "https://coolify.example/api/v1"


@pytest.mark.parametrize("host", ["*", ".example.org", "a_b.example", "10.0.0.1", "[::1]", ""])
def test_allowed_hosts_accepts_names_domains_addresses_and_wildcards(host):
    assert (
        "botpool.example"
        in read(ALLOWED_HOSTS=host, BOTPOOL_PUBLIC_URL="http://botpool.example")["ALLOWED_HOSTS"]
    )


@pytest.mark.parametrize("secret", ["+abc", "a!b", "Zm9v+YmFy=="])
def test_the_webhook_secret_accepts_characters_that_need_no_escaping(secret):
    secret += "0123456789abcdef" * 2
    assert read(COOLIFY_WEBHOOK_SECRET=secret)["COOLIFY_WEBHOOK_SECRET"] == secret


@pytest.mark.parametrize("url", ["https://x/?token=hunter2", "https://x/#hunter2"])
def test_a_query_that_is_refused_is_not_shown(url):
    assert "hunter2" not in refused(BOTPOOL_PUBLIC_URL=url)


@pytest.mark.parametrize(
    ("name", "url"),
    [
        ("REDIS_URL", "rediss://h:6380/0?ssl_cert_reqs=none"),
        ("REDIS_URL", "unix:///run/redis.sock?db=1"),
        ("COOLIFY_API_URL", "http://[::1]:65535/api/v1"),
    ],
)
def test_a_port_and_the_options_of_redis_are_accepted(name, url):
    assert read(**{name: url})[name] == url


def test_redis_may_be_a_socket():
    assert read(REDIS_URL="unix:///run/redis.sock")["REDIS_URL"] == "unix:///run/redis.sock"


def test_each_platform_can_have_its_own_size():
    sizes = read(MAX_POOL_SIZE="7", MAX_POOL_SIZE_ZOOM="3")["MAX_POOL_SIZES"]
    assert sizes == "{'google-meet': 7, 'teams': 7, 'zoom': 3}"


def test_the_defaults_are_those_of_the_design():
    found = read()
    assert found["MAX_POOL_SIZE"] == "100"
    assert found["DEFAULT_QUEUE_TIMEOUT"] == "0:05:00"
    assert found["MAX_QUEUE_TIMEOUT"] == "0:10:00"
    assert found["POLL_INTERVAL"] == "0:00:01"
    assert found["DEPLOY_TIMEOUT"] == "0:25:00"
    assert found["DEPLOY_POLL_INTERVAL"] == "0:00:15"
    assert found["DEPLOY_GRACE_PERIOD"] == "0:03:00"
    assert found["DEPLOY_STUCK_AFTER"] == "0:30:00"
    assert found["HEARTBEAT_TIMEOUT"] == "0:05:00"
    assert found["RECONCILE_INTERVAL"] == "0:00:30"
    assert found["LOCK_TTL"] == "0:00:10"
    assert (found["LOCK_RETRY_COUNT"], found["LOCK_RETRY_DELAY"]) == ("10", "0:00:00.200000")
    assert found["LOCK_RETRY_JITTER"] == "0:00:00.100000"


@pytest.mark.parametrize(
    ("given", "slots_at_once", "workers"),
    [
        ({}, "8", "10"),
        ({"COOLIFY_CONCURRENCY": "64"}, "64", "66"),
        ({"COOLIFY_CONCURRENCY": "3", "WORKERS": "5"}, "3", "5"),
        ({"WORKERS": "2"}, "8", "2"),
    ],
)
def test_there_are_two_workers_more_than_slots_at_once_by_default(given, slots_at_once, workers):
    found = read(**given)
    assert (found["COOLIFY_CONCURRENCY"], found["WORKERS"]) == (slots_at_once, workers)
    assert f"'workers': {workers}," in found["Q_CLUSTER"]


@pytest.mark.parametrize(
    ("given", "broker"),
    [
        ({}, "core.jobs.broker.DatabaseBroker"),
        ({"REDIS_URL": "redis://127.0.0.1"}, "core.jobs.redis.RedisBroker"),
    ],
)
def test_both_brokers_have_lanes(given, broker):
    assert f"'broker_class': '{broker}'" in read(**given)["Q_CLUSTER"]


def test_debug_is_off_and_time_is_utc():
    found = read()
    assert (found["DEBUG"], found["TIME_ZONE"], found["USE_TZ"]) == ("False", "UTC", "True")


def test_behind_https_cookies_are_secure():
    found = read(BOTPOOL_PUBLIC_URL="https://botpool.example")
    assert (found["SESSION_COOKIE_SECURE"], found["CSRF_COOKIE_SECURE"]) == ("True", "True")
    assert "botpool.example" in found["ALLOWED_HOSTS"]


def test_hsts_applies_to_this_host_only():
    found = read(BOTPOOL_PUBLIC_URL="https://botpool.example")
    assert found["SECURE_HSTS_SECONDS"] == str(365 * 24 * 3600)
    assert found["SECURE_HSTS_INCLUDE_SUBDOMAINS"] == "False"
    assert found["SECURE_HSTS_PRELOAD"] == "False"


def test_a_database_url_may_contain_a_password():
    found = read(
        DATABASE_URL="postgres://bp:secret@db.example:6543/pool", SECRET_KEY="0123456789abcdef" * 4
    )
    assert "'HOST': 'db.example'" in found["DATABASES"]
    assert "'PORT': 6543" in found["DATABASES"]


def test_percent_encoded_characters_in_the_password_are_decoded():
    found = read(DATABASE_URL="postgres://bp:a%2Fb%23c%40d@db.example/pool")
    assert "'PASSWORD': 'a/b#c@d'" in found["DATABASES"]


def test_a_short_key_from_the_environment_is_left_to_the_doctor():
    found = read(SECRET_KEY="abc", COOLIFY_WEBHOOK_SECRET="def")
    assert (found["SECRET_KEY"], found["COOLIFY_WEBHOOK_SECRET"]) == ("abc", "def")


def test_a_hexadecimal_secret_is_accepted():
    secret = "0123456789abcdef" * 4
    found = read(SECRET_KEY=secret, COOLIFY_WEBHOOK_SECRET=secret)
    assert (found["SECRET_KEY"], found["COOLIFY_WEBHOOK_SECRET"]) == (secret, secret)


def test_the_secret_key_is_generated_once_and_private(tmp_path):
    first = read(BOTPOOL_DATA_DIR=str(tmp_path))["SECRET_KEY"]
    assert read(BOTPOOL_DATA_DIR=str(tmp_path))["SECRET_KEY"] == first
    assert (tmp_path / "secret_key").stat().st_mode & 0o777 == 0o600
    assert len(first) >= 50


def test_production_settings_pass_djangos_deployment_check():
    done = manage(
        *("check", "--deploy", "--fail-level", "WARNING"),
        BOTPOOL_PUBLIC_URL="https://botpool.example",
        SECRET_KEY="correct-horse-battery-staple-0123456789-abcdefghijklmnop",
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", ["secret_key", "coolify_webhook_secret"])
@pytest.mark.parametrize("content", ["", "\n", "abc", "x" * 31, "9qzLw2" * 5])
def test_an_empty_or_short_secret_file_is_refused_with_one_line(tmp_path, name, content):
    (tmp_path / name).write_text(content)
    line = refused(BOTPOOL_DATA_DIR=str(tmp_path))
    assert str(tmp_path / name) in line
    assert "delete" in line.lower()
    assert (tmp_path / name).read_text() == content  # for its owner to look at


SECRET = "0123456789abcdef" * 3


def _link_in_a_circle(path):
    path.symlink_to(path)


@pytest.mark.parametrize("name", ["secret_key", "coolify_webhook_secret"])
@pytest.mark.parametrize(
    ("damage", "fault"),
    [
        (lambda path: path.write_bytes(b"\0" * 64), "control characters"),
        (lambda path: path.write_bytes(b"\xff\xfe" * 40), "is not text"),
        (lambda path: path.write_text("k" * 40), "fewer than 5 different characters"),
        (lambda path: path.write_text(f"{SECRET}\n{SECRET}/\n"), "several lines"),
        (lambda path: path.mkdir(), "is not a file"),
        (os.mkfifo, "is not a file"),
        (lambda path: path.symlink_to("missing"), "a link to a file that does not exist"),
        (_link_in_a_circle, "cannot be read (Too many levels of symbolic links)"),
    ],
)
def test_a_damaged_secret_file_is_refused_with_one_line(tmp_path, name, damage, fault):
    damage(tmp_path / name)
    line = refused(BOTPOOL_DATA_DIR=str(tmp_path))
    assert f"{tmp_path / name} " in line
    assert fault in line
    assert SECRET not in line


def test_a_webhook_secret_in_a_file_fits_into_a_path(tmp_path):
    (tmp_path / "coolify_webhook_secret").write_text(f"{SECRET}/{SECRET}")
    assert "letters, digits and -._~" in refused(BOTPOOL_DATA_DIR=str(tmp_path))


@pytest.mark.parametrize(
    "content",
    ["", "{", "[1, 2]", "7", "null", '{"url": 1}', '{"servers": ["a"]}', "[" * 100_000],
)
def test_a_damaged_address_of_the_simulator_is_ignored(tmp_path, content):
    (tmp_path / "simulator.json").write_text(content)
    found = read(BOTPOOL_DATA_DIR=str(tmp_path))
    assert found["COOLIFY_API_URL"] == "http://127.0.0.1:8780/api/v1"


def test_a_file_that_was_named_must_be_there(tmp_path):
    for path in (tmp_path / "missing/.env", tmp_path):
        done = manage("check", BOTPOOL_ENV_FILE=str(path))
        assert done.returncode == 1
        [line] = done.stderr.splitlines()
        assert line.startswith(f"botpool: BOTPOOL_ENV_FILE names {path}, which is not a file")


def test_a_named_file_is_read_and_an_empty_name_means_none(tmp_path):
    (tmp_path / "env").write_text("MAX_POOL_SIZE=many\n")
    assert "MAX_POOL_SIZE is 'many'" in manage("check", BOTPOOL_ENV_FILE=f"{tmp_path}/env").stderr
    assert manage("check", BOTPOOL_ENV_FILE=" ").returncode == 0


def test_a_full_disk_leaves_no_draft_of_a_secret(tmp_path, monkeypatch):
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    monkeypatch.setattr(os, "fsync", Mock(side_effect=full))
    with pytest.raises(SystemExit, match="No space left on device"):
        read_or_make(tmp_path / "secret_key")
    assert list(tmp_path.iterdir()) == []


def test_a_file_as_data_directory_is_refused_with_one_line(tmp_path):
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file", tmp_path / "file/below"):
        done = manage("check", BOTPOOL_DATA_DIR=str(path))
        assert done.returncode == 1
        [line] = done.stderr.splitlines()
        assert f"botpool: {path} " in line
        assert "set BOTPOOL_DATA_DIR to a directory" in line


def test_a_data_directory_that_links_to_itself_is_refused_with_one_line(tmp_path):
    _link_in_a_circle(tmp_path / "link")
    line = refused(BOTPOOL_DATA_DIR=f"{tmp_path}/link/data")
    assert line.startswith("botpool: ")
    assert f"{tmp_path}/link" in line and "BOTPOOL_DATA_DIR" in line


@pytest.mark.parametrize(
    "line",
    ['COOLIFY_API_TOKEN="1|hunter2', "COOLIFY_API_TOKEN: hunter2", "COOLIFY_API_TOKEN hunter2"],
)
def test_a_line_that_cannot_be_read_is_refused(tmp_path, line):
    """It was left out, and Botpool started with the default: the simulator."""
    (tmp_path / "env").write_text(f"# Ours\nLOG_LEVEL=INFO\n\n{line}\n")
    done = manage("check", BOTPOOL_ENV_FILE=f"{tmp_path}/env")
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        f"botpool: line 4 of {tmp_path}/env cannot be read; write NAME=value, and close each "
        "quotation mark"
    ]


@pytest.mark.parametrize("setting", ["FOO=hunter2\0b", "'FOO=BAR'=hunter2"])
def test_what_no_variable_can_hold_is_refused_with_one_line(tmp_path, setting):
    (tmp_path / "env").write_text(f"{setting}\n")
    done = manage("check", BOTPOOL_ENV_FILE=f"{tmp_path}/env")
    assert done.returncode == 1
    [line] = done.stderr.splitlines()
    assert line.startswith(f"botpool: {tmp_path}/env sets 'FOO")
    assert "without NUL characters" in line
    assert "hunter2" not in line


def test_a_data_directory_that_cannot_be_written_to_is_refused_with_one_line():
    assert "set BOTPOOL_DATA_DIR" in refused(BOTPOOL_DATA_DIR="/proc/self")
    assert "set BOTPOOL_DATA_DIR" in refused(BOTPOOL_DATA_DIR="/proc/self/nowhere")


@pytest.mark.parametrize("mode", [0o666, 0o644, 0o640])
def test_a_secret_that_others_can_read_is_worth_a_line(tmp_path, mode):
    (tmp_path / "secret_key").write_text(SECRET)
    (tmp_path / "secret_key").chmod(mode)
    done = manage("check", BOTPOOL_DATA_DIR=str(tmp_path))
    assert done.returncode == 0
    [line] = [line for line in done.stderr.splitlines() if "secret_key" in line]
    assert f"(mode {mode:o}): run chmod 600" in line


def test_a_secret_is_on_the_disk_before_its_name_is(tmp_path, monkeypatch):
    """A power cut must not leave an empty file behind."""
    done = []
    monkeypatch.setattr("os.fsync", lambda descriptor: done.append("fsync"))
    link = os.link
    monkeypatch.setattr("os.link", lambda *names: (done.append("link"), link(*names)))
    read_or_make(tmp_path / "secret")
    assert done == ["fsync", "link", "fsync"]
    done.clear()
    write_privately(tmp_path / "file", "text")
    assert done == ["fsync", "fsync"]
