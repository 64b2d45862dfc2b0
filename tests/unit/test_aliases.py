"""Passes whose MindSpore names explain nothing answer to a descriptive name, which lists show."""

import json

import pytest

import mlirfuse
from mlirfuse.core import normalized
from mlirfuse.options import FusionOptions
from mlirfuse.patterns import PASSES
from mlirfuse.pipelines.resolve import resolve
from mlirfuse.tools.opt import main as opt

DESCRIPTIVE = {
    "masked_attention_fusion": "flash_attention_fusion_v1",
    "attention_fusion": "flash_attention_fusion_v2",
    "dynamic_reshape_rewrite": "shape_reshape",
    "static_reshape_rewrite": "shape_reshape_2",
    "add_layer_norm_partial_affine_fusion": "add_layer_norm_ext_fusion",
    "add_layer_norm_multi_axis_fusion": "add_layer_norm_v3_fusion",
    "quantized_matmul_bias_fusion": "inference_qbmm_add_fusion",
    "matmul_split_fusion": "inference_matmul_split_fusion",
    "swiglu_fusion": "inference_swiglu_fusion",
}


def test_no_two_passes_answer_to_one_name():
    names = [n for p in PASSES.values() for n in {normalized(n) for n in (p.name, *p.aliases)}]
    assert len(names) == len(set(names))


@pytest.mark.parametrize(("alias", "name"), DESCRIPTIVE.items())
def test_switches_and_pipelines_take_an_alias(alias, name):
    options = FusionOptions.resolve(disable_pass=[f"{alias}@match=1"], enable_pass=[alias])
    assert (options.disable_pass, options.enable_pass) == ((f"{name}@match=1",), (name,))
    (item,) = resolve(alias)
    assert item.name == name
    assert [i.name for i in resolve(f"cse,{alias}")] == ["cse", name]


def test_lists_show_aliases(capsys):
    assert opt(["--list-passes"]) == 0
    text = capsys.readouterr().out
    assert opt(["--list-passes=json"]) == 0
    entries = {entry["name"]: entry for entry in json.loads(capsys.readouterr().out)}
    from_python = {entry["name"]: entry for entry in mlirfuse.list_passes()}
    assert entries == from_python
    for alias, name in DESCRIPTIVE.items():
        assert entries[name]["aliases"][0] == alias
        section = text.partition(f"\n{name} ")[2].partition("also called: ")[2]
        assert section.startswith(alias)


def test_the_command_line_takes_an_alias(tmp_path, capsys):
    path = tmp_path / "empty.mlir"
    path.write_text("module {}", encoding="utf-8")
    assert opt([str(path), "--pipeline=swiglu_fusion", "--disable-pass=swiglu-fusion"]) == 0
    assert opt([str(path), "--pipeline=swiglu_fusion{limit=3}"]) == 2
    assert "pass 'inference_swiglu_fusion' has no option 'limit'" in capsys.readouterr().err
