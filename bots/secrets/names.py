"""Tell from a name whether its value is a secret: `dbPass` is, `compass` is not.

A name is taken apart into words, harmless words are removed, and what is left must look like no
secret. In doubt a value is one: a reader can live without it, and a leak cannot be undone.
"""

import re
from unicodedata import normalize

LONGEST_NAME = 200

_WORD = re.compile(r"2[fF][aA]|[A-Z]+(?![a-z])|[A-Z]?[a-z]+")

# Anywhere in the name, also across its words: `pass-word` is a password.
_PART = re.compile(
    r"secret|token|passw|passphrase|passcode|passkey|pwd|credential|apikey|accesskey"
    r"|private|auth|cookie|bearer|session|signature|jwt|mnemonic|seedphrase"
    r"|key(?:store|chain|ring|file|pair|material)"
)
# Words, and beginnings and ends of words. Inside of others they mean nothing: `footprint`.
_WORDS = re.compile(
    r" (?:tk|zak|seeds?|salt|pem|creds?|mfa|tfa|2fa|cvv|cvc|csrf|xsrf) | (?:otp|hmac|saml)"
    r"|(?:pass|pw|pswd?|pins?|keys?|otp|sig|sid|psk|hmac) "
)
_CODE = re.compile(
    r"(?:mfa|otp|tfa|2fa|one ?time|pin|access|security|verification|confirmation|invite|invitation"
    r"|join|entry|backup|recovery|unlock|login|host|meeting|room|sms|dial ?in|moderator|participant"
    r"|attendee|guest) ?codes? | pin ?(?:number|no) | security ?answers? "
)

_HARMLESS = re.compile(
    r" (?:"
    r"(?:monkey|donkey|turkey|hockey|jockey|whiskey|hot ?key|lackey|malarkey)s?"
    r"|keys? (?:terms?|words?|points?|phrases?|frames?|moments?|topics?|notes?|ideas?|takeaways?"
    r"|insights?|results?|people|persons?|speakers?|questions?|decisions?|events?|highlights?"
    r"|boards?|bindings?|map|strokes?|press|up|down|pad)"
    r"|(?:com|by|over|under|tres|sur|encom)pass"
    r"|(?:low|high|band|all|first|second|single|two|multi) ?pass|pass (?:through|rate|count|filter)"
    r"|(?:back|tail|top)?spins?|(?:push|hair|king|linch|under|un|auto) ?pins?|b?ssid"
    r"|(?:co ?)?author(?:s|ed|ing|ship|ity|ities)?|secretar(?:y|ies|ial)|(?:ob|pos)sessions?"
    r"|tokeni[sz][a-z]*|(?:max|min|num) (?:(?:input|output|new|completion|prompt|context) )?tokens"
    r"|tokens? (?:count|limit|budget)"
    r"|sessions? (?:title|name|type|topic|length|count|limit|language|notes?)"
    r"|private (?:mode|meeting|chat|room|channel)"
    r")(?= )"
)
# How long, or whether at all: `sessionTimeout` is no session.
_MEASURE = re.compile(
    r"(?:time ?outs?|ttl|durations?|intervals?|enabled|required)"
    r"(?: (?:ms|millis|milliseconds|s|secs?|seconds?|mins?|minutes?|hours?|days?))? $"
)


def is_secret_name(name: str) -> bool:
    words = _words(name)
    if _MEASURE.search(words):
        return False
    left = _HARMLESS.sub(" ", words)
    is_secret = _WORDS.search(left) or _CODE.search(left) or _PART.search(left.replace(" ", ""))
    return bool(is_secret)


# As in a text that is JSON: p\u0061ss
_ESCAPED = re.compile(r"\\u([\dA-Fa-f]{4})")
_ACCENTS = re.compile(r"[\u0300-\u036f]")


def _words(name: str) -> str:
    """In lower case, each with a blank before and behind it."""
    plain = _ESCAPED.sub(lambda found: chr(int(found[1], 16)), name[:LONGEST_NAME])
    # Full-width letters and those with accents read like others.
    plain = _ACCENTS.sub("", normalize("NFKD", plain))
    # Digits only number things: `key2`.
    return f" {' '.join(_WORD.findall(plain))} ".lower()
