import pytest


@pytest.fixture(autouse=True)
def _unreachable_coolify(settings) -> None:
    settings.COOLIFY_API_URL = "http://127.0.0.1:1/api/v1"
    settings.COOLIFY_PROJECT_UUID = "project"
    settings.COOLIFY_SERVER_UUIDS = ["server"]
