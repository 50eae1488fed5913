"""The web server: gunicorn's configuration, and a worker that slow clients cannot hold up."""
