"""No test module imports another one: what they share is in tests/helpers."""

import ast
from pathlib import Path

TESTS = Path(__file__).parents[1]
MODULES = sorted(TESTS.rglob("*.py"))
TEST_MODULES = {path.stem: path for path in MODULES if path.stem.startswith("test_")}


def imported(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            yield (node.module or "").split(".")[-1]
        elif isinstance(node, ast.Import):
            yield from (alias.name.split(".")[-1] for alias in node.names)


def test_no_module_imports_a_test_module():
    found = {path.name: set(imported(path)) & {*TEST_MODULES} for path in MODULES}
    assert not {name: names for name, names in found.items() if names}


def test_names_of_test_modules_are_unique():
    """pytest imports them without packages, by their names alone."""
    assert len(TEST_MODULES) == sum(path.stem.startswith("test_") for path in MODULES)


def test_helpers_hold_no_tests():
    assert not [path for path in (TESTS / "helpers").rglob("*.py") if path.stem in TEST_MODULES]
