"""A status as a coloured word, on all pages. The colours of each status are in `frame.css`."""

from django.utils.html import format_html
from django.utils.safestring import SafeString


def badge(status: str) -> SafeString:
    words = status.replace("_", " ").lower()
    return format_html('<span class="badge {}">{}</span>', status, words)
