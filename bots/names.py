"""Names that people give: to keys and other things they make, and to their bots in meetings."""

from django.core.exceptions import ValidationError

from bots.meetings import BLANK

# Control characters, ends of lines, and what turns the direction of all the text behind it.
_FORBIDDEN = r"\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069"
# At least one character that is seen: no space, joiner, mark or filler.
_VISIBLE = rf"[^\s{_FORBIDDEN}\xad\u061c\u200b-\u200f\u2060-\u2065\u206a-\u206f\ufeff{BLANK}]"
# Joiners, variants and single marks of direction are allowed: emoji and some scripts need them.
DISPLAY_NAME = rf"^[^{_FORBIDDEN}]*{_VISIBLE}[^{_FORBIDDEN}]*$"
WRONG_DISPLAY_NAME = (
    "Must not be blank or contain control characters or overrides of the direction of text."
)


def is_readable_name(name: str) -> bool:
    """Whether a name can be told from others in lists, messages and logs."""
    return bool(name.strip()) and name.isprintable()


def check_readable_name(name: str) -> None:
    """For forms."""
    if not is_readable_name(name):
        raise ValidationError("The name must have printable characters only.")
