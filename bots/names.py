"""Names that people give: to keys and other things they make, and to their bots in meetings."""

from django.core.exceptions import ValidationError

from bots.meetings import BLANK

# Control characters, ends of lines, and characters that turn the direction of the text.
_FORBIDDEN = r"\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069"
# At least one character that is seen: no space, joiner or filler.
_VISIBLE = rf"[^\s{_FORBIDDEN}\xad\u200b-\u200d\u2060-\u2065\u206a-\u206f\ufeff{BLANK}]"
# Joiners and variants of characters are allowed: emoji and some scripts need them.
DISPLAY_NAME = rf"^[^{_FORBIDDEN}]*{_VISIBLE}[^{_FORBIDDEN}]*$"
WRONG_DISPLAY_NAME = (
    "Must not be blank or contain control characters or marks of the direction of text."
)


def is_readable_name(name: str) -> bool:
    """Whether a name can be told from others in lists, messages and logs."""
    return bool(name.strip()) and name.isprintable()


def check_readable_name(name: str) -> None:
    """For forms."""
    if not is_readable_name(name):
        raise ValidationError("The name must have printable characters only.")
