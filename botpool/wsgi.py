"""The application that the web server calls."""

import io
import os
from collections.abc import Callable
from typing import Any

from django.conf import settings
from django.core.handlers.wsgi import WSGIRequest
from django.core.wsgi import get_wsgi_application

from core import environment

environment.load_file()
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "botpool.settings")

Application = Callable[[dict[str, Any], Callable[..., Any]], Any]


def with_chunked_bodies(application: Application) -> Application:
    """Give Django the length of a chunked body: without one, it takes the body for empty.

    At most one byte more than allowed is read. Its length alone then makes Django refuse it.
    """

    def measured(environ: dict[str, Any], start_response: Callable[..., Any]) -> Any:
        if environ.get("wsgi.input_terminated") and "HTTP_TRANSFER_ENCODING" in environ:
            body = environ["wsgi.input"].read(settings.DATA_UPLOAD_MAX_MEMORY_SIZE + 1)
            environ |= {"wsgi.input": io.BytesIO(body), "CONTENT_LENGTH": str(len(body))}
        return application(environ, start_response)

    return measured


class Utf8Request(WSGIRequest):
    """Django would read the query in the charset of the body, and fail at one such as zlib.

    It would also refuse forms in `UTF8`. botpool.middleware refuses forms in other charsets.
    """

    @property
    def encoding(self) -> None:
        return None  # Django's default: UTF-8

    @encoding.setter
    def encoding(self, charset: str | None) -> None:
        pass


django_application = get_wsgi_application()
django_application.request_class = Utf8Request
application = with_chunked_bodies(django_application)
