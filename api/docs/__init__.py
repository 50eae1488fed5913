"""The OpenAPI description and the interactive page."""
