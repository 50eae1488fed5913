"""The product's own server, with the addresses of bench.api_urls."""

from django.conf import settings
from django.core.wsgi import get_wsgi_application

settings.ROOT_URLCONF = "bench.api_urls"
application = get_wsgi_application()
