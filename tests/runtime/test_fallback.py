"""A program that IREE cannot compile as grouped is compiled without the guilty rewrite."""

import dataclasses
import logging

import numpy as np
import pytest
from iree.compiler import ir

import mlirfuse
from helpers import planted
from helpers.masked_matmul import MASKED_MATMUL
from mlirfuse import api
from mlirfuse.backend import fallback
from mlirfuse.backend.compiler import Compiler
from mlirfuse.core import CompileFailedError, MustFuseError, Reason
from mlirfuse.patterns import PASSES, data_tiling_rewrite
from mlirfuse.structured.ir import ops

STAGES = 4


def arguments(stages=STAGES):
    generator = np.random.default_rng(3)
    for i in range(stages):
        shape = (planted.ROWS, planted.width(i))
        yield generator.standard_normal(shape).astype(np.float32)
        yield generator.integers(0, 2, shape).astype(np.bool_)


def check(program):
    values = list(arguments())
    results = program(*values)
    for x, mask, y in zip(values[::2], values[1::2], results, strict=True):
        wide = x.astype(np.float64)
        expected = np.where(mask, wide * (wide * wide).sum(1, keepdims=True), 0.0)
        np.testing.assert_allclose(y, expected, rtol=1e-5)


def fell_back(program):
    return {
        (d.pass_name, d.match): d.detail
        for d in program.report.decisions
        if d.reason is Reason.FELL_BACK
    }


def compiled(text=None, **switches):
    return mlirfuse.compile(text or planted.model(STAGES), cache=False, **switches)


@pytest.fixture
def compiles(monkeypatch):
    """Records every code generation: whether it was fused."""
    seen = []
    generate = Compiler.generate

    def record(self, source, output, *, fused, **rest):
        seen.append(fused)
        return generate(self, source, output, fused=fused, **rest)

    monkeypatch.setattr(Compiler, "generate", record)
    return seen


@pytest.fixture
def mute(monkeypatch):
    """The compiler does not say where it failed: it dies, runs out of time or of memory."""

    def install(returncode):
        generate = Compiler.generate

        def die(self, source, output, **rest):
            try:
                return generate(self, source, output, **rest)
            except CompileFailedError as error:
                raise CompileFailedError(
                    "iree-compile died", stage="codegen", returncode=returncode
                ) from error

        monkeypatch.setattr(Compiler, "generate", die)

    return install


def test_the_group_that_the_diagnostic_names_is_undone(monkeypatch, compiles, caplog):
    planted.plant(monkeypatch, planted.uncompilable, 2)
    with caplog.at_level(logging.WARNING, "mlirfuse"):
        program = compiled()
    ((name, number),) = fell_back(program)
    assert name == planted.GROUPS
    assert program.report.counts() == {planted.GROUPS: STAGES - 1}
    assert "math.erf" in fell_back(program)[name, number]
    assert compiles == [True, False, True]
    assert "undone: reduction_fusion@match=" in caplog.text
    check(program)


def required(monkeypatch):
    """A model with a group that IREE cannot compile, and the request for its ops."""
    text = planted.model(STAGES)
    decisions = mlirfuse.fuse(text)[1].decisions
    (first, *_, last) = next(d.ops for d in decisions if d.taken and d.match == 1)
    planted.plant(monkeypatch, planted.uncompilable, 2)
    return text, [op.replace("-:", "given.mlir:") for op in (first, last)]


def test_a_required_group_may_be_fused_by_iree(monkeypatch):
    """The group is undone, and IREE makes one dispatch of its ops: the program that runs counts."""
    text, asked = required(monkeypatch)
    program = compiled(text, must_fuse=[asked])
    (held,) = (k for k in program.kernels if set(asked) <= set(k.ops))
    assert held.pass_name is None
    assert len(fell_back(program)) == 1


def test_a_required_group_is_not_undone_silently(monkeypatch):
    def split(*_):
        raise MustFuseError("the ops are in 2 dispatches")

    monkeypatch.setattr(fallback, "check_dispatches", split)
    text, asked = required(monkeypatch)
    with pytest.raises(
        MustFuseError, match=r"in 2 dispatches; IREE could not compile the group: .*math.erf"
    ):
        compiled(text, must_fuse=[asked])


def at_one_location(text):
    """The same model when all of its ops come from one line, as from a layer in a loop."""
    with ir.Context():
        module = ir.Module.parse(text)
        place = ir.Location.callsite(
            ir.Location.file("functional.py", 7, 1), [ir.Location.file("model.py", 3, 1)]
        )
        for function in ops.functions(module):
            for op in ops.nested_ops(function):
                op.location = place
        return module.operation.get_asm(enable_debug_info=True)


def test_one_of_several_from_the_same_line_is_undone(monkeypatch, compiles):
    planted.plant(monkeypatch, planted.uncompilable, 2)
    program = compiled(at_one_location(planted.model(STAGES)))
    assert len(fell_back(program)) == 1
    assert program.report.counts() == {planted.GROUPS: STAGES - 1}
    assert compiles == [True, False, True]
    check(program)


def test_equal_groups_are_one_dispatch_and_undone_together(monkeypatch, compiles):
    planted.plant(monkeypatch, planted.uncompilable, 1)
    # Stages 1 and 4 are equal, 0, 2 and 3 are not.
    text = planted.model(STAGES + 1).replace("8x20x", "8x17x")
    program = compiled(at_one_location(text))
    assert len(fell_back(program)) == 2
    assert program.report.counts() == {planted.GROUPS: 3}
    assert compiles == [True, False, True]


def test_undone_ops_are_grouped_again_by_later_passes(monkeypatch, compiles):
    sound = PASSES["add_rms_norm_fusion"]

    def rewrite(match, ctx):
        region = sound.rewrite(match, ctx)
        with region.context:
            planted.uncompilable(region)
        return region

    monkeypatch.setitem(PASSES, sound.name, dataclasses.replace(sound, rewrite=rewrite))
    program = compiled(planted.ADD_RMS_NORM)
    assert [name for name, _ in fell_back(program)] == ["add_rms_norm_fusion"]
    assert program.report.counts() == {"rms_norm_fusion": 1, "row_vector_kernel": 1}
    assert compiles == [True, False, True]
    x, r = (np.full((8, 64), n, np.float32) for n in (1.0, 2.0))
    total, normed = program(x, r, np.full(64, 0.5, np.float32))
    np.testing.assert_array_equal(total, x + r)
    np.testing.assert_allclose(normed, np.full((8, 64), 0.5), rtol=1e-4)


def test_several_are_undone_at_once(monkeypatch, compiles):
    planted.plant(monkeypatch, planted.uncompilable, 0, 3)
    program = compiled()
    assert len(fell_back(program)) == 2
    assert len(compiles) <= 3
    check(program)


@pytest.mark.parametrize("returncode", [-6, -9, None])
def test_a_failure_without_a_location_is_bisected(monkeypatch, compiles, mute, returncode):
    planted.plant(monkeypatch, planted.uncompilable, 1)
    mute(returncode)
    program = compiled()
    assert [name for name, _ in fell_back(program)] == [planted.GROUPS]
    assert program.report.counts() == {planted.GROUPS: STAGES - 1}
    assert compiles.count(False) == 1
    assert len(compiles) == 5
    check(program)


def test_a_failure_that_may_not_repeat_is_not_cached(monkeypatch, mute, tmp_path):
    monkeypatch.setenv("MLIRFUSE_CACHE_DIR", str(tmp_path))
    planted.plant(monkeypatch, planted.uncompilable, 1)
    mute(None)
    mlirfuse.compile(planted.model(2))
    assert not list(tmp_path.rglob("*.vmfb"))


def test_the_stock_program_is_the_last_resort(monkeypatch, mute):
    planted.plant(monkeypatch, planted.uncompilable, *range(STAGES))
    mute(-11)
    monkeypatch.setattr(fallback, "MAX_COMPILES", 3)
    program = compiled()
    assert len(fell_back(program)) == STAGES
    assert not program.report.counts()
    assert program.report.dispatches["fused"] == program.report.dispatches["stock"]
    check(program)


def test_a_function_is_left_unfused_before_the_program_is(monkeypatch, mute, tmp_path):
    planted.plant(monkeypatch, planted.uncompilable, 1)
    mute(-11)
    monkeypatch.setattr(fallback, "MAX_COMPILES", 0)
    one = planted.model(2)
    two = one.replace("@main", "@other").partition("func.func")[2]
    other = two.replace(f"x{planted.width(1)}x", "x40x")
    program = compiled(f"{one}func.func{other}", function="main")
    kept = {d.function for d in program.report.decisions if d.taken}
    left = {d.function for d in program.report.decisions if d.reason is Reason.FELL_BACK}
    assert (kept, left) == ({"other"}, {"main"})


def test_data_tiling_is_left_out_where_it_fails(monkeypatch):
    monkeypatch.setattr(data_tiling_rewrite, "_mask_user", lambda value: None)
    program = compiled(MASKED_MATMUL, disable_feature="kernels")
    assert [name for name, _ in fell_back(program)] == ["data_tiling_rewrite"]


def test_one_of_several_tilings_is_left_out(monkeypatch):
    monkeypatch.setattr(data_tiling_rewrite, "_mask_user", lambda value: None)
    text = with_plain_matmuls(MASKED_MATMUL)
    program = compiled(text, function="main", disable_feature="kernels")
    ((name, number),) = fell_back(program)
    (decision,) = [d for d in program.report.decisions if d.pass_name == name and d.match == number]
    assert (name, decision.function) == ("data_tiling_rewrite", "main")
    assert program.report.counts() == {"data_tiling_rewrite": 3}


def test_a_mask_that_reads_a_matmul_is_not_packed():
    """Nor is it when other functions of the module have matmuls that are."""
    text = with_plain_matmuls(MASKED_MATMUL)
    program = compiled(text, function="main", disable_feature=("fallback", "kernels"))
    tilings = [d for d in program.report.decisions if d.pass_name == "data_tiling_rewrite"]
    (refused,) = [d for d in tilings if not d.taken]
    assert refused.function == "main"
    assert refused.reason is Reason.ELEMENT_TYPE


def with_plain_matmuls(text):
    """The module with three more functions of a matmul each."""
    for n in (16, 32, 48):
        text += (
            f"func.func @plain{n}(%x: tensor<48x64xf32>, %w: tensor<64x{n}xf32>,"
            f" %y: tensor<48x{n}xf32>) -> tensor<48x{n}xf32> {{\n"
            f"  %p = linalg.matmul ins(%x, %w : tensor<48x64xf32>, tensor<64x{n}xf32>)"
            f" outs(%y : tensor<48x{n}xf32>) -> tensor<48x{n}xf32>\n"
            f"  return %p : tensor<48x{n}xf32>\n}}\n"
        )
    return text


def test_without_the_feature_it_fails(monkeypatch):
    planted.plant(monkeypatch, planted.uncompilable, 2)
    with pytest.raises(CompileFailedError, match=r"math\.erf"):
        compiled(disable_feature="fallback")


def test_a_model_that_stock_iree_refuses(monkeypatch, compiles):
    def refuse(self, source, output, *, fused, **rest):
        compiles.append(fused)
        raise CompileFailedError("refused: m.mlir:3:5: error: 'x.y' op", stage="codegen")

    monkeypatch.setattr(Compiler, "generate", refuse)
    with pytest.raises(CompileFailedError) as caught:
        compiled(disable_feature="kernels")  # for which channels are moved, and not in a second try
    message = str(caught.value)
    assert message == "stock IREE cannot compile this model either: refused: m.mlir:3:5: 'x.y' op"
    assert compiles == [True, False]


def test_a_missing_compiler_is_no_reason_to_try_again(monkeypatch, compiles):
    def missing(self, source, output, **rest):
        compiles.append(True)
        raise CompileFailedError("iree-compile is not installed", stage="start")

    monkeypatch.setattr(Compiler, "generate", missing)
    with pytest.raises(CompileFailedError, match="not installed"):
        compiled()
    assert compiles == [True]


@pytest.mark.parametrize("target", ["cuda:sm_90", "rocm:gfx942", "vulkan:ampere"])
def test_every_target_has_the_feature(target):
    machine = api.targets.parse(target)
    options = mlirfuse.FusionOptions(disable_feature="fallback")
    assert Compiler(machine, options).flags(fused=True) == Compiler(
        machine, mlirfuse.FusionOptions()
    ).flags(fused=True)


@pytest.mark.parametrize("target", ["cuda:sm_90", "rocm:gfx942", "vulkan:ampere"])
def test_one_rewrite_is_undone_on_a_gpu(monkeypatch, target):
    planted.plant(monkeypatch, planted.uncompilable, 1)
    report = compiled(planted.model(2), target=target, disable_feature=["kernels"]).report
    assert report.counts() == {planted.GROUPS: 1}
    (undone,) = (d for d in report.decisions if d.reason is Reason.FELL_BACK)
    source = planted.model(2).splitlines()
    assert {source[int(place.split(":")[1]) - 1][:5].strip() for place in undone.ops} == {
        "%s1",
        "%y1",
    }


def test_order_of_channels():
    """IREE refuses the convolution of one pixel with channels last, which kernels ask for."""
    torch = pytest.importorskip("torch")
    layer = torch.nn.Conv1d(4, 4, 3, padding=1)
    program = mlirfuse.compile(
        layer,
        (torch.zeros(1, 4, 1),),
        target="cuda:sm_90",
        enable_feature=["kernels"],
        disable_pass=["contraction_init_rewrite"],  # a kernel takes the contraction that it leaves
    )
    assert any(note.startswith("convolutions keep the order") for note in program.report.notes)
    assert not fell_back(program)
