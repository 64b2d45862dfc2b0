"""Runs lit over lit_tests: one item for each .mlir file, one lit process for all of them."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2] / "lit_tests"
FILES = sorted(
    str(path.relative_to(ROOT)) for path in ROOT.rglob("*.mlir") if "Inputs" not in path.parts
)
FILE_SECONDS = 120
"""Time limit of lit, for each file that it runs."""


@pytest.fixture(scope="module")
def outcomes(request, tmp_path_factory):
    """File -> entry of lit's report, for the files of the selected items."""
    scratch = tmp_path_factory.mktemp("lit")
    report = scratch / "report.json"
    chosen = [
        item.callspec.params["file"]
        for item in request.session.items
        if item.path == request.path and hasattr(item, "callspec")
    ]
    command = [
        sys.executable,
        "-c",
        "from lit.main import main; main()",
        "-q",
        "-j",
        str(os.cpu_count() or 1),
        "--param",
        f"scratch={scratch}",
        "-o",
        str(report),
        *(str(ROOT / name) for name in chosen),
    ]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=FILE_SECONDS * len(chosen), check=False
    )
    if not report.exists():
        pytest.fail(f"lit wrote no report:\n{done.stdout}\n{done.stderr}", pytrace=False)
    tests = json.loads(report.read_text())["tests"]
    return {test["name"].partition(" :: ")[2]: test for test in tests}


@pytest.mark.parametrize("file", FILES)
def test_lit(file, outcomes):
    outcome = outcomes[file]
    if outcome["code"] == "UNSUPPORTED":
        pytest.skip(outcome["output"].strip() or "lit: UNSUPPORTED")
    assert outcome["code"] in ("PASS", "XFAIL"), f"{outcome['code']}\n{outcome['output']}"
