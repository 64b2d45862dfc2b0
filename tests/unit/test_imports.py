"""The import graph: no cycle, and no import of a higher layer."""

import ast
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import mlirfuse

ROOT = Path(mlirfuse.__file__).parent

LAYERS = (
    "errors",
    "reasons",
    "fusion_pass",
    "detached_kernels",
    "final_kernels",
    "boundaries",
    "report_html",
    "report",
    "core",
    "support",
    "marks",
    "targets",
    "structured.ir",
    "structured.expr",
    "structured.recognize",
    "cost",
    "stock_dispatches",
    "builders",
    "kernels.problem",
    "kernels.plan",
    "kernels.configs",
    "kernels.codegen",
    "kernels",
    "patterns",
    "pipelines.presets",
    "plugins",
    "options",
    "pipelines",
    "explain",
    "backend",
    "frontends",
    "profiling",
    "runtime",
    "tuning_profile",
    "compilation",
    "benchmarking",
    "debug",
    "tuning",
    "benchmarking.sides",
    "fusion_plan",
    "plan",
    "api",
    "torch_backend",
    "torch_compile",
    "tools",
    "demo",
)
"""Packages and modules from the ground up: each may import those before it, and itself."""

PUBLIC = {"", "__init__"}
"""The package itself names the whole API, lazily: nothing inside of it imports it."""


def modules():
    found = {}
    for path in ROOT.rglob("*.py"):
        parts = path.relative_to(ROOT).with_suffix("").parts
        found[".".join(p for p in parts if p != "__init__")] = path
    return found


TYPES_ALONE = {("fusion_pass", "targets.base")}
"""Imports for type checkers alone that are no arrow: passes are given a target, and targets raise
the errors that passes raise."""


def imports(path, known):
    """The modules that a module imports, also inside functions and for type checkers alone."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "mlirfuse":
            module = node.module.partition(".")[2]
            for alias in node.names:
                whole = f"{module}.{alias.name}".lstrip(".")
                yield whole if whole in known else module
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.partition(".")[0] == "mlirfuse":
                    yield alias.name.partition(".")[2]


def graph():
    known = modules()
    return {
        name: {
            other
            for other in imports(path, known)
            if other not in PUBLIC and other != name and (name, other) not in TYPES_ALONE
        }
        for name, path in known.items()
        if name not in PUBLIC
    }


def layer(module):
    fitting = [name for name in LAYERS if module == name or module.startswith(f"{name}.")]
    assert fitting, f"{module} is in no layer"
    return LAYERS.index(max(fitting, key=len))


def test_there_is_no_circle():
    try:
        list(TopologicalSorter(graph()).static_order())
    except CycleError as error:
        raise AssertionError(" imports ".join(error.args[1][::-1])) from None


def test_no_import_runs_up():
    up = [
        f"{name} imports {other}"
        for name, others in graph().items()
        for other in others
        if layer(other) > layer(name)
    ]
    assert not up


def test_every_layer_has_modules():
    assert {layer(name) for name in modules() if name not in (*PUBLIC, "structured")} == {
        *range(len(LAYERS))
    }
