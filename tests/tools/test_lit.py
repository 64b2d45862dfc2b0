"""Runs lit over lit_tests: one item for each .mlir file, one lit process for all of them.

Their commands are forks of that process, see helpers/warm_lit.py; those of COLD start as users
start them. `lit lit_tests` starts all of them so.
"""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from helpers import kernel_builds
from mlirfuse.kernels import build_server

ROOT = Path(__file__).parents[2] / "lit_tests"
FILES = sorted(
    str(path.relative_to(ROOT)) for path in ROOT.rglob("*.mlir") if "Inputs" not in path.parts
)
FILE_SECONDS = 240
"""Time limit of lit, for each file that it runs."""

COLD = (
    "frontends/rms_norm_fusion.mlir",
    "pipelines/stack-limit.mlir",
    "tools/errors.mlir",
    "tools/graph.mlir",
    "tools/list-passes.mlir",
    "tools/print-options.mlir",
)
"""Files whose tools are started: exit codes of errors, standard input, limits of the process."""


def lit(folder, *arguments, cold=(), scratch, builder=None):
    """Runs lit over files of a folder; returns the report's entries by their names."""
    report = scratch / "report.json"
    command = [
        *(sys.executable, "-m", "helpers.warm_lit", "-q", "-j", str(os.cpu_count() or 1)),
        *("--param", f"scratch={scratch}", "-o", str(report)),
        *(str(folder / name) for name in arguments),
    ]
    environment = {
        **os.environ,
        **(builder or {}),
        "MLIRFUSE_TEST_COLD": "|".join(f"^{name}$" for name in cold) or "$^",
        "OPENBLAS_NUM_THREADS": "1",  # a process that forks has one thread
        "PYTHONPATH": os.fspath(Path(kernel_builds.__file__).parents[1]),
    }
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=FILE_SECONDS * len(arguments),
        env=environment,
        check=False,
    )
    if not report.exists():
        pytest.fail(f"lit wrote no report:\n{done.stdout}\n{done.stderr}", pytrace=False)
    tests = json.loads(report.read_text())["tests"]
    return {test["name"].partition(" :: ")[2]: test for test in tests}


@pytest.fixture(scope="module")
def outcomes(request, tmp_path_factory, kernels):
    """File -> entry of lit's report, for the files of the selected items."""
    chosen = [
        item.callspec.params["file"]
        for item in request.session.items
        if item.path == request.path and item.name.startswith("test_lit[")
    ]
    builder = {"MLIRFUSE_TEST_KERNELS": os.fspath(kernels)}
    if importlib.util.find_spec("triton"):
        builder["MLIRFUSE_TEST_BUILDER"] = build_server.socket_path()
    scratch = tmp_path_factory.mktemp("lit")
    return lit(ROOT, *chosen, cold=COLD, scratch=scratch, builder=builder)


@pytest.mark.parametrize("file", FILES)
def test_lit(file, outcomes):
    outcome = outcomes[file]
    if outcome["code"] == "UNSUPPORTED":
        pytest.skip(outcome["output"].strip() or "lit: UNSUPPORTED")
    assert outcome["code"] in ("PASS", "XFAIL"), f"{outcome['code']}\n{outcome['output']}"


def test_cold_files_exist():
    assert set(COLD) <= set(FILES)


CONFIG = """
import sys
from pathlib import Path

import lit.formats

config.name = "warm"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".test"]
config.excludes = ["Inputs"]
config.test_exec_root = lit_config.params["scratch"]
config.environment["PATH"] = f"{Path(sys.executable).parent}:{config.environment['PATH']}"
"""

SCRIPTS = {
    "agrees": ("echo one > %t", "filecheck %s --input-file %t", "CHECK: one"),
    "differs": ("echo two > %t", "filecheck %s --input-file %t", "CHECK: one"),
    "exits": ("mlirfuse-opt %S/absent",),
    "refused": ("not mlirfuse-opt %S/absent 2>&1 | filecheck %s", "CHECK: absent"),
    "piped": ("mlirfuse-opt --list-passes | filecheck %s", "CHECK: rms_norm_fusion"),
    "environment": (
        "env MLIRFUSE_FLAGS=--fusion_limit=7 mlirfuse-opt --print-options | filecheck %s",
        "CHECK: fusion_limit{{.*}}7",
    ),
    "dies": ("not mlirfuse-opt %S/Inputs/dies 2>&1 | filecheck %s", "CHECK: MLIR died with SIG"),
    "hangs": ("sleep 60 | timeout 1 mlirfuse-opt - -o %t",),
}
"""Name -> its run lines, and its check."""

FAILING = {"differs", "exits", "hangs"}

DIES = """func.func @main(%x: tensor<2x3xf32>, %y: tensor<3x2xf32>) -> tensor<3x2xf32> {
  %z = linalg.transpose ins(%x : tensor<2x3xf32>) outs(%y : tensor<3x2xf32>) permutation = [1< 0]
  return %z : tensor<3x2xf32>
}
"""
"""MLIR's parser dies of it."""


def test_forks_do_as_commands_do(tmp_path):
    (tmp_path / "lit.cfg.py").write_text(CONFIG)
    (tmp_path / "Inputs").mkdir()
    (tmp_path / "Inputs" / "dies").write_text(DIES)
    for name, lines in SCRIPTS.items():
        text = "\n".join(line if "CHECK" in line else f"RUN: {line}" for line in lines)
        (tmp_path / f"{name}.test").write_text(f"{text}\n")
    found = lit(tmp_path, ".", scratch=tmp_path)
    codes = {name.removesuffix(".test"): test["code"] for name, test in found.items()}
    assert codes == {name: "FAIL" if name in FAILING else "PASS" for name in SCRIPTS}
    assert "Exit Code: -9" in found["hangs.test"]["output"]
