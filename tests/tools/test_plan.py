"""`mlirfuse-plan` answers on the command line."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from mlirfuse.fusion_plan import FusionPlan
from mlirfuse.tools.plan import main

CBA = "conv 3x3 s1 p1 8 -> bias -> relu"


def test_one_kernel(capsys):
    assert main([CBA, "--input=1x4x9x9xf32", "--tensors"]) == 0
    shown = capsys.readouterr().out
    assert "\none kernel\n" in shown
    assert "weights 8x4x3x3xf32" in shown


def test_a_refusal_names_the_nearest(capsys):
    assert main([f"{CBA} -> softmax", "--input=1x4x9x9xf32", "--json"]) == 1
    answer = json.loads(capsys.readouterr().out)
    assert answer["code"] == "unsupported_order"
    assert answer["edits"] == ["without softmax"]


def test_a_compiled_plan_is_written(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("MLIRFUSE_CACHE_DIR", str(tmp_path / "cache"))
    file = tmp_path / "plan.vmfb"
    assert main([CBA, "--input=1x9x9x4xf16", "--layout=NHWC", "-o", str(file)]) == 0
    assert "kernel " in capsys.readouterr().out
    assert FusionPlan.load(file).output.shape == (1, 9, 9, 8)


@pytest.mark.parametrize(
    ("arguments", "fragment"),
    [
        ([], "PLAN"),
        ([CBA], "--input"),
        ([CBA, "--input=4,5"], "no tensor"),
        (["conf 8", "--input=1x4x9x9xf32"], "unknown op 'conf'"),
        ([CBA, "--input=1x4x9x9xf32", "--target=tpu"], "unknown target"),
    ],
)
def test_wrong_usage(arguments, fragment, capsys):
    assert main(arguments) == 2
    assert fragment in capsys.readouterr().err


EXAMPLES = sorted((Path(__file__).parents[2] / "examples" / "fusion_plan").glob("*.py"))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_examples_run(example, tmp_path):
    environment = {**os.environ, "MLIRFUSE_CACHE_DIR": str(tmp_path), "MLIRFUSE_FIND_DB": "off"}
    subprocess.run([sys.executable, str(example)], check=True, timeout=120, env=environment)
