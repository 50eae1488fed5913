"""What is left of a key's rate, as headers (draft-ietf-httpapi-ratelimit-headers)."""

import math
from dataclasses import dataclass

from django.conf import settings
from django.http import HttpRequest
from django.http.response import HttpResponseBase

WINDOW = 60  # seconds


@dataclass(frozen=True, kw_only=True)
class Rate:
    """`left`: seconds of calls at the allowed rate that can be made at once."""

    left: float

    def headers(self) -> dict[str, str]:
        limit = settings.API_RATE_LIMIT
        remaining = max(0, math.floor(self.left * limit / WINDOW))
        reset = max(0, math.ceil(WINDOW - self.left))
        return {
            "RateLimit-Policy": f'"key";q={limit};w={WINDOW}',
            "RateLimit": f'"key";r={remaining};t={reset}',
            # The same in the fields of earlier drafts, which more clients know.
            "RateLimit-Limit": str(limit),
            "RateLimit-Remaining": str(remaining),
            "RateLimit-Reset": str(reset),
        }


def note_rate(request: HttpRequest, left: float) -> None:
    if settings.API_RATE_LIMIT:
        request.rate = Rate(left=left)  # type: ignore[attr-defined]


def add_rate(request: HttpRequest, response: HttpResponseBase) -> None:
    rate: Rate | None = getattr(request, "rate", None)
    for name, value in rate.headers().items() if rate else ():
        response.headers[name] = value
