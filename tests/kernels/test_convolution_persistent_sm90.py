"""Convolutions in Gluon whose workgroups stay: which ones there are, and what they read."""

import dataclasses
import itertools
import types

import numpy as np
import pytest
from mlirfuse.kernels.matmul.tilings import Tiling

from helpers.conv_text import Array, Conv, arrays_of, conv_text, reference, supported
from helpers.kernel_runner import close, needs_triton
from mlirfuse import targets
from mlirfuse.core import NoMatch
from mlirfuse.kernels import triton_compiler
from mlirfuse.kernels.convolution import planner as convolution
from mlirfuse.kernels.matmul import persistent
from mlirfuse.kernels.plan import Extent, Key

HOPPER = targets.parse("cuda:sm_90")
STAYING = Tiling(64, 64, 64, 4, 8, 8, 1, 3, 1)
CASE = Conv(2, 9, 7, 64, 64, low=1, high=1, filter="fijc")

pytestmark = needs_triton


def plan(case, tiling=STAYING, target=HOPPER, text=None):
    """The plan of a convolution's kernel, or why there is none."""
    return supported(text or conv_text(case), tiling, target)


def functions(source):
    """The functions `begin` and `at` of a kernel's text, for arrays."""
    text = source[source.index("@gluon.jit\ndef begin") : source.index("@gluon.jit\ndef conv")]
    gluon = types.SimpleNamespace(static_range=range, int32=np.int32)
    names = {"gl": gluon}
    exec(text.replace("@gluon.jit\n", ""), names)
    return names["begin"], names["at"]


def sums(case, source, image, weight):
    """The sums over all terms that the kernel reads, by its own functions."""
    begin, at = functions(source)
    rows = np.arange(case.batch * np.prod(case.places()))[:, None].view(Array)
    first, inside = begin(rows)
    steps = len(weight[0]) // persistent.BLOCK
    terms = np.arange(persistent.BLOCK)
    total = np.zeros((len(rows), len(weight)))
    masked = False
    for step in range(steps):
        offset, group = at(step)
        places = np.asarray(first) + offset + terms
        held = np.broadcast_to((np.asarray(inside) >> group) & 1, places.shape) != 0
        if not isinstance(inside, Array):
            held = np.full(places.shape, True)
        masked = masked or not held.all()
        assert (places[held] >= 0).all()
        left = np.where(held, image[np.where(held, places, 0)], 0)
        total += left @ weight[:, step * len(terms) + terms].T
    assert masked == (case.low + case.high > 0)
    return total


@pytest.mark.parametrize(
    "case",
    [
        CASE,
        dataclasses.replace(CASE, channels=128, stride=2, low=1, high=2),
        dataclasses.replace(CASE, side=(3, 2), dilation=2, low=2, high=2),
        dataclasses.replace(CASE, side=(2, 3)),
        dataclasses.replace(CASE, side=(3, 2), filter="fjic"),
        Conv(3, 5, 5, 128, 64, side=(1, 1), filter="fc"),
        Conv(2, 9, 9, 64, 64, side=(1, 1), stride=2, filter="fc"),
    ],
    ids=lambda c: f"{c.side} {c.channels} stride {c.stride} dilation {c.dilation}",
)
def test_what_is_read(case):
    """Each row begins where its window does, and reads no zeros that are not in memory."""
    source = plan(case).program.source
    image, weight, mean, var, residual = arrays_of(case)
    total = sums(
        case,
        source,
        image.astype(np.float64).ravel(),
        weight.reshape(case.outputs, -1).astype(np.float64),
    )
    shape = (case.batch, *case.places(), case.outputs)
    found = (total.reshape(shape) - mean) / np.sqrt(var.astype(np.float64) + 0.001) + residual
    close(np.maximum(found, 0), reference(case, image, weight, mean, var, residual), "f16")


def test_the_text():
    found = plan(CASE)
    rows = 2 * 9 * 7
    shaped = f"shaped({rows}, 64, 576, 576, True, 1, 1, 64, 64, 8, 3, 1, 8, 2"
    assert f"matmul_sm90.{shaped}" in found.program.source
    assert f"row_inside = row < {rows}" in found.program.source
    assert found.grid == (Extent(2), Extent(1), Extent(1))
    bare = plan(dataclasses.replace(CASE, low=0, high=0, height=66, width=66)).program.source
    assert "shaped(8192, 64, 576, 576, False, " in bare
    assert "row_inside" not in bare
    assert "inside" not in bare[bare.index("def begin") :]


@pytest.mark.parametrize(
    "case",
    [
        dataclasses.replace(CASE, filter="ijcf"),
        dataclasses.replace(CASE, filter="ficj"),
        dataclasses.replace(CASE, image="bchw"),
        dataclasses.replace(CASE, channels=96),
        dataclasses.replace(CASE, outputs=96),
        dataclasses.replace(CASE, outputs=16),
        dataclasses.replace(CASE, batch=None),
        dataclasses.replace(CASE, side=(8, 4), low=4, high=4),
        dataclasses.replace(CASE, batch=32768, height=33, width=32),
    ],
    ids=str,
)
def test_convolutions_whose_workgroups_do_not_stay(case):
    """They are refused where their tiles are given, and get others where they are chosen."""
    assert isinstance(plan(case), NoMatch)
    assert "matmul_sm90" not in plan(case, None).program.source


def test_sums_that_start_from_a_tensor_do_not_stay():
    text = conv_text(CASE)
    head, _, tail = text.partition("%s = linalg.fill ins(%zero : f32)")
    text = head.replace("%r: ", "%s: tensor<2x9x7x64xf32>, %r: ") + tail.partition("\n")[2]
    assert isinstance(plan(CASE, text=text), NoMatch)


def test_elsewhere_none_stays(monkeypatch):
    assert isinstance(plan(CASE, target=targets.parse("cuda:sm_80")), NoMatch)
    monkeypatch.setattr(triton_compiler, "has_gluon", lambda: False)
    assert isinstance(plan(CASE), NoMatch)
    assert "matmul_sm90" not in plan(CASE, None).program.source


def test_the_table_lets_them_stay():
    case = Conv(32, 14, 14, 256, 256, low=1, high=1, filter="fijc")
    assert "True, 1, 1, 128, 128, 6, 2, 0, 8, 98" in plan(case, None).program.source
    wide = dataclasses.replace(case, outputs=320)
    assert "matmul_sm90" not in plan(wide, None).program.source


def test_the_form_says_where_blocks_of_terms_are():
    """What is not in blocks takes the tiles of other convolutions, as images of channels first."""
    forms = {
        plan(case, None).key.form
        for case in (
            dataclasses.replace(CASE, channels=96),
            dataclasses.replace(CASE, filter="ijcf"),
            dataclasses.replace(CASE, filter="ficj"),
        )
    }
    assert forms == {"channels inside"}
    assert plan(CASE).key.form == convolution.TERMS_INSIDE


def test_candidates():
    sizes = (6272, 256, 256, 9)
    found = convolution.candidates(Key("convolution", convolution.TERMS_INSIDE, sizes))
    shapes = {(t.height, t.width, t.groups, t.alternate) for t in found if t.groups}
    assert {(64, 256, 2, 1), (128, 128, 2, 0), (128, 64, 2, 1), (192, 128, 3, 0)} <= shapes
    plain = convolution.candidates(Key("convolution", "channels inside", sizes))
    assert not any(t.groups for t in plain)


@pytest.mark.parametrize(
    ("kind", "tiling"), [("f16", STAYING), ("bf16", Tiling(192, 64, 64, 4, 6, 8, 1, 3, 0))]
)
def test_it_builds(kind, tiling):
    found = plan(CASE, tiling, text=conv_text(CASE, kind))
    kernel = triton_compiler.build(found.program, "sm_90")
    text = kernel.code.decode()
    loads = [line for line in text.splitlines() if "cp.async.cg" in line]
    # Zeros are what a load of no bytes leaves; the filter is loaded always.
    assert any(line.rstrip().endswith("0x10, 0x10;") for line in loads)
    assert any("0x10, %r" in line for line in loads)
    assert kernel.workgroup_size == (512, 1, 1)
    assert kernel.workgroup_memory <= HOPPER.shared_memory
    letter = "f16" if kind == "f16" else "bf16"
    assert f"wgmma.mma_async.sync.aligned.m64n64k16.f32.{letter}" in text


def test_bits_of_places():
    """Each place of a window has a bit of its own."""
    begin, at = functions(plan(dataclasses.replace(CASE, side=(3, 2))).program.source)
    groups = [at(step)[1] for step in range(6)]
    assert groups == list(range(6))
    _, inside = begin(np.zeros((1, 1), np.int32).view(Array))
    held = [i >= 1 and j >= 1 for i, j in itertools.product(range(3), range(2))]
    assert [bool(inside[0, 0] >> n & 1) for n in range(6)] == held
