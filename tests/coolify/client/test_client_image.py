import pytest

from coolify.client.image import Image


@pytest.mark.parametrize(
    ("text", "name", "tag"),
    [
        ("bot", "bot", "latest"),
        ("ghcr.io/team/bot:v2", "ghcr.io/team/bot", "v2"),
        ("localhost:5000/bot", "localhost:5000/bot", "latest"),
        ("localhost:5000/team/bot:1.0", "localhost:5000/team/bot", "1.0"),
    ],
)
def test_name_and_tag_are_separated(text, name, tag):
    assert Image.parse(text) == Image(name=name, tag=tag)


@pytest.mark.parametrize("text", ["", "bot:", "team/", "a b", "bot@sha256:abc"])
def test_text_without_name_and_tag_is_refused(text):
    with pytest.raises(ValueError, match="name:tag"):
        Image.parse(text)
