"""`mlirfuse-plan` answers on the command line."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from mlirfuse import targets
from mlirfuse.compilation import open_model
from mlirfuse.fusion_plan import FusionPlan
from mlirfuse.options import FusionOptions
from mlirfuse.tools.plan import main
from mlirfuse.tuning_profile import application, fingerprint
from mlirfuse.tuning_profile.entry import Entry, Setting
from mlirfuse.tuning_profile.file import Profile, Section

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


def test_a_transposed_convolution_doubles_the_image(capsys):
    words = ["conv_transpose 3x3 s2 p1 op1 8 -> relu", "--input=1x4x9x9xf32", "--tensors"]
    assert main(words) == 0
    assert "output 1x8x18x18xf32" in capsys.readouterr().out


def test_a_profile_sets_how_a_plan_is_compiled(tmp_path, capsys, monkeypatch, caplog):
    monkeypatch.setenv("MLIRFUSE_CACHE_DIR", str(tmp_path / "cache"))
    text, profile = tmp_path / "plan.mlir", tmp_path / "plan.toml"
    words = ["softmax", "--input=16x64xf32"]
    assert main([*words, "-o", str(text)]) == 0
    kernel = capsys.readouterr().out.splitlines()[-1]
    assert "math.exp" in text.read_text()
    with open_model(text.read_bytes(), target="cpu", options=FusionOptions()) as work:
        graph = fingerprint.of_file(work.imported.path)
    write_profile(profile, graph, Setting("disable_pass", "row_vector_kernel"))
    assert main([*words, f"--profile={profile}"]) == 0
    shown = capsys.readouterr().out
    assert kernel not in shown
    assert "disable_pass=row_vector_kernel: 1.100 times as fast" in shown
    assert main([*words, "--compile"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == kernel

    assert main(["softmax", "--input=16x32xf32", f"--profile={profile}", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["profile"]["entries"] == []
    assert "no section is for this model" in caplog.text
    assert main([*words, "--profile=none.toml"]) == 2
    assert "cannot read none.toml" in capsys.readouterr().err


def write_profile(path, graph, setting):
    device = application.device_name(targets.parse("cpu"))
    entry = Entry(setting, "main: plan.mlir:2:3", 1.1, (1.05, 1.2), 1.02, 24, "rounds", {})
    identity = ("plan.mlir", graph, "cpu", device)
    section = Section(*identity, application.versions(), "latency", entries=(entry,))
    Profile((section,)).write(path)


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
