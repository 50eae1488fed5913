"""The shape of the code: what import-linter does not check."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = ("core", "coolify", "bots", "queues", "slots", "pool", "api", "dashboard", "botpool")
MOST_MODULES = 14


def packages() -> Iterator[Path]:
    for name in PACKAGES:
        for init in sorted((ROOT / name).rglob("__init__.py")):
            if not {"migrations", "management", "commands", "templatetags"} & set(init.parts):
                yield init.parent


def modules() -> Iterator[Path]:
    for name in PACKAGES:
        yield from sorted((ROOT / name).rglob("*.py"))


def imports_within_functions(source: str) -> list[str]:
    functions = (
        node
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    )
    found = []
    for function in functions:
        for node in ast.walk(function):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            found += [name for name in names if name.split(".")[0] in PACKAGES]
    return found


def test_no_function_imports_one_of_our_packages():
    found = {str(path): imports_within_functions(path.read_text()) for path in modules()}
    assert {path: names for path, names in found.items() if names} == {}


def test_an_import_within_a_function_is_noticed():
    source = "def f():\n    from slots.models import Slot\n    import coolify.client, json\n"
    assert imports_within_functions(source) == ["slots.models", "coolify.client"]


def test_no_folder_has_more_than_about_a_dozen_modules():
    folders = {path.parent for path in modules() if "migrations" not in path.parts}
    sizes = {
        str(folder.relative_to(ROOT)): sum(p.name != "__init__.py" for p in folder.glob("*.py"))
        for folder in folders
    }
    assert {folder: size for folder, size in sizes.items() if size > MOST_MODULES} == {}


@pytest.mark.parametrize("package", list(packages()), ids=lambda path: str(path.relative_to(ROOT)))
def test_each_package_says_what_lives_in_it(package: Path):
    docstring = ast.get_docstring(ast.parse((package / "__init__.py").read_text()))
    assert docstring, "say in a line or two what lives here, and what may not"
