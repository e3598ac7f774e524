"""The public names of attest's packages: each table of lazy names says what its type checker sees, and is true."""

import ast
from importlib import import_module
from pathlib import Path

import pytest

ATTEST = Path(__file__).resolve().parent.parent / "attest"
LAZY = [path for path in sorted(ATTEST.rglob("__init__.py")) if "lazy_names(" in path.read_text(encoding="utf-8")]


def package_of(path: Path) -> str:
    return ".".join(path.parent.relative_to(ATTEST.parent).parts)


def checked_names(tree: ast.Module) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for block in tree.body:
        if isinstance(block, ast.If) and getattr(block.test, "id", "") == "TYPE_CHECKING":
            for line in block.body:
                assert isinstance(line, ast.ImportFrom)
                assert line.module is not None
                found.setdefault(line.module, set()).update(alias.name for alias in line.names)
    return found


def table_of(tree: ast.Module) -> dict[str, set[str]]:
    (call,) = (
        node for node in ast.walk(tree) if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "lazy_names"
    )
    return {module: set(names) for module, names in ast.literal_eval(call.args[1]).items()}


def test_there_are_packages_to_look_at() -> None:
    assert len(LAZY) >= 2


@pytest.mark.parametrize("path", LAZY, ids=package_of)
def test_a_package_offers_what_its_type_checker_sees(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    table = table_of(tree)
    assert table == checked_names(tree)
    package = import_module(package_of(path))
    for module, names in table.items():
        for name in names:
            assert getattr(package, name) is getattr(import_module(module), name)
            assert name in package.__all__


def test_a_name_that_no_package_offers_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'attest' has no attribute 'nonsense'"):
        getattr(import_module("attest"), "nonsense")  # noqa: B009  mypy knows that it is not there
