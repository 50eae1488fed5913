"""Secrets in a bot's configuration are hidden where people see it."""

import json
import time

import pytest

from bots.masking import MASK, host_of, masked, masked_line, masked_text, secret_values

SECRETS = [
    "password", "passwd", "pwd", "zoomPwd", "PWD", "passcode", "passphrase", "bearer",
    "jwt", "joinJwt", "access_key", "accessKey", "AWS_ACCESS_KEY_ID", "encryptionKey", "key", "otp",
    "otpCode", "session", "sessionId", "session_cookie", "apiKey", "api-key", "client_secret",
    "authorization", "pin", "hostPin", "credentials", "private_key", "signature", "sig", "psk",
    # Short and joined names.
    "pass", "smtp_pass", "dbPass", "dbpass", "DBPASS", "pw", "userpw", "totp", "userpwd", "dbpwd",
    "meetingpin", "pincode", "pin_number", "passkey1", "key_v2", "keys", "encryptionKeyBase64",
    "streamkey", "sshkeys", "keyPem", "keystore", "pass-word", "pass_phrase", "pass code",
    "mfa_code", "mfa", "2fa", "onetimecode", "one_time_code", "accessCode", "joincode", "zak",
    "tk", "sid", "accountSid", "hmac", "hmacSha256", "seed", "seedPhrase", "mnemonic", "creds",
    "csrf", "salt", "TOKENid", "oauth2", "x-auth-token", "maxTokenSecret", "ｐａｓｓｗｏｒｄ",
    "pass\u200bword", "authority_token", "passthroughToken",
    "psw", "dbPsw", "pswd", "passw", "sécret", "se\u0301cret", "pín", "security_answer",
]  # fmt: skip
PLAIN = [
    "language", "footprint", "keywords", "keyTerms", "spinner", "opinion", "title", "signal",
    "displayName", "recordingMode", "timeout", "joinTimeoutMs", "sessionTimeout",
    "tokenTtlSeconds", "authEnabled", "passenger", "keyboard", "keyboardLayout", "design",
    "compass", "sidebar", "monkey", "hotkeys", "turkey", "hockey", "bypass", "passThrough",
    "pass_rate", "lowPassFilter", "passive", "passport", "includeKeyPoints", "keyPhrases",
    "spin", "pinned", "unpin", "ssid", "inside", "side", "president", "author", "coAuthors",
    "secretary", "tokenizer", "maxTokens", "max_output_tokens", "tokenCount", "languageCode",
    "countryCode", "statusCode", "codec", "seeded", "assignee", "resign", "tasks", "width", "url",
    "webhook", "platform", "priority", "upward", "desktop", "laptop", "sacred", "basalt", "2",
]  # fmt: skip


@pytest.mark.parametrize("name", SECRETS)
def test_a_secret_is_hidden_by_its_name(name):
    assert masked({"deep": [{name: "hunter2"}]}) == {"deep": [{name: MASK}]}


@pytest.mark.parametrize("name", PLAIN)
def test_what_is_no_secret_is_shown(name):
    assert masked({name: "value"}) == {name: "value"}


TEXTS = [
    "https://example.com/in?token=hunter2",
    "https://example.com/in?a=b&access_token=hunter2&c=d",
    "https://zoom.us/j/1?pwd=hunter2#x",
    "https://example.com/#id_token=hunter2",
    "https://example.com/?pass=hunter2",
    "https://zoom.us/j/1?zak=hunter2",
    "https://example.com/?%74oken=hunter2",
    "https://example.com/?%2574oken=hunter2",
    "https://example.com/?next=https%3A%2F%2Fx.example%2F%3Ftoken%3Dhunter2",
    "https://example.com/?password=a;hunter2",
    "https://teams.live.com/meet/931?p=hunter2hunter2",
    # A user and a password in an address.
    "wss://user:hunter2@example.com/",
    "https://hunter2@example.com/",
    "admin:hunter2@db.example.com",
    "connect to admin:hunter2@db.example.com:5432/app",
    "postgres://u:p@hunter2@host/db",
    "postgres://u:p/hunter2@host/db",
    "postgres://u:12/hunter2@host/db",
    "https://u:p?hunter2#@host/db",
    # Headers.
    "Authorization: Bearer hunter2",
    "bearer hunter2",
    "Authorization: Token hunter2",
    "Token hunter2",
    "Basic dXNlcjpodW50ZXIy",
    "curl -u admin:hunter2 https://example.com",
    "X-Api-Key: hunter2",
    "Cookie: a=b; c=hunter2",
    # Names and values in a text.
    "DB_PASSWORD=hunter2",
    "env:DB_PASSWORD=hunter2",
    "a=1;password=hunter2",
    "Server=db;Pwd=x,hunter2;Port=1",
    "password: hunter2",
    "pass code: hunter2",
    "one-time code: hunter2",
    "--password hunter2",
    "--password 'my hunter2'",
    "run --db-password=hunter2 --fast",
    "password => hunter2",
    'password="a \\"hunter2"',
    "<password>hunter2</password>",
    '<add password="hunter2" />',
    # JSON in a text.
    '{"password": "hunter2"}',
    '{"password": {"deep": ["hunter2"]}}',
    ' [{"name": "password", "value": "hunter2"}] ',
    '{"inner": "{\\"password\\": [\\"hunter2\\"]}"}',
    '{"password": "hunter2", broken',
    "{'password': 'hunter2'}",
    'got {"p\\u0061ssword": "hunter2"}',
    # Values of several words or lines.
    "password: correct horse hunter2",
    "password=correct horse hunter2",
    "pin: 1234 hunter2",
    'password = """\na "hunter2"\n"""',
    "password = '''\nhunter2\n'''",
    "password: |\n  one\n\n  hunter2",
    "db:\n  password: >-\n    one\n    hunter2\n  host: db",
    "password:\n        hunter2",
    "<password><![CDATA[a<b hunter2]]></password>",
    "<note><![CDATA[<password>hunter2</password>]]></note>",
    # Written in other ways.
    "password%3Dhunter2",
    "https://example.com/in%3Ftk%3Dhunter2",
    "https://example.com/in%253Ftk%253Dhunter2",
    "Password：hunter2",
    "Password＝hunter2",
    "se\u0301cret: hunter2",
    "security answer: hunter2",
    "config['password']='hunter2'",
    "os.environ['APP_PWD'] = 'hunter2'",
    '{{ d["api_key"] }} d["api_key"] = hunter2',
    "[pwd]=hunter2",
    "passwords[12]=hunter2",
    "token&#61;hunter2",
    "token&#x3D;hunter2",
    r"token\u003dhunter2",
    "https://example.com/?code=hunter2",
    "https://api.example.org/bot123456789:AAhunter2/getMe",
]


@pytest.mark.parametrize("text", TEXTS)
def test_a_secret_inside_a_text_is_hidden(text):
    for shown in (masked_text({"target": text}), masked_text([text]), masked_line(text)):
        assert "hunter2" not in shown
        assert "dXNlcjpodW50ZXIy" not in shown
        assert MASK in shown


# A secret name in front of a list or an object, with "hunter2" at its end.
NESTED = [
    'cfg {"tokens": ["a", "hunter2"], "auth": {"user": "bob", "val": "hunter2"}}',
    """cfg {'tokens': ['a', 'hunter2'], 'auth': {'user': 'bob', 'val': "hunter2"}}""",
    "tokens: ['a', 'hunter2']",
    "tokens=('a', 'hunter2')",
    "tokens=[[1, 2], [3, hunter2]]",
    "tokens: ['a]', 'hunter2']",
    "tokens: [don't, hunter2]",
    "tokens: [a}, hunter2]",
    'tokens: ["a\\"]", "hunter2"]',
    'tokens: ["a", "hunter2',
    "auth: {user: bob, pass: {old: hunter2}, new: hunter2}",
    r"{\"tokens\": [\"a]\", \"hunter2\"]}",
    r"{\"auth\": {\"a\": \"}\\\"\", \"b\": \"hunter2\"}}",
    r'"{\"auth\": \"{\\\"a\\\": \\\"b\\\", \\\"c\\\": \\\"hunter2\\\"}\"}"',
    "password: [abc]hunter2",
    "password: {abc} hunter2",
    "Pwd=[x],hunter2;Port=1",
    '--tokens ["a", "hunter2"]',
    "passwords: a, hunter2",
    "passwords: 'a', 'hunter2'",
    "tokens:\n  - a\n  - hunter2",
    'got {"name": "password", "value": "hunter2"} from it',
    'got [["Authorization", "hunter2"]] and [{"key": "pin", "value": "hunter2"}]',
]


@pytest.mark.parametrize("text", NESTED)
def test_a_whole_list_or_object_inside_a_text_is_hidden(text):
    for shown in (masked_text({"target": text}), masked_text([text]), masked_line(text)):
        assert "hunter2" not in shown
        assert MASK in shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ('cfg {"tokens": ["a", "b"], "n": 1} kept', 'cfg {"tokens": M, "n": 1} kept'),
        ("auth={'a': 1}, language=en", "auth=M, language=en"),
        ("passwords: a, b, language: en", "passwords: M language: en"),
        ("tokens:\n  - a\n  - b\nlanguage: en", "tokens:\n  M\nlanguage: en"),
        ("names[0]=a, pwd[0]=b, b['n']=1", "names[0]=a, pwd[0]=M b['n']=1"),
        ("[INFO] {x} and {y: [1]} kept", "[INFO] {x} and {y: [1]} kept"),
        ('got {"n": [1, {"a": 2}]} kept', 'got {"n": [1, {"a": 2}]} kept'),
    ],
)
def test_what_is_beside_a_list_or_an_object_is_shown(text, shown):
    assert masked_line(text) == shown.replace("M", MASK)


PROSE = [
    "password is hunter2",
    "the password was hunter2, sorry",
    "passcode is: hunter2",
    "password is 'hunter2'",
    "wrong password 'hunter2'",
    'invalid token "hunter2"',
    "invalid token `hunter2`",
    "password -> hunter2",
    "password → hunter2",
    "wrong pin 4711hunter2",
    "API key hunter2",
    "access code 7-hunter2",
    '<input name="password" value="hunter2">',
    "<input value='a>hunter2' type='password'>",
    "<input id=pin value=hunter2 />",
    "//u:hunter2@h",
    "connect to //u:hunter2@db.example/x",
]


@pytest.mark.parametrize("text", PROSE)
def test_a_secret_in_prose_is_hidden(text):
    for shown in (masked_text({"target": text}), masked_text([text]), masked_line(text)):
        assert "hunter2" not in shown
        assert MASK in shown


def test_digits_behind_the_name_of_a_secret_are_hidden():
    assert masked_line("wrong pin 123456") == f"wrong pin {MASK}"
    assert masked_line("passcode 918273 refused") == f"passcode {MASK} refused"


@pytest.mark.parametrize(
    "text",
    [
        "The password was wrong",
        "no passcode given",
        "token expired",
        "the token is expired",
        "The passcode is not valid",
        "password is required",
        "The password is too short: at least 8 characters",
        "the PIN is incorrect",
        "session is over",
        "the session was closed by the host",
        "pin 2 of 3",
        "wrong password 3 times",
        "API key missing",
        "The API key is unknown or revoked.",
        "the meeting's passcode isn't known",
        "authentication failed with 401",
        "It's the host's password that's wrong",
        "Let in by the host",
        "key 1 of 12",
        "cookies accepted",
        "a signature is missing",
        '<input name="language" value="en">',
        "// user: bob@example.com",
        "asked for a password -> left",
        "waiting for the session -> joined",
    ],
)
def test_ordinary_prose_is_shown(text):
    assert masked_line(text) == text


# Put together here, so that no scanner takes them for real ones.
KEYS = [
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJodW50ZXIyIn0.c2lnbmF0dXJl",
    "/eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJodW50ZXIyIn0.c2lnbmF0dXJl",
    "-----BEGIN RSA PRIVATE KEY-----\nMIIEc2lnbmF0dXJl\n-----END RSA PRIVATE KEY-----",
    "-----BEGIN PRIVATE KEY-----\\nc2lnbmF0dXJl",
    "https://hooks.slack.com/services/T0/B0/" + "c2lnbmF0dXJl",
    "https://discord.com/api/webhooks/123/" + "c2lnbmF0dXJl",
    "ghp" + "_c2lnbmF0dXJlc2lnbmF0dXJl0123456789ab",
    "github" + "_pat_c2lnbmF0dXJl_0123456789",
    "sk" + "-proj-c2lnbmF0dXJl0123456789",
    "sk" + "_live_c2lnbmF0dXJl0123456789",
    "xox" + "b-1234567890-c2lnbmF0dXJl",
    "glpat" + "-c2lnbmF0dXJl01234567",
    "bp" + "_c2lnbmF0dXJlc2lnbmF0dXJl",
    "whsec" + "_c2lnbmF0dXJl+/8=",
    "17|" + "c2lnbmF0dXJl" * 4,
    "b12.s3.e4.c2lnbmF0dXJl",
    "-----BEGIN PGP PRIVATE KEY BLOCK-----\nc2lnbmF0dXJl\n-----END PGP PRIVATE KEY BLOCK-----",
    "GOCSPX" + "-c2lnbmF0dXJl",
    "hvs" + ".c2lnbmF0dXJl",
    "dckr" + "_pat_c2lnbmF0dXJl",
    "pypi" + "-AgEIc2lnbmF0dXJl",
    "xapp" + "-1-c2lnbmF0dXJl",
    "glrt" + "-c2lnbmF0dXJl",
    "ntn" + "_c2lnbmF0dXJl",
    "ATATT" + "3xc2lnbmF0dXJl",
    "AGE" + "-SECRET-KEY-1c2lnbmF0dXJl",
    # Base64 of JSON lists, and of JSON with blanks: ["c2…, [{"c2…, [["c2…, { "c2….
    "WyJjMmxuYm1GMGRYSmwiXQc2lnbmF0dXJl",
    "W3siYzJsbmJtRjBkWEpsc2lnbmF0dXJlc2lnbmF0dXJl",
    "W1siYzJsbmJtRjBkWEpsc2lnbmF0dXJlc2lnbmF0dXJl",
    "eyAiYzJsbmJtRjBkWEpsc2lnbmF0dXJlc2lnbmF0dXJl",
]


@pytest.mark.parametrize("key", KEYS)
def test_a_secret_is_hidden_by_its_form(key):
    for shown in (masked_text({"target": f"see {key}"}), masked_text([key]), masked_line(key)):
        assert "c2lnbmF0dXJl" not in shown
        assert MASK in shown


def test_upper_case_keys_and_codes_to_dial_are_hidden():
    for secret in ("ASIAABCDEFGHIJKL", "AKIAABCDEFGHIJKL"):
        assert masked_line(f"key id {secret}") == f"key id {MASK}"
    assert masked_line("+13017158592,,987654#,,,,*918273#") == f"+13017158592,,{MASK}#,,,,*{MASK}#"
    assert masked_line("call 555;*918273#") == f"call 555;*{MASK}#"


@pytest.mark.parametrize(
    "text",
    [
        "de-DE",
        "speaker_view",
        "2026-11-16T09:30:59Z",
        "https://example.com/hook?language=en&page=2#top",
        "https://example.com:8443/@user/path",
        "https://teams.microsoft.com/l/meetup-join/19:meeting_x@thread.v2/0",
        "mailto:bob@example.com",
        "bob@example.com",
        "Basic recording",
        "Key points: decisions, tasks",
        "The compass: north",
        "language: en, mode=fast",
        "--language en --retries 3",
        "sk-SK",
        "task-manager-with-long-name",
        "A design for passengers with a keyboard",
        "sha256:4bf5122f344554c5",
        "cookie banner",
        '{"language": "en", "keyTerms": ["a"]}',
        "{not json",
        "<b>bold</b>",
        "<note><![CDATA[a < b]]></note>",
        "pypi-publish-action",
        "WyJ",
        "rooms 1,,2 and #3",
        "https://example.com/a%20b%3Fpage%3D2",
        "Chat:\n  - hello",
        "",
    ],
)
def test_a_harmless_text_is_shown(text):
    assert masked({"note": text}) == {"note": text}
    assert masked([text]) == [text]
    assert masked_line(text) == text


@pytest.mark.parametrize(
    "config",
    [
        {"name": "password", "value": "hunter2"},
        {"key": "DB_PASSWORD", "value": {"deep": "hunter2"}},
        {"field": "token", "content": "hunter2"},
        {"headers": [["Authorization", "hunter2"]]},
        {"args": ["--language", "en", "--password", "hunter2"]},
        {"env": ["A=1", "DB_PASSWORD=hunter2"]},
        {"https://u:hunter2@example.com": 1},
        {"Name": "DB_PASSWORD", "Value": "hunter2"},
        {"NAME": "DB_PASSWORD", "VALUE": "hunter2"},
        {"type": "password", "value": "hunter2"},
        {"property": "password", "value": "hunter2"},
        {"attribute": "password", "value": "hunter2"},
        {"parameter": "password", "value": "hunter2"},
        {"title": "password", "value": "hunter2"},
        ["Authorization", "hunter2", "Accept", "text/html"],
        ["Authorization", {"deep": "hunter2"}, 1],
        ["Accept", "text/html", "Cookie", "hunter2", "x"],
        ["token", "hunter2", "a", "b"],
        ["token", ["hunter2"], "a", "b"],
    ],
)
def test_a_value_is_hidden_by_the_name_beside_it(config):
    assert "hunter2" not in masked_text(config)


def test_a_user_and_password_in_base64_may_be_letters_only():
    assert masked("Basic dXNlcjpodWxsbWFu") == f"Basic {MASK}"


def test_harmless_pairs_are_shown():
    config = {
        "fields": [{"name": "language", "value": "en"}],
        "args": ["--language", "en"],
        "headers": [["Accept", "text/html"]],
        "features": ["chat", "captions", "session"],
        "more": ["session", "keyTerms", "chat"],
        "title": [{"title": "Key points", "content": "Decisions"}],
    }
    assert masked(config) == config


def test_values_hidden_because_of_the_name_beside_them_are_known_secrets():
    config = {
        "env": [{"name": "password", "value": "one"}],
        "args": ["--token", "two"],
        "text": '{"pin": 3333}',
    }
    assert sorted(secret_values(config)) == ["3333", "one", "two"]


@pytest.mark.parametrize(
    ("config", "secrets"),
    [
        ({"db": "postgres://u:dbPass9@h/d"}, {"u:dbPass9", "dbPass9"}),
        ({"Authorization": "Bearer t0ken-9"}, {"Bearer t0ken-9", "t0ken-9"}),
        ({"note": "my password is swordfish77, my pin is 4711"}, {"swordfish77", "4711"}),
        ({"url": "https://h.example/?token=one&x=1&secret=two"}, {"one", "two"}),
        ({"note": "the password is on the wall", "title": "Retro"}, set()),
    ],
)
def test_what_is_hidden_because_of_its_form_is_a_known_secret(config, secrets):
    assert set(secret_values(config)) == secrets


def test_the_rest_of_an_address_is_shown():
    address = "https://example.com/in?a=b&token=x&language=en"
    assert masked(address) == f"https://example.com/in?a=b&token={MASK}&language=en"


def test_the_rest_of_a_text_is_shown():
    text = "run --password x --language en, user=bob password='a b' mode=fast"
    shown = f"run --password {MASK} --language en, user=bob password={MASK} mode=fast"
    assert masked(text) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("password: a b, language: en", "password: M, language: en"),
        ("token=a b mode=fast", "token=M mode=fast"),
        ("token=a b --fast", "token=M --fast"),
        ("password: a b\nlanguage: en", "password: M\nlanguage: en"),
        ("a:\n  pin: |\n    x\n    y\n  b: 1", "a:\n  pin: M\n  b: 1"),
        ("pin = '''\na\n'''\nb = 1", "pin = M\nb = 1"),
        ("<pin><![CDATA[a<b]]></pin><b>1</b>", "<pin>M</pin><b>1</b>"),
    ],
)
def test_a_value_of_several_words_or_lines_ends_where_the_next_name_begins(text, shown):
    assert masked(text) == shown.replace("M", MASK)


def test_json_in_a_text_stays_json():
    shown = masked('{"password": "x", "language": "en"}')
    assert json.loads(shown) == {"password": MASK, "language": "en"}


def test_what_is_nested_too_deeply_to_look_into_is_hidden():
    deep = "[" * 500 + '"hunter2"' + "]" * 500
    assert "hunter2" not in masked_text({"x": '{"password": ' + deep + "}"})
    for levels in (900, 20_000):
        assert masked_text({"x": "[" * levels + "]" * levels})


PARTS = [
    "?", "a=", "eyJ", "eyJ-", "/eyJ-", '\\"', "bearer ", "1|", "://", "://a:", "&a;", "%25",
    "?a=%25",
    "password=", "password:", "--password ", "sk-", "sk-a-", "<a ", "<a>", "a:b@", "a:", "basic ",
    "-----BEGIN PRIVATE KEY-----", "https://hook/", "/hook/", "[", '{"a":', '"', "'", "pass code ",
    "-u a:", "b1.s1.e1", "authorization:", "cookie = ", "key ", "Pass", "pass_", "token ", "#", "@",
    "?p=", "a.", "-", "_", " ", "\n", "\\", "max token ", "low pass ",
    '"""', "password=\'\'\'", "password: |\n ", "pin: a ", "pin:\n", "a b ", "%3D", "a%3D", "%3F",
    "%3Fpwd%3D", "<a><![CDATA[", "<pin><![CDATA[", "<![CDATA[", "\\u0061", "\\u0061=", ",", ",*",
    ",,1", "%", "/bot1", "/bot1:", "WyJ", "pypi-", "pypi-a-", "：",
    "-----BEGIN PGP PRIVATE KEY BLOCK-----",
    "tokens=[", "tokens=['", 'tokens=[\\"', "tokens=[]", "auth={\"a\":[", "auth:{'}", "[[\"a\",",
    '{"a":"', '{"a":1}', '["a"]', '[{', "tokens: a, ", "tokens: 'a', ", "tokens:\n - a\n",
    "- a\n", "password is ", "password 'a' ", "password '", "password \"", "password -> ", "pin 1",
    "pin 1234 ", "is ", "<a name=", '<a name="', '<a b="c" ', "<input name='pin' value='", "//a:",
    "//a:b@", "(", "password=(", '<a "', "<a '",
]  # fmt: skip


@pytest.mark.parametrize("part", PARTS)
def test_no_configuration_takes_long(part):
    text = part * (64 * 1024 // len(part))
    began = time.process_time()
    masked({"x": text, text: 1})
    assert time.process_time() - began < 2


def test_a_configuration_of_many_names_does_not_take_long():
    began = time.process_time()
    masked({f"name{number}": "x" for number in range(6_000)})
    assert time.process_time() - began < 2


@pytest.mark.parametrize(
    ("address", "host"),
    [
        ("https://hooks.example.com/services/T0/S3CRET?token=x", "https://hooks.example.com"),
        ("https://user:S3CRET@hooks.example.com:8443/", "https://hooks.example.com"),
        ("https://[S3CRET", MASK),
        ("S3CRET", MASK),
    ],
)
def test_only_the_host_of_an_address_is_left(address, host):
    assert host_of(address) == host
