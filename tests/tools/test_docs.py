"""The documents agree with the code: generated pages, links, commands, examples."""

import importlib
import os
import re
import subprocess
import sys
from pathlib import Path

import onnx
import onnx.parser
import pytest

from helpers import warm_python
from helpers.pages import ROOT, generate
from mlirfuse.patterns import PASSES

REPOSITORY = "https://github.com/mlirfuse/mlirfuse"

PAGES = sorted([ROOT / "README.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").glob("*.md")])
TOOLS = tuple(
    f"mlirfuse-{name}"
    for name in ("opt", "compile", "run", "bench", "bisect", "tune", "profile", "plan")
)


@pytest.mark.parametrize("name", generate.PAGES)
def test_generated_page_is_up_to_date(name):
    written = (ROOT / "docs" / name).read_text(encoding="utf-8")
    assert written == generate.PAGES[name](), "run python docs/generate.py"


def test_generated_charts_are_up_to_date():
    for name, made in generate.plan_charts().items():
        assert (ROOT / "docs" / name).read_text("utf-8") == made, "run python docs/generate.py"


def test_every_pass_has_its_ir_on_the_page():
    page = generate.passes()
    for name in PASSES:
        section = page.partition(f"\n## {name}\n")[2].partition("\n## ")[0]
        assert "```mlir" in section, name
        # The engine looks for the groups of a pass with rules: they have no root.
        assert PASSES[name].rules or "\nRoot: " in section, name
        assert "\nSource: " in section, name


def anchors(path):
    headings = re.findall(r"^#+ (.+)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_links_resolve(page):
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        # PyPI shows the README alone: its links are absolute, and are those of files here.
        ours = re.match(rf"{re.escape(REPOSITORY)}/(?:blob|raw)/main/(.+)", link)
        if ours is None and link.startswith("https://"):
            continue
        assert ours or page.name != "README.md", f"{link} does not work on PyPI"
        name, _, anchor = (ours[1] if ours else link).partition("#")
        target = ((ROOT if ours else page.parent) / name).resolve() if name else page
        assert target.exists(), f"{page.name}: {link}"
        assert ROOT in target.parents, f"{page.name}: {link}"
        if anchor:
            assert anchor in anchors(target), f"{page.name}: {link}"


def test_files_and_names_of_the_checklists_exist():
    page = (ROOT / "docs" / "developing.md").read_text(encoding="utf-8")
    text = re.sub(r"^    .*$", "", page.partition("\n## A pass\n")[2], flags=re.MULTILINE)
    spans = re.findall(r"`([^`]+)`", text)
    found = {w for s in spans for w in s.split() if re.match(r"\w+/", w)} | {
        *re.findall(r"\bdocs/[\w.-]+\w", text)
    }
    assert len(found) > 30
    for word in found:
        # Up to a name that the reader chooses: `NAME`, `FAMILY`, `TARGET`.
        known = re.sub(r"\b(NAME|FAMILY|TARGET)\b.*$", "", word)
        if any((folder / known).exists() for folder in (ROOT, ROOT / "mlirfuse")):
            continue
        module, _, attribute = known.replace("/", ".").rpartition(".")
        assert hasattr(importlib.import_module(f"mlirfuse.{module}"), attribute), word


def test_every_page_is_in_the_index():
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    listed = set(re.findall(r"\]\(([\w-]+\.md)\)", index))
    assert listed == {p.name for p in (ROOT / "docs").glob("*.md")} - {"index.md"}


def command(name):
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    return re.search(rf"<!-- command: {name} -->\n```sh\n(.+)\n```", readme)[1]


def test_ci_runs_the_steps_of_the_test_command():
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    script = script.replace("pytest --durations=25", "pytest")
    lines = [line.removeprefix("step ") for line in script.splitlines()]
    steps = command("test").split(" && ")
    assert steps[-1] == ".venv/bin/pytest"
    assert [line for line in lines if line in steps] == steps
    first, last = lines.index(steps[0]), lines.index(steps[-1])
    between = [line for line in lines[first:last] if line not in steps]
    assert between == [
        "failed=()",
        'step() { "$@" || failed+=("$1 (exit $?)"); }',
        ".venv/bin/ruff check .",
        ".venv/bin/ruff format --check .",
        ".venv/bin/mypy",
    ]
    assert lines[last + 1 : last + 2] == ["if ((${#failed[@]})); then"]
    assert os.access(ROOT / ".ci" / "run", os.X_OK)


def test_the_demo_command_installs_and_runs_the_main_job():
    assert command("demo").split(" && ") == [
        "python3 -m venv .venv",
        ".venv/bin/pip install -c constraints.txt -e '.[demo]'",
        ".venv/bin/python -m mlirfuse.demo",
    ]


def test_constraints_pin_one_version_of_everything():
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = [line for line in lines if not line.startswith("#")]
    assert all(re.fullmatch(r"[\w.-]+==[\w.]+", pin) for pin in pins)
    names = {re.sub(r"[-_.]+", "-", pin.partition("==")[0]).lower() for pin in pins}
    assert len(names) == len(pins)
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    required = re.findall(r'"([\w-]+)(?:[=<>~][^"]*)?"', project.partition("dependencies = [")[2]
                          .partition("[project.scripts]")[0])  # fmt: skip
    # Packages for GPUs alone are in no test.
    optional = {"mlirfuse", "triton", "cuda-bindings"}
    assert {re.sub(r"[-_.]+", "-", n).lower() for n in required} - optional <= names


@pytest.mark.parametrize("tool", TOOLS)
def test_switches_of_the_commands_that_pages_show_exist(tool):
    command = [str(Path(sys.executable).with_name(tool)), "--help"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    known = set(re.findall(r"--[a-z][\w-]*", done.stdout))
    shown = [
        line
        for page in PAGES
        for line in re.findall(rf"^ *(?:\$ )?{tool} .*$", page.read_text("utf-8"), re.MULTILINE)
    ]
    assert shown
    for line in shown:
        unknown = set(re.findall(r" (--[a-z][\w-]*)", line)) - known
        assert not unknown, line


PYTHON = [
    pytest.param(block, id=f"{page.name}-{number}")
    for page in PAGES
    for number, block in enumerate(
        re.findall(r"^```python\n(.*?)^```", page.read_text("utf-8"), re.DOTALL | re.MULTILINE)
    )
]


@pytest.fixture(scope="module")
def python():
    """Runs texts in processes that have imported PyTorch already."""
    with warm_python.started() as made:
        yield made


@pytest.fixture
def place(tmp_path):
    """A folder with the models of the examples."""
    (tmp_path / "model.mlir").write_text(MODEL)
    onnx.save(onnx.parser.parse_model(ONNX_MODEL), tmp_path / "model.onnx")
    return tmp_path


@pytest.mark.parametrize("block", PYTHON)
def test_python_examples_run(block, place, python):
    environment = {**os.environ, "MLIRFUSE_CACHE_DIR": str(place / "cache")}
    code, said = python.run(block, place, environment)
    assert code == 0, said[-2000:]


def test_an_example_runs_in_a_new_process(place):
    (block,) = (param.values[0] for param in PYTHON if param.id == "README.md-0")
    done = subprocess.run(
        [sys.executable, "-c", block],
        cwd=place,
        env={**os.environ, "MLIRFUSE_CACHE_DIR": str(place / "cache")},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]


def test_an_example_that_fails_is_told(place, python):
    code, said = python.run("print('seen')\nraise ValueError('told')", place, dict(os.environ))
    assert code == 1
    assert said.rstrip().endswith("ValueError: told")
    assert python.run("import sys; sys.exit(3)", place, dict(os.environ))[0] == 3
    assert python.run("import os; os.abort()", place, dict(os.environ))[0] < 0
    text = "import os, sys; assert os.environ == {'A': 'b'}; assert 'model.mlir' in os.listdir()"
    assert python.run(text, place, {"A": "b"}) == (0, "")


ONNX_MODEL = """
<ir_version: 8, opset_import: ["": 17]>
net (float[4, 8] x) => (float[4, 8] y) { y = Exp(x) }
"""

MODEL = """
func.func @main(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %y = math.exp %x : tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}
"""
