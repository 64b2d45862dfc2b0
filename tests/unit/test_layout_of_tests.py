"""Test modules share tests/helpers alone; a default run leaves sweeps out."""

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


def test_a_default_run_has_no_test_of_a_sweep(request):
    config = request.config
    marks = {m.partition(":")[0] for m in config.getini("markers") if "not in CI" in m}
    assert marks == {"slow", "sweep"}
    addopts = config.getini("addopts")
    chosen = addopts[addopts.index("-m") + 1]
    assert chosen == " and ".join(f"not {mark}" for mark in sorted(marks, reverse=True))
    if config.option.markexpr == chosen:
        collected = [
            item
            for item in request.session.items
            for mark in item.iter_markers()
            if mark.name in marks
        ]
        assert not collected
