"""Secrets that are recognised by their form, whatever their name. Every pattern is bounded."""

import re

MASK = "••••••"

PRIVATE_KEY = re.compile(
    r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
    r".*?(?:-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----|\Z)",
    re.DOTALL,
)

# Each with what is shown instead.
FORMS: tuple[tuple[re.Pattern[str], str], ...] = (
    (PRIVATE_KEY, MASK),
    # JSON Web Tokens, and BOT_DATA: base64 of JSON that begins with {" or [" or [{" or [[", also
    # with a blank or a new line behind the first bracket.
    (
        re.compile(r"(?<![A-Za-z0-9])(?:eyJ|eyAi|ewog|WyJ|WyAi|Wwog|W3si|W1si)[\w+/=.-]{6,}"),
        MASK,
    ),
    # Tokens of bots, Botpool's API keys, secrets that sign webhooks, and Coolify's tokens.
    (re.compile(r"\bb\d{1,20}\.s\d{1,20}\.e\d{1,20}\.[\w-]+"), MASK),
    (re.compile(r"\b(?:bp_|whsec_)[\w+/=-]{8,}|\b\d{1,10}\|[A-Za-z0-9]{16,}"), MASK),
    # Keys of other services.
    (
        re.compile(
            r"(?<![A-Za-z0-9])(?:gh[pousr]_|github_pat_|glpat-|xox[a-z]-|npm_|hf_|shpat_|dop_v1_"
            r"|glrt-|xapp-|dckr_pat_|ntn_|hvs\.|GOCSPX-|ATATT|AGE-SECRET-KEY-"
            r"|AIza|ya29\.|SG\.|[sr]k[-_](?=[\w-]{0,64}\d)|pypi-(?=[\w-]{0,64}[A-Z\d]))[\w.-]{8,}"
            r"|\bA[KS]IA[A-Z0-9]{12,}|\b\d{6,12}:[\w-]{30,}|(?<=/bot)\d{1,12}:[\w-]+"
        ),
        MASK,
    ),
    # A code that a telephone dials after a pause: +49301234567,,*918273#
    (re.compile(r"((?<!,),{2,8}\*?|[,;pw]\*)\d{3,20}(?=#)"), rf"\1{MASK}"),
    # The path is the secret of addresses such as https://hooks.slack.com/services/….
    (
        re.compile(r"(://[\w.:-]{0,200}?hooks?[\w.:-]{0,200}/)[^\s\"'<>]+", re.IGNORECASE),
        rf"\1{MASK}",
    ),
    (
        re.compile(r"(://[^\s\"'<>?#]{0,200}?/(?:web)?hooks?\w{0,8}/)[^\s\"'<>?#]+", re.IGNORECASE),
        rf"\1{MASK}",
    ),
    # user:password@ in an address, also with signs in the password that should be escaped.
    (re.compile(r"(?<=://)(?!\[)[^\s/?#\"'<>]{1,512}@"), f"{MASK}@"),
    # The same without a scheme: //user:password@host
    (
        re.compile(r"(?<![\w:/])//[^\s/:@?#\"'<>]{1,64}:[^\s/@\"'<>]{1,256}@(?=[\w\[])"),
        f"//{MASK}@",
    ),
    (
        re.compile(
            r"(?<![\w:/@.%+-])(?!(?:mailto|sips?|xmpp|acct|e?mail|to|from|cc|contact):)"
            r"[\w.%+-]{1,64}:(?!//)[^\s/@:\"'<>]{1,128}@(?=[\w-])",
            re.IGNORECASE,
        ),
        f"{MASK}@",
    ),
    (
        re.compile(
            r"\b((?:proxy-)?authorization|(?:set-)?cookie)([\s\"'\\]{0,4}[:=][\s\"'\\]{0,4})\S.*",
            re.IGNORECASE,
        ),
        rf"\1\2{MASK}",
    ),
    (re.compile(r"\b(bearer\s{1,4})\S+", re.IGNORECASE), rf"\1{MASK}"),
    # Not a plain word, as in "basic recording".
    (
        re.compile(
            r"\b((?i:basic|token)\s{1,4})(?!(?:[A-Z]?[a-z]{1,64}|[A-Z]{1,64})\b)[\w+/=.~-]{6,}"
        ),
        rf"\1{MASK}",
    ),
    (re.compile(r"(?<!\S)(-u|--user)(\s{1,4}|=)[^\s:]{1,64}:\S+"), rf"\1\2{MASK}"),
)
