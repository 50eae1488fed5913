"""Rules about the layout of the code that import-linter does not check."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = (
    "core", "coolify", "servers", "bots", "queues", "slots", "pool", "api", "dashboard", "botpool",
)  # fmt: skip
MOST_MODULES = 14


def packages() -> Iterator[Path]:
    for name in PACKAGES:
        for init in sorted((ROOT / name).rglob("__init__.py")):
            if not {"migrations", "management", "commands", "templatetags"} & set(init.parts):
                yield init.parent


def modules() -> Iterator[Path]:
    for name in PACKAGES:
        yield from sorted((ROOT / name).rglob("*.py"))


def imports_in_functions(source: str) -> list[str]:
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


def test_no_function_imports_a_package_of_the_project():
    found = {str(path): imports_in_functions(path.read_text()) for path in modules()}
    assert {path: names for path, names in found.items() if names} == {}


def test_an_import_in_a_function_is_found():
    source = "def f():\n    from slots.models import Slot\n    import coolify.client, json\n"
    assert imports_in_functions(source) == ["slots.models", "coolify.client"]


def test_no_folder_has_too_many_modules():
    # Django wants all commands of an app in one folder.
    flat = {"migrations", "commands"}
    folders = {path.parent for path in modules() if not flat & set(path.parts)}
    sizes = {
        str(folder.relative_to(ROOT)): sum(p.name != "__init__.py" for p in folder.glob("*.py"))
        for folder in folders
    }
    assert {folder: size for folder, size in sizes.items() if size > MOST_MODULES} == {}


@pytest.mark.parametrize("package", list(packages()), ids=lambda path: str(path.relative_to(ROOT)))
def test_each_package_has_a_docstring(package: Path):
    docstring = ast.get_docstring(ast.parse((package / "__init__.py").read_text()))
    assert docstring, "add a docstring: what belongs in this package, and what does not"


# --- Hand-written SQL ---------------------------------------------------------------------------

SQL = re.compile(r"\b(SELECT|UPDATE|INSERT INTO|DELETE FROM|LISTEN|SHOW)\s+[\w*%('{]")
MOST_WITH_SQL = 12


def holds_sql(path: Path) -> bool:
    tree = ast.parse(path.read_text())
    documentation = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
        and ast.get_docstring(node) is not None
        and isinstance(node.body[0], ast.Expr)
    }
    return any(
        SQL.search(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and id(node) not in documentation
    )


def test_few_modules_hold_hand_written_sql():
    """Each of them does what the ORM cannot say, or what a benchmark shows to pay."""
    used_by_migrations = ROOT / "core" / "constraints.py"
    product = [p for p in modules() if "migrations" not in p.parts and p != used_by_migrations]
    assert len([path for path in product if holds_sql(path)]) <= MOST_WITH_SQL
