"""Products in Gluon whose workgroups stay: which groups get one, their text, their object code."""

import dataclasses

import pytest
from iree.compiler import ir
from mlirfuse.kernels.matmul.tilings import Tiling

from helpers.kernel_runner import needs_triton
from helpers.matmul_plans import HOPPER, TOGETHER, linear, plan, several
from helpers.matmul_text import INT8_MATMUL
from mlirfuse import targets
from mlirfuse.kernels import triton_compiler
from mlirfuse.kernels.matmul import persistent
from mlirfuse.kernels.matmul import planner as matmul
from mlirfuse.kernels.plan import Extent, Key, Plan
from mlirfuse.targets.base import Tuned

APART = Tiling(64, 128, 64, 4, 5, 4, 1, 2, 1)
HIGH = Tiling(128, 128, 64, 4, 6, 8, 1, 2, 1)


@pytest.fixture
def gluon(monkeypatch):
    monkeypatch.setattr(triton_compiler, "has_gluon", lambda: True)


def stays(text, tiling=TOGETHER, target=HOPPER):
    """Whether the workgroups of the product's kernel stay."""
    with ir.Context():
        found = plan(text, tiling, target)
        assert isinstance(found, Plan), found
        source = found.program.source
        assert ("matmul_sm90" in source) != ("library.product(" in source or "tl.dot" in source)
        return "matmul_sm90" in source


@pytest.mark.usefixtures("gluon")
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (linear((256, 512, 128)), True),
        (linear((197, 256, 64), dtype="bf16"), True),
        (linear((1, 256, 64)), True),
        (linear((256, 512, 128, 1), left=(3, 0, 2), right=(3, 1, 2)), True),
        (linear((256, 384, 128)), False),
        (linear((256, 512, 96)), False),
        (linear((256, 512, 128), right=(2, 1)), False),
        (linear((256, 512, 128), left=(2, 0)), False),
        (linear((256, 512, 128, 2), left=(3, 0, 2), right=(3, 1, 2)), False),
        (linear((None, 512, 128)), False),
        (linear((1, 256, 64), left=(2,)), False),
        (INT8_MATMUL.replace("71", "64").replace("40", "256"), False),
        (several(256, 256, 128, 3, joint=False), True),
        (several(256, 256, 128, 3, joint=False, computed=True), False),
        (several(256, 256, 128, 2, joint=True), False),
    ],
)
def test_groups_whose_workgroups_stay(text, expected):
    """What is not whole in its columns and terms has workgroups with one tile each."""
    assert stays(text) == expected


def test_elsewhere_none_stays(monkeypatch):
    text = linear((256, 512, 128))
    monkeypatch.setattr(triton_compiler, "has_gluon", lambda: True)
    assert not stays(text, target=targets.parse("cuda:sm_80"))
    monkeypatch.setattr(triton_compiler, "has_gluon", lambda: False)
    assert not stays(text)


@pytest.mark.usefixtures("gluon")
def test_the_text_says_sizes_steps_and_tiles():
    with ir.Context():
        found = plan(linear((197, 512, 128)))
        shaped = "shaped(197, 512, 128, 128, False, 1, 1, 128, 256, 4, 2, 0, 8, 4, 64)"
        assert f"matmul_sm90.{shaped}" in found.program.source
        assert "def begin(row):\n    return row * 128, 0\n" in found.program.source
        assert "def at(step):\n    return step * 64, 0\n" in found.program.source
        assert "row_inside = row < 197" in found.program.source
        assert found.grid[0] == Extent(4)
        found = plan(linear((6400, 1024, 128)), APART)
        assert ", 1, 1, 64, 128, 5, 2, 1, 4, 132, 64)" in found.program.source
        assert "row_inside" not in found.program.source
        assert found.grid == (Extent(132), Extent(1), Extent(1))


@pytest.mark.usefixtures("gluon")
@pytest.mark.parametrize(
    ("function", "width", "piece"),
    [("math.erf", 256, 64), ("math.tanh", 128, 64), ("math.tanh", 64, 64), ("math.absf", 256, 256)],
)
def test_long_epilogues_are_called_for_pieces(function, width, piece):
    tiling = dataclasses.replace(TOGETHER, width=width)
    with ir.Context():
        source = plan(linear((256, 512, 128), function=function), tiling).program.source
    assert f", {width}, 4, 2, 0, 8, {256 // 128 * (512 // width)}, {piece})" in source


@pytest.mark.usefixtures("gluon")
def test_slices_of_one_weight():
    """Three results have tiles apart; what is multiplied with another sum has them together."""
    with ir.Context():
        source = plan(several(256, 128, 64, 3, joint=False), APART).program.source
        assert "(x1 + 0, x1 + 0 + 8192, x1 + 0 + 16384,)," in source
        assert "if part == 2:" in source
        assert "(256, 128, 64, 64, False, 3, 1, 64, 128, " in source
        source = plan(several(256, 128, 64, 2, joint=True), APART).program.source
        assert "(x1 + 0, x1 + 0 + 8192,)," in source
        assert "total1 = totals[1]" in source
        assert "(256, 128, 64, 64, False, 1, 2, 64, 128, " in source


@pytest.mark.usefixtures("gluon")
@pytest.mark.parametrize(
    ("wide", "first", "expected"), [(72, 8, True), (72, 4, False), (68, 0, False)]
)
def test_slices_that_are_not_aligned(wide, first, expected):
    text = several(256, 128, 64, 2, joint=True)
    whole, narrow = "%w: tensor<256x64xf16>", f"%w: tensor<256x{wide}xf16>"
    text = text.replace(whole, narrow).replace(": tensor<256x64xf16> to", f"{narrow[2:]} to")
    for row in (0, 128):
        text = text.replace(f"%w[{row}, 0]", f"%w[{row}, {first}]")
    assert stays(text, APART) == expected


@pytest.mark.usefixtures("gluon")
def test_stored_tiles_choose_the_kernel():
    numbers = dataclasses.astuple(TOGETHER)
    key = Key("matmul", persistent.FORM, (256, 512, 128, 1))
    tuned = (Tuned(key.kind, key.form, key.sizes, numbers, 1.0),)
    assert stays(linear((256, 512, 128)), None, dataclasses.replace(HOPPER, tuned=tuned))
    assert not stays(linear((256, 384, 128)), None, dataclasses.replace(HOPPER, tuned=tuned))


@pytest.mark.usefixtures("gluon")
def test_candidates():
    def found(form, *sizes):
        return [t for t in matmul.candidates(Key("matmul", form, sizes)) if t.groups]

    whole = found(persistent.FORM, 4096, 768, 768, 1)
    assert {t.width for t in whole} == {128, 256}
    assert {t.width for t in found(persistent.FORM, 4096, 640, 768, 1)} == {128}
    assert {t.width for t in found(f"{persistent.FORM}, 2 sums", 4096, 768, 768, 1)} == {64, 128}
    assert not found(persistent.FORM, 64, 768, 768, 1)
    assert not found(persistent.FORM, 4096, 768, 800, 1)
    assert not found("16 bits, k inside, k outside", 4096, 768, 768, 1)


@needs_triton
@pytest.mark.parametrize(
    ("text", "tiling", "threads", "stores"),
    [
        (linear((197, 256, 128), dtype="bf16"), TOGETHER, 384, 2 * 4),
        (linear((197, 256, 128), function="math.absf"), HIGH, 384, 2 * 8),
        (several(100, 128, 64, 2, joint=True), APART, 384, 2 * 4),
        (several(64, 128, 64, 3, joint=False), Tiling(192, 128, 64, 4, 5, 8, 1, 3, 0), 512, 36),
    ],
)
def test_object_code(text, tiling, threads, stores):
    """Each group has code for one piece: 64 rows, 16 bytes of a row for a thread."""
    if not triton_compiler.has_gluon():
        pytest.skip("this Triton has an older Gluon")
    with ir.Context():
        kernel = triton_compiler.build(plan(text, tiling).program, "sm_90")
    code = kernel.code.decode()
    assert ".target sm_90a" in code
    assert "wgmma.mma_async" in code
    assert "cp.async.cg.shared.global" in code
    assert code.count("st.global.v4") == stores
    assert kernel.workgroup_size == (threads, 1, 1)
