import pytest

from coolify.simulator.settings import Token
from coolify.simulator.world.rows import EnvironmentVariable
from coolify.simulator.world.variables import written_value
from tests.simulated_coolify import PlainApi, simulated_coolify, wait_until


@pytest.fixture
def envs(api):
    return f"/applications/{api.create()}/envs"


def production(api, envs):
    return [each for each in api.get(envs).json() if not each["is_preview"]]


def test_each_variable_has_a_preview_twin(api, envs):
    assert api.post(envs, json={"key": "A", "value": "1"}).status_code == 201
    assert [each["is_preview"] for each in api.get(envs).json()] == [False, True]


def test_a_duplicate_key_is_a_conflict(api, envs):
    api.post(envs, json={"key": "A", "value": "1"})
    assert api.post(envs, json={"key": "A", "value": "2"}).status_code == 409


@pytest.mark.parametrize("key", ["1A", "A B", "", "A-B"])
def test_a_key_must_be_a_valid_name(api, envs, key):
    response = api.post(envs, json={"key": key, "value": "1"})
    assert response.status_code == 422
    assert list(response.json()["errors"]) == ["key"]


def test_a_patch_without_value_wipes_it(api, envs):
    api.post(envs, json={"key": "A", "value": "1", "is_literal": True})
    response = api.patch(envs, json={"key": "A"})
    assert response.status_code == 201
    [variable] = production(api, envs)
    assert variable["value"] is None
    assert variable["is_literal"] is False


def test_a_patch_of_an_unknown_key_is_not_found(api, envs):
    assert api.patch(envs, json={"key": "A", "value": "1"}).status_code == 404


def test_bulk_creates_and_overwrites(api, envs):
    api.post(envs, json={"key": "A", "value": "1"})
    items = [{"key": "A", "value": "2"}, {"key": "B", "value": "3"}]
    response = api.patch(f"{envs}/bulk", json={"data": items})
    assert response.status_code == 201
    assert [each["key"] for each in response.json()] == ["A", "B"]
    assert {each["key"]: each["value"] for each in production(api, envs)} == {"A": "2", "B": "3"}


def test_bulk_keeps_the_items_before_a_refused_one(api, envs):
    items = [{"key": "A", "value": "1"}, {"value": "no key"}, {"key": "C", "value": "3"}]
    response = api.patch(f"{envs}/bulk", json={"data": items})
    assert response.status_code == 422
    assert response.json()["errors"] == {"key": ["The key field is required."]}
    assert [each["key"] for each in production(api, envs)] == ["A"]


@pytest.mark.parametrize("body", [{"items": []}, {"data": []}])
def test_bulk_needs_data(api, envs, body):
    assert api.patch(f"{envs}/bulk", json=body).status_code == 400


def test_bulk_accepts_unknown_fields(api, envs):
    items = [{"key": "A", "value": "1", "is_secret": True}]
    assert api.patch(f"{envs}/bulk", json={"data": items}).status_code == 201


@pytest.mark.parametrize("flag", [True, False])
def test_a_patch_without_flags_keeps_two_of_them(api, envs, flag):
    flags = {"is_runtime": flag, "is_buildtime": flag, "is_literal": True, "is_multiline": True}
    api.post(envs, json={"key": "A", "value": "1", **flags})
    api.patch(envs, json={"key": "A", "value": "2"})
    [variable] = production(api, envs)
    assert (variable["is_runtime"], variable["is_buildtime"]) == (flag, flag)
    assert (variable["is_literal"], variable["is_multiline"]) == (False, False)


def previews(api, envs):
    return [each for each in api.get(envs).json() if each["is_preview"]]


def test_a_preview_twin_keeps_its_first_value(api, envs):
    for value in ("1", "2", "3"):
        item = {"key": "A", "value": value}
        api.patch(f"{envs}/bulk", json={"data": [item]})
    assert [each["value"] for each in previews(api, envs)] == ["1"]
    assert [each["value"] for each in production(api, envs)] == ["3"]


def test_a_preview_twin_can_be_overwritten(api, envs):
    api.post(envs, json={"key": "A", "value": "1"})
    api.patch(envs, json={"key": "A", "value": "", "is_preview": True})
    assert [each["value"] for each in previews(api, envs)] == [""]


def test_a_preview_twin_can_be_deleted_and_does_not_return(api, envs):
    api.post(envs, json={"key": "A", "value": "1"})
    [twin] = previews(api, envs)
    assert api.delete(f"{envs}/{twin['uuid']}").status_code == 200
    api.patch(f"{envs}/bulk", json={"data": [{"key": "A", "value": "2"}]})
    assert previews(api, envs) == []
    assert [each["value"] for each in production(api, envs)] == ["2"]


def test_a_long_environment_fails_the_deployment(api):
    uuid = api.create()
    for name, size, status in (("A", 90_000, "finished"), ("B", 10_000, "failed")):
        data = {"data": [{"key": name, "value": "x" * size, "is_literal": True}]}
        assert api.patch(f"/applications/{uuid}/envs/bulk", json=data).status_code == 201
        deployment = api.start(uuid)
        wait_until(lambda d=deployment: api.deployment_status(d) in ("finished", "failed"))
        assert api.deployment_status(deployment) == status


def test_a_value_is_trimmed_and_coolify_adds_its_own(simulator, api):
    uuid = api.create(ports_exposes="3000")
    api.post(f"/applications/{uuid}/envs", json={"key": "A", "value": " 1 ", "is_literal": True})
    api.run(uuid)
    [container] = simulator.world.containers_of(uuid)
    assert container.environment["A"] == "1"
    assert container.environment["PORT"] == "3000"
    assert container.environment["COOLIFY_RESOURCE_UUID"] == uuid


def test_unknown_fields_are_refused(api, envs):
    response = api.post(envs, json={"key": "A", "value": "1", "is_secret": True})
    assert response.json()["errors"] == {"is_secret": ["This field is not allowed."]}


def test_deleting_a_variable_deletes_its_preview_twin(api, envs):
    uuid = api.post(envs, json={"key": "A", "value": "1"}).json()["uuid"]
    assert api.delete(f"{envs}/{uuid}").status_code == 200
    assert api.get(envs).json() == []
    assert api.delete(f"{envs}/{uuid}").status_code == 404


def test_values_are_shown_only_with_read_sensitive():
    plain = Token("5|plain", frozenset({"read"}))
    seeing = Token("6|seeing", frozenset({"read", "read:sensitive"}))
    with simulated_coolify(tokens=[Token(), plain, seeing]) as simulator:
        owner = PlainApi(simulator)
        envs = f"/applications/{owner.create()}/envs"
        owner.post(envs, json={"key": "A", "value": "1"})
        shown = {}
        for token in (plain, seeing):
            reader = PlainApi(simulator, token.plain)
            shown[token.plain] = reader.get(envs).json()[0]
            reader.close()
        owner.close()
    assert "value" not in shown[plain.plain]
    assert shown[seeing.plain]["value"] == "1"


@pytest.mark.parametrize(
    ("value", "is_literal", "seen"),
    [
        ('{"a": "b #c", "d": 1}', True, '{"a": "b'),
        ('{"price": "$HOME"}', True, '{"price": ""}'),
        ("[1] #2", False, "[1]"),
        ("plain $HOME #x", True, "plain $HOME #x"),
        ("plain $HOME", False, "plain "),
        ("eyJhIjogMX0=", True, "eyJhIjogMX0="),
    ],
)
def test_raw_json_reaches_the_container_damaged(value, is_literal, seen):
    variable = EnvironmentVariable(
        id=1,
        uuid="u",
        application_uuid="a",
        key="A",
        value=value,
        is_literal=is_literal,
        created_at=0,
        updated_at=0,
    )
    assert written_value(variable) == seen
