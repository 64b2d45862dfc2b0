"""Whole models: the default preset gives the results that golden/ has on record.

The passes run on all of them here, and a few are executed; `pytest -m sweep` compiles all of them
for all targets and executes all of them.
"""

import pytest

from helpers.models import records

EXECUTED = ("bert_block", "llama_block", "mobilenet_v3", "int8_mlp", "moe")
"""Models that are executed in every run of the tests: the smallest ones."""

TOLERANCE = {"f32": 2e-5, "f16": 2e-3}
"""Relative to the largest magnitude of the result; for sums in another order."""

PACKED = {("llama_block_f16", "cpu")}
"""Packing operands of f16 is a dispatch each; the matmuls gain more."""

CHANGED = "run python tests/models/records.py and python docs/generate.py if that is meant"


def test_every_model_has_its_record():
    assert {path.stem for path in records.FOLDER.iterdir()} == set(records.MODELS)


@pytest.mark.parametrize("name", records.MODELS)
def test_passes_fire_as_on_record(name):
    stored = records.stored(name)
    assert records.MODELS[name].__doc__ == stored["summary"]
    recorded = {target: entry["fired"] for target, entry in stored["targets"].items()}
    assert records.fired(name) == recorded, CHANGED


@pytest.mark.parametrize("name", records.MODELS)
def test_no_target_has_more_dispatches_than_stock(name):
    for target, entry in records.stored(name)["targets"].items():
        counts = entry["dispatches"]
        assert counts["fused"] <= counts["stock"] or (name, target) in PACKED, target


AT_MOST = {
    ("bert_block", "cuda"): 8,
    ("bert_block", "rocm"): 8,
    ("bert_block_f16", "cuda"): 8,
    ("bert_block_f16", "rocm"): 8,
    ("llama_block", "rocm"): 8,
    ("llama_block_f16", "cuda"): 8,
    ("llama_block_f16", "rocm"): 8,
}
"""Dispatches of a block in the default preset."""


@pytest.mark.parametrize(("name", "target"), AT_MOST)
def test_blocks_are_few_dispatches(name, target):
    counts = records.stored(name)["targets"][target]["dispatches"]
    assert counts["fused"] <= AT_MOST[name, target]


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=() if n in EXECUTED else pytest.mark.sweep) for n in records.MODELS],
)
def test_agrees_with_the_framework(name):
    assert records.error(name) < TOLERANCE["f16" if name.endswith("_f16") else "f32"]


@pytest.mark.parametrize("target", ["cpu", "cuda"])
def test_parameters_are_rewritten_as_constants_are(target, tmp_path):
    spelling = records.TARGETS[target]
    path = records.with_parameters("llama_block", tmp_path)
    known = records.counted(records.imported("llama_block")[0], spelling)
    assert records.counted(path, spelling) == known


@pytest.mark.sweep
@pytest.mark.parametrize("name", records.MODELS)
@pytest.mark.parametrize("target", records.TARGETS)
def test_compiles_as_on_record(name, target):
    stored = records.stored(name)["targets"][target]
    assert {"fired": stored["fired"], **records.compiled(name, target)} == stored, CHANGED
