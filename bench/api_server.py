"""The product's WSGI application with the URLs of bench.api_urls."""

from django.conf import settings
from django.core.wsgi import get_wsgi_application

settings.ROOT_URLCONF = "bench.api_urls"
application = get_wsgi_application()
