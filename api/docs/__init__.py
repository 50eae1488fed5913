"""The OpenAPI description and the page to try the API."""
