"""docs/passes.json: complete, and equal to a new compile of one example."""

import dataclasses
import json
from importlib import metadata

import pytest

from benchmarks import catalogue
from mlirfuse.core import Reason
from mlirfuse.patterns import PASSES

RECORD = json.loads(catalogue.RESULTS.read_text(encoding="utf-8"))


def test_every_pass_is_on_record_with_this_iree():
    assert set(RECORD["passes"]) == set(PASSES)
    assert RECORD["iree"] == metadata.version("iree-base-compiler")


@pytest.mark.parametrize("name", PASSES)
def test_every_example_has_an_answer_for_every_target(name):
    types = RECORD["passes"][name]["types"]
    assert types
    known = {catalogue.YES, catalogue.NO_MATCH, catalogue.STOCK_FAILS, *(r.code for r in Reason)}
    for found in types.values():
        file, function = found["example"].partition(" as ")[0].split("@")
        assert f"@{function}(" in (catalogue.LIT / file).read_text(encoding="utf-8")
        assert set(found["targets"]) == set(catalogue.TARGETS)
        assert {answer.partition(":")[0] for answer in found["targets"].values()} <= known


@pytest.mark.parametrize("name", PASSES)
def test_every_pass_has_savings_where_it_is_on_by_default(name):
    saved = RECORD["passes"][name]["saved"]
    assert saved["types"] in RECORD["passes"][name]["types"]
    assert saved["target"].partition(":")[0] in PASSES[name].targets


EXAMPLE = catalogue.Example(
    file="a.mlir",
    function="rows_f32",
    types="f32",
    dynamic=True,
    elements=512,
    text="""
func.func @rows_f32(%x: tensor<?x4xf32>, %n: index) -> (tensor<?x4xf32>, f32) {
  %low = arith.constant 0xFF800000 : f32
  return %x, %low : tensor<?x4xf32>, f32
}
""",
)


def test_types_that_no_example_has_are_made_of_one_that_is_there():
    found = list(catalogue.retyped([EXAMPLE]))
    assert [str(e) for e in found] == ["a.mlir@rows_f32 as f16", "a.mlir@rows_f32 as bf16"]
    for example, low in zip(found, ("0xFC00", "0xFF80"), strict=True):
        kind = example.types
        assert f"-> (tensor<?x4x{kind}>, {kind})" in example.text
        assert f"%low = arith.constant {low} : {kind}\n" in example.text
    mixed = dataclasses.replace(EXAMPLE, types="bf16 x f16")
    assert [e.types for e in catalogue.retyped([mixed, EXAMPLE])] == []


def test_examples_of_a_pass_have_symbols_of_their_own():
    merged = catalogue.merged_module([EXAMPLE, *catalogue.retyped([EXAMPLE])])
    for kind in catalogue.NEG_INF:
        assert merged.count(f"@rows_f32_as_{kind}(") == 1


def test_a_file_is_of_the_pass_with_the_longest_name():
    assert [p.name for p in catalogue.files("shape_reshape")] == ["shape_reshape.mlir"]
    assert [p.name for p in catalogue.files("flash_attention_fusion_v1")] == [
        "flash_attention_fusion_v1.mlir",
        "flash_attention_fusion_v1_rows_without_keys.mlir",
    ]


def test_one_example_compiled_again_agrees():
    name, target = "matmul_elem_biasadd_fusion", catalogue.TARGETS[0]
    chosen = [e for e in catalogue.examples(name) if e.types == "f32"]
    found, record = catalogue.entry(name, chosen, [target]), RECORD["passes"][name]
    assert found["types"]["f32"]["example"] == record["types"]["f32"]["example"]
    assert found["types"]["f32"]["targets"] == {target: record["types"]["f32"]["targets"][target]}
    assert found["saved"] == record["saved"]
