"""Secrets in sentences and in tags: `wrong password 'x'`, `<input name="pin" value="1">`.

Each pattern of names ends where the value begins.
"""

import re
from collections.abc import Callable

from bots.secrets.forms import MASK
from bots.secrets.names import is_secret_name

# --- Sentences ------------------------------------------------------------------------------------

# Not `key` alone: "missing key 'url'".
_NAME = (
    r"(?<![\w.?&#=/-])"
    r"((?:pass|pin|mfa|access|security|one[ -]time|join|meeting|entry|host|login|verification)"
    r" (?:code|word|phrase|number|answer)"
    r"|(?:api|access|secret|private|encryption|signing|stream|license|host|ssh|recovery) keys?"
    r"|(?!(?:keys?|is|was)\b)[\w-]{2,64})"
)
_QUOTED = (
    r"""'[^'\n]{1,200}'|"[^"\n]{1,200}"|`[^`\n]{1,200}`|“[^”\n]{1,200}”|['"`“][^\s'"`”]{1,200}"""
)
_WORD = r"""[^\s,;"'`“<>|()\[\]{}]{1,200}"""

# A word behind "is" or an arrow may be an ordinary one.
_IS = re.compile(
    _NAME + r"(?:[ \t]{1,4}(?:is|was)(?:[ \t]{1,4}(?:now|still))?:?[ \t]{1,4}"
    r"|[\"']?[ \t]{0,4}(?:[-=]>|[→⇒])[ \t]{0,4})"
    rf"(?={_QUOTED}|{_WORD})",
    re.IGNORECASE,
)
# Without them, only what is quoted or has digits is no ordinary word.
_BESIDE = re.compile(
    _NAME + rf"[ \t]{{1,4}}(?={_QUOTED}|(?=[^\s,;\"'`<>|]{{0,64}}\d){_WORD})", re.IGNORECASE
)
_SHORTEST = 4
_VALUE = re.compile(f"{_QUOTED}|{_WORD}")
_END_OF_SENTENCE = ".!?:…"

_LETTERS = re.compile(r"[^\W\d_]+(?:-[^\W\d_]+)*")
_ORDINARY_WORDS = """
    a about absent after again all already also always an and another any as at bad because before
    being blank but by correct different down due empty ever expired false for from good gone here
    hers his how if in incorrect invalid is it its just known left less like long longer lost
    mandatory meanwhile mine missing more my needed never new nil no none nonempty not now null off
    ok okay old on one only optional or other our ours out over part private public rather right
    safe same secret secure set shorter short so still strong than that the their theirs then there
    this to too true two under undefined unknown unset until up used valid very was weak what when
    where which who why with within without wrong yes yet your yours
"""
_ORDINARY = frozenset(_ORDINARY_WORDS.split())
_ENDINGS = ("ed", "ing", "able", "ible", "ive", "ent", "ant", "ful", "less", "ous", "ory", "ary")


def without_secrets_in_prose(text: str) -> str:
    text = _hidden(text, _IS, lambda word: word.lower() in _ORDINARY or _is_adjective(word))
    return _hidden(text, _BESIDE, lambda word: len(word) < _SHORTEST)


def _is_adjective(word: str) -> bool:
    return bool(_LETTERS.fullmatch(word)) and word.endswith(_ENDINGS)


def _hidden(text: str, names: re.Pattern[str], is_ordinary: Callable[[str], bool]) -> str:
    shown, done = [], 0
    for found in names.finditer(text):
        value = _VALUE.match(text, found.end())
        if found.start() < done or not value or not is_secret_name(found[1]):
            continue
        word = value[0].rstrip(_END_OF_SENTENCE)
        is_quoted = value[0][0] in "'\"`“"
        if word and (is_quoted or not is_ordinary(word)):
            shown += [text[done : found.end()], MASK]
            done = value.end() if is_quoted else found.end() + len(word)
    return "".join([*shown, text[done:]])


# --- Tags -----------------------------------------------------------------------------------------

_TAG = re.compile(r"""<\w(?:[^<>"']|"[^"]{0,2000}"|'[^']{0,2000}')*+""")
_ATTRIBUTE = re.compile(
    r"([\w:.-]{1,64})(\s{0,3}=\s{0,3})"
    r"""(\\{0,8}"[^"]{0,2000}"?|\\{0,8}'[^']{0,2000}'?|[^\s"'<>]{1,2000})"""
)


def without_secrets_in_tags(text: str, *, names: set[str], values: set[str]) -> str:
    """Attributes with these names tell what the others contain."""

    def shown(tag: re.Match[str]) -> str:
        given = (each[3] for each in _ATTRIBUTE.finditer(tag[0]) if each[1].lower() in names)
        if not any(is_secret_name(name.strip("\\\"'")) for name in given):
            return tag[0]
        return _ATTRIBUTE.sub(hidden, tag[0])

    def hidden(found: re.Match[str]) -> str:
        return f"{found[1]}{found[2]}{MASK}" if found[1].lower() in values else found[0]

    return _TAG.sub(shown, text)
