"""Exceptions of our own code cost a part of the work, never the user's program."""

import dataclasses
import logging
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

import mlirfuse
from helpers import planted
from helpers.kernel_runner import needs_triton
from mlirfuse import targets
from mlirfuse.backend import fallback, grouping
from mlirfuse.builders import codegen_repairs
from mlirfuse.core import ImportFailedError, MustFuseError, PassFailedError, Reason
from mlirfuse.explain import files, graph, page, plain
from mlirfuse.frontends import jax_repairs, lowering, torch_decompositions
from mlirfuse.frontends.jax_repairs import elementwise as jax_elementwise
from mlirfuse.frontends.jax_repairs.dead_values import remove_dead_values
from mlirfuse.kernels import triton_compiler
from mlirfuse.options import FusionOptions
from mlirfuse.patterns import PASSES
from mlirfuse.pipelines import engine
from mlirfuse.structured.ir import data_tiling, ops
from mlirfuse.tools import compile as compiling
from mlirfuse.torch_compile import backend

MESSAGE = "planted"

DIVISION = torch.ops.aten.div.Tensor_mode


class Planted(Exception):
    """An exception that no code of ours expects."""


def fail(*_, **__):
    raise Planted(f"{MESSAGE}\nand a second line")


def halfway(sound):
    """A rewrite that raises once it has changed the IR."""

    def rewrite(match, ctx):
        sound.rewrite(match, ctx)
        fail()

    return rewrite


def invalid(sound):
    """A rewrite that leaves an op before its operand."""

    def rewrite(match, ctx):
        region = sound.rewrite(match, ctx)
        producer = ops.defining_op(ops.external_operands(region)[0])
        block = region.block
        region.move_before(next(iter(block.operations)).operation)
        assert producer is None or producer.block == block
        return region

    return rewrite


def in_pass(name, **fields):
    def plant(monkeypatch):
        sound = PASSES[name]
        made = {key: value(sound) for key, value in fields.items()}
        monkeypatch.setitem(PASSES, name, dataclasses.replace(sound, **made))

    return plant


def at(place, name):
    return lambda monkeypatch: monkeypatch.setattr(place, name, fail)


def raising(_):
    return fail


PASS = "add_rms_norm_fusion"
RULES = planted.GROUPS

PLACES = {
    "match": (in_pass(PASS, match=raising), PASS),
    "where": (in_pass(PASS, where=raising), PASS),
    "legal": (in_pass(PASS, legal=raising), PASS),
    "profitable": (in_pass(PASS, profitable=raising), PASS),
    "prepare": (in_pass(PASS, prepare=raising), PASS),
    "rewrite": (in_pass(PASS, rewrite=halfway), PASS),
    "invalid IR": (in_pass(PASS, rewrite=invalid), PASS),
    "rules": (
        in_pass(RULES, rules=lambda p: dataclasses.replace(p.rules, takes=fail)),
        RULES,
    ),
    "equal results": (at(engine, "drop_equal_results"), "engine"),
    "index of ops": (at(engine.op_index, "functions"), "engine"),
    "code generation": (at(codegen_repairs, "repair_grouped"), "codegen_repairs"),
    "graph": (at(graph, "of_module"), "graph"),
    "form of a group": (at(grouping, "_form"), "groups"),
    "hints for data tiling": (at(data_tiling, "complete_hints"), "data_tiling"),
    "search for rewrites": (at(fallback, "keys"), "fallback"),
}
"""Where an exception is planted, and the name in the decision."""


def compiled(text=planted.ADD_RMS_NORM, **switches):
    return mlirfuse.compile(text, cache=False, **switches)


def check(program):
    generator = np.random.default_rng(3)
    x, r = generator.standard_normal((2, 8, 64)).astype(np.float32)
    g = generator.standard_normal(64).astype(np.float32)
    total, normed = program(x, r, g)
    np.testing.assert_array_equal(total, x + r)
    expected = total * g / np.sqrt((total * total).mean(1, keepdims=True) + 1e-5)
    np.testing.assert_allclose(normed, expected, rtol=1e-5)


def fell_back(report):
    return {d.pass_name: d for d in report.decisions if d.reason is Reason.FELL_BACK}


@pytest.mark.parametrize("place", PLACES)
def test_a_planted_exception_costs_one_part(monkeypatch, caplog, place):
    plant, name = PLACES[place]
    plant(monkeypatch)
    program = compiled(pipeline=RULES if place == "rules" else "default")
    check(program)
    found = fell_back(program.report)
    assert set(found) == {name}
    for decision in found.values():
        assert not decision.taken
        if place != "invalid IR":
            assert f"Planted: {MESSAGE}" in decision.detail
            assert "second line" not in decision.detail
    warnings = [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]
    assert len(warnings) == len(set(warnings)) == (2 if place == "index of ops" else 1)
    # Everything that shows a report can show this one.
    assert MESSAGE in program.explain() or place == "invalid IR"
    assert mlirfuse.core.Report.from_dict(program.report.to_dict()) == program.report


@pytest.mark.parametrize("place", PLACES)
def test_without_the_feature_it_is_an_error(monkeypatch, tmp_path, place):
    if place == "search for rewrites":
        pytest.skip("there is no search without the feature")
    PLACES[place][0](monkeypatch)
    source = tmp_path / "given.mlir"
    source.write_text(planted.ADD_RMS_NORM)
    pipeline = RULES if place == "rules" else "default"
    options = FusionOptions(disable_feature="fallback", pipeline=pipeline)
    with pytest.raises((Planted, PassFailedError)):
        grouping.group(source, tmp_path / "out", target=targets.parse("cpu"), options=options)


def test_a_repair_at_import_is_left_out(monkeypatch, caplog):
    def half(module):
        """Leaves a module without its body."""
        for op in reversed(list(module.body.operations)):
            op.operation.erase()
        fail()

    monkeypatch.setattr(lowering, "separate_destinations", half)
    x = torch.arange(6.0).reshape(2, 3)
    program = mlirfuse.compile(lambda x: x.argmax(1), (x,), cache=False)
    assert program(x).tolist() == [2, 2]
    assert [d.detail for d in fell_back(program.report).values()] == [f"Planted: {MESSAGE}"]
    assert sum("half left out" in r.getMessage() for r in caplog.records) == 1
    with pytest.raises(ImportFailedError, match=f"half failed: Planted: {MESSAGE}"):
        mlirfuse.compile(lambda x: x.argmax(1), (x,), cache=False, disable_feature="fallback")


def test_a_repair_of_one_op_is_left_out(monkeypatch):
    monkeypatch.setattr(jax_elementwise, "_power", fail)
    x = np.array([1.5, 2.0], np.float32)
    program = mlirfuse.compile(jax.jit(lambda x: (x**x, jnp.exp(x))), (x,), cache=False)
    for ours, theirs in zip(program(x), (x**x, np.exp(x)), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5)
    assert list(fell_back(program.report)) == ["the repair of stablehlo.power"]


def test_a_repair_of_a_whole_jax_module_is_left_out(monkeypatch):
    def half(module):
        for op in reversed(list(module.body.operations)):
            op.operation.erase()
        fail()

    steps = [half if s is remove_dead_values else s for s in jax_repairs._STEPS]
    monkeypatch.setattr(jax_repairs, "_STEPS", tuple(steps))
    # Large enough to be taken out of the module, which is read twice.
    x, w = np.ones(4096, np.float32), np.arange(4096, dtype=np.float32)
    program = mlirfuse.compile(jax.jit(lambda x: x + w), (x,), cache=False)
    np.testing.assert_array_equal(program(x), x + w)
    assert list(fell_back(program.report)) == ["half"]


def test_a_decomposition_is_left_out(monkeypatch):
    monkeypatch.setattr(torch_decompositions.quotients, "table", lambda: {DIVISION: fail})
    torch_decompositions._table.cache_clear()
    x = torch.tensor([7.0, -7.0])
    try:
        program = mlirfuse.compile(
            lambda x: torch.div(x, 2, rounding_mode="floor"), (x,), cache=False
        )
    finally:
        torch_decompositions._table.cache_clear()
    assert program(x).tolist() == [3, -4]
    assert list(fell_back(program.report)) == [f"the decomposition of {DIVISION}"]


def test_the_program_without_passes_is_contained_too(monkeypatch, caplog):
    monkeypatch.setattr(codegen_repairs, "needed", lambda _: True)
    monkeypatch.setattr(codegen_repairs, "repair", fail)
    monkeypatch.setattr(fallback, "keys", fail)
    check(compiled())
    assert "codegen_repairs left out: Planted: planted" in caplog.text


def test_other_functions_keep_the_pass(monkeypatch):
    sound = PASSES[PASS]

    def match(root, ctx):
        if ops.shape(root.results[0]) == (8, 64):
            fail()
        return sound.match(root, ctx)

    monkeypatch.setitem(PASSES, PASS, dataclasses.replace(sound, match=match))
    other = planted.ADD_RMS_NORM.partition("func.func")[2].replace("@main", "@other")
    text = f"{planted.ADD_RMS_NORM}func.func{other.replace('8x', '9x').replace('<8', '<9')}"
    program = compiled(text, function="main")
    (decision,) = (d for d in program.report.decisions if d.reason is Reason.FELL_BACK)
    assert (decision.pass_name, decision.function, decision.match) == (PASS, "main", None)
    taken = [d for d in program.report.decisions if d.taken and d.pass_name == PASS]
    assert {d.function for d in taken} == {"other"}


def test_several_passes_fail_one_after_the_other(monkeypatch):
    for name in (PASS, RULES, "softmax_fusion"):
        monkeypatch.setitem(PASSES, name, dataclasses.replace(PASSES[name], where=fail, rules=None))
    program = compiled()
    check(program)
    assert {PASS, "softmax_fusion"} <= set(fell_back(program.report))


def test_the_users_own_request_is_not_contained(monkeypatch):
    text = planted.ADD_RMS_NORM
    decisions = mlirfuse.fuse(text)[1].decisions
    (first, *_, last) = next(d.ops for d in decisions if d.taken and d.pass_name == PASS)
    monkeypatch.setitem(PASSES, PASS, dataclasses.replace(PASSES[PASS], legal=fail))
    with pytest.raises(MustFuseError, match=f"'{PASS}' is left out of @main: .*Planted: planted"):
        compiled(
            text,
            pipeline=PASS,
            must_fuse=[[op.replace("-:", "given.mlir:") for op in (first, last)]],
        )


def test_the_developers_interface_raises(monkeypatch):
    monkeypatch.setitem(PASSES, PASS, dataclasses.replace(PASSES[PASS], match=fail))
    with pytest.raises(PassFailedError, match=f"pass '{PASS}' failed at .*Planted: planted") as at:
        mlirfuse.fuse(planted.ADD_RMS_NORM)
    assert (at.value.pass_name, at.value.function) == (PASS, "main")


LAYERS = """
func.func @main(%x0: tensor<4x8xf32>) -> tensor<4x8xf32> {{
  %zero = arith.constant 0.0 : f32
  {weights}
  %e = tensor.empty() : tensor<4x8xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<4x8xf32>) -> tensor<4x8xf32>
  {layers}
  return %x7 : tensor<4x8xf32>
}}
"""


def layers():
    """Seven equal layers: a matmul and an activation."""
    weights = [
        np.random.default_rng(i).standard_normal((8, 8)).astype(np.float32) for i in range(7)
    ]
    constants = (
        f'  %w{i} = arith.constant dense<"0x{w.tobytes().hex()}"> : tensor<8x8xf32>'
        for i, w in enumerate(weights)
    )
    made = (
        f"  %m{i} = linalg.matmul ins(%x{i}, %w{i} : tensor<4x8xf32>, tensor<8x8xf32>)"
        " outs(%f : tensor<4x8xf32>) -> tensor<4x8xf32>\n"
        f"  %x{i + 1} = math.tanh %m{i} : tensor<4x8xf32>"
        for i in range(7)
    )
    return LAYERS.format(weights="\n".join(constants), layers="\n".join(made)), weights


@pytest.mark.parametrize("step", ["shorten", "replicate"])
def test_repeated_layers_are_not_deduplicated(monkeypatch, caplog, step):
    text, weights = layers()
    whole = compiled(text).report
    monkeypatch.setattr(engine, "shorten", lambda module, copy: object())
    monkeypatch.setattr(engine, step, fail)
    if step == "replicate":
        monkeypatch.undo()
        monkeypatch.setattr(engine, step, fail)
    program = compiled(text)
    found = fell_back(program.report)
    assert set(found) == {"repeated_layers"}
    assert found["repeated_layers"].detail == "Planted: planted"
    assert [d for d in program.report.decisions if d.pass_name != "repeated_layers"] == (
        whole.decisions
    )
    assert len(caplog.records) == 1
    x = expected = np.random.default_rng(9).standard_normal((4, 8)).astype(np.float32)
    for weight in weights:
        expected = np.tanh(expected @ weight)
    np.testing.assert_allclose(program(x), expected, rtol=1e-5)
    with pytest.raises(Planted):
        compiled(text, disable_feature="fallback")


KERNEL = "row_triton_kernel"


@needs_triton
@pytest.mark.parametrize("step", ["plan", "build"])
def test_a_kernel_is_left_to_iree(monkeypatch, caplog, step):
    switches = {"target": "cuda:sm_90", "enable_feature": "kernels"}
    assert compiled(**switches).report.counts()[KERNEL] == 1
    if step == "build":
        monkeypatch.setattr(triton_compiler, "build", fail)
    else:
        from mlirfuse.kernels import passes

        sound = PASSES[KERNEL]
        made = passes.kernel_pass(
            name=KERNEL, summary=sound.summary, supports=fail, source=sound.source
        )
        monkeypatch.setitem(PASSES, KERNEL, made)
    program = compiled(**switches)
    assert KERNEL not in program.report.counts()
    assert program.report.counts()[PASS] == 1
    assert fell_back(program.report)[KERNEL].detail == "Planted: planted"
    ours = [r for r in caplog.records if KERNEL in r.getMessage()]
    assert len(ours) == 1
    with pytest.raises(PassFailedError, match="Planted"):
        compiled(**switches, disable_feature="fallback")


RENDERED = {
    "--explain": (plain, "is_group"),
    "--candidates": (plain, "ranked"),
    "--report=out.html": (page, "_drawing"),
    "--graph=out.dot": (files.dot, "text"),
}


@pytest.fixture
def model(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("model.mlir").write_text(planted.ADD_RMS_NORM)


@pytest.mark.usefixtures("model")
@pytest.mark.parametrize("switch", RENDERED)
def test_the_program_is_written_without_its_explanation(monkeypatch, capsys, switch):
    monkeypatch.setattr(*RENDERED[switch], fail)
    words = ["model.mlir", "-o", "out.vmfb", switch]
    assert compiling.main(words) == 0
    error = capsys.readouterr().err
    assert error.startswith("mlirfuse-compile: warning: ")
    assert error.endswith("is left out: Planted: planted\n")
    assert {p.name for p in Path().iterdir()} == {"model.mlir", "out.vmfb"}
    check(mlirfuse.load("out.vmfb"))
    assert compiling.main([*words, "--disable-feature=fallback"]) == 1
    assert "internal error: Planted: planted" in capsys.readouterr().err


@pytest.mark.usefixtures("model")
def test_the_traceback_is_shown_on_request(monkeypatch, capsys):
    monkeypatch.setitem(PASSES, PASS, dataclasses.replace(PASSES[PASS], match=fail))
    words = ["model.mlir", "-o", "out.vmfb", "--no-cache"]
    assert compiling.main([*words, "--debug"]) == 0
    error = capsys.readouterr().err
    assert "Traceback (most recent call last)" in error
    assert 'raise Planted(f"{MESSAGE}' in error
    assert "is left out of @main" in error
    assert not logging.getLogger("mlirfuse").handlers


def test_an_explanation_in_python_is_a_line(monkeypatch, caplog):
    program = compiled()
    monkeypatch.setattr(plain, "summary", fail)
    assert program.explain() == "no explanation: Planted: planted\n"
    assert len(caplog.records) == 1
    program.report.options["disable_feature"] = ["fallback"]
    with pytest.raises(Planted):
        program.explain()


def test_a_model_of_torch_compile_runs_here(monkeypatch, caplog):
    """And not in PyTorch, as a graph that cannot be compiled would."""
    monkeypatch.setitem(
        PASSES, "softmax_fusion", dataclasses.replace(PASSES["softmax_fusion"], where=fail)
    )
    torch._dynamo.reset()
    model = torch.compile(
        lambda x: torch.softmax(x, -1) + 1, backend=backend, options={"cache": False}
    )
    x = torch.randn(4, 64)
    with torch.no_grad():
        torch.testing.assert_close(model(x), torch.softmax(x, -1) + 1)
    messages = [r.getMessage() for r in caplog.records if r.name == "mlirfuse"]
    assert len(messages) == 1
    assert messages[0].startswith("pass 'softmax_fusion' is left out of @")
