"""Convolutions whose tiles load the image once: which ones, and what their instructions compute."""

import dataclasses
import types

import numpy as np
import pytest
from iree.compiler import ir
from mlirfuse.kernels.matmul.tilings import Tiling

from helpers.conv_text import Array, Conv, arrays_of, conv_text, reference, supported
from helpers.kernel_runner import close, needs_triton
from helpers.ptx import Group, swizzled
from mlirfuse import targets
from mlirfuse.core import NoMatch
from mlirfuse.kernels import triton_compiler
from mlirfuse.kernels.convolution import planner as convolution
from mlirfuse.kernels.plan import Extent, Key

HOPPER = targets.parse("cuda:sm_90")
BLOCKS = Tiling(128, 64, 64, 4, 1, 8, 1, 2, 0, 1)
LINES = Tiling(128, 64, 64, 4, 1, 8, 1, 3, 0, 1)
CASE = Conv(3, 9, 7, 64, 64, low=1, high=1, filter="fijc")
STEM = Conv(2, 16, 32, 3, 64, side=(7, 7), stride=2, low=3, high=3)

pytestmark = needs_triton

ZEROS, IMAGE = 1024, 4096
"""Where they are in workgroup memory."""


def plan(case, tiling, target=HOPPER, kind="f16", text=None):
    """The plan of a convolution's kernel, or why there is none."""
    return supported(text or conv_text(case, kind), tiling, target)


def function(source, name):
    """A function of a kernel's text, for arrays."""
    text = source[source.index(f"@gluon.jit\ndef {name}(") : source.index("@gluon.jit\ndef conv")]
    names = {"gl": types.SimpleNamespace(static_range=range, int32=np.int32)}
    exec(text.replace("@gluon.jit\n", ""), names)
    return names[name]


def shape_of(source):
    """The module of what a kernel calls, and the shape."""
    from mlirfuse.kernels.device import convolution_halo_sm90, convolution_stem_sm90

    module = convolution_stem_sm90 if "hopper_lines.lines" in source else convolution_halo_sm90
    numbers = source[source.index(".shaped(") + len(".shaped") :].partition("\n")[0]
    return module, module.shaped(*eval(numbers.rstrip(",")))


def close_to_reference(case, total, arrays):
    image, weight, mean, var, residual = arrays
    found = total.reshape(case.batch, *case.places(), case.outputs)
    found = (found - mean) / np.sqrt(var.astype(np.float64) + 0.001) + residual
    close(np.maximum(found, 0), reference(case, image, weight, mean, var, residual), "f16")


def sums_of_blocks(source, image, weight):
    """What the groups of all tiles add up, block by block, by their instructions."""
    module, shape = shape_of(source)
    begin = function(source, "begin")
    pixels = image.reshape(-1, 64)
    weight = weight.reshape(shape.columns, -1, 64)
    ring = IMAGE + shape.reach * 128
    ring += -ring % 1024
    total = np.full((shape.rows, shape.columns), np.nan)
    lane = np.arange(128) // 32 * 16 + np.arange(128) % 16
    last = shape.rows - 1
    for start in range(0, shape.rows, module.HEIGHT.value):
        low = int(begin(np.int64(start).reshape(1).view(Array))[0][0]) // 64
        touched = np.clip(low + np.arange(shape.reach), 0, shape.pixels - 1)
        for column in range(0, shape.columns, shape.width):
            memory = np.zeros(ring + len(shape.moves) * shape.width * 128, np.uint8)
            held = swizzled(pixels[touched])
            memory[IMAGE : IMAGE + len(held)] = held
            for number in range(len(shape.moves)):
                part = swizzled(weight[column : column + shape.width, number])
                memory[ring + number * len(part) :][: len(part)] = part
            for group in range(module.GROUPS.value):
                rows = start + group * 64 + np.arange(64)
                first, inside = begin(np.minimum(rows, last).view(Array))
                first = np.asarray(first) // 64 - low
                assert first.max() + max(shape.moves) < shape.reach
                threads = Group(memory, shape.width)
                given = (first[lane], np.broadcast_to(inside, 64)[lane])
                operands = (*given, IMAGE, 0, ZEROS, ring, 0, 1)
                named = {f"_{shape.width + n}": v for n, v in enumerate(operands)}
                threads.run(module._instructions(shape, "f16"), **named)
                there = rows[rows <= last]
                total[there, column : column + shape.width] = threads.sums[: len(there)]
    return total


@pytest.mark.parametrize(
    ("case", "tiling"),
    [
        (CASE, BLOCKS),
        (
            dataclasses.replace(CASE, batch=1, outputs=128),
            dataclasses.replace(BLOCKS, width=128),
        ),
        (
            dataclasses.replace(CASE, batch=2, side=(3, 2), dilation=2, low=2, high=1),
            BLOCKS,
        ),
        (Conv(1, 12, 9, 64, 64, side=(2, 3), filter="fijc"), BLOCKS),
    ],
    ids=lambda c: f"{c.side} {c.channels} stride {c.stride}" if isinstance(c, Conv) else "",
)
def test_blocks_of_channels(case, tiling):
    source = plan(case, tiling).program.source
    arrays = arrays_of(case, case.batch)
    close_to_reference(case, sums_of_blocks(source, *arrays[:2]), arrays)


def sums_of_lines(source, image, weight):
    """What blocks of all tiles add up, by their instructions."""
    module, shape = shape_of(source)
    at = function(source, "at")
    pairs = module._pairs(shape)
    deep = -(-module._steps(shape) // 4)
    filters = np.zeros((shape.columns, deep * 64), np.float16)
    column = np.arange(shape.columns)
    for line in range(shape.lines):
        for element in range(shape.inside):
            place = line * 2 * pairs + shape.lead + element
            filters[:, place] = weight.reshape(-1)[at(line, element, column)]
    there = 0
    memory = np.zeros(shape.pieces * 1024 + deep * shape.columns * 128, np.uint8)
    for block in range(deep):
        part = swizzled(filters[:, block * 64 : block * 64 + 64])
        memory[shape.pieces * 1024 + block * len(part) :][: len(part)] = part
    # What is behind the lines of a tile, and around them, is zero.
    data = image.reshape(-1).view(np.uint8)
    rows = shape.tiles * shape.together * shape.width
    total = np.full((rows, shape.columns), np.nan)
    per_image = shape.height // shape.together
    thread = np.arange(128)
    for tile in range(shape.tiles):
        number, part = divmod(tile, per_image)
        first = part * shape.together * shape.stride - shape.low
        loading = Group(memory, 1)
        lies = (number * shape.tall + first) * shape.line * 2
        loading.run(module._copies(shape), _0=there, _1=lies, _2=first)
        for place, source_place, size in loading.copied:
            chunk = data[source_place : source_place + 16] if size else 0
            memory[place : place + 16] = chunk
        for block in range(module._blocks(shape)):
            starts = []
            for n in range(2):
                row = block * 64 + thread // 32 * 16 + thread % 32 // 4 + 8 * n
                start = row // shape.width * shape.stride * shape.pitch
                start += row % shape.width * 2 * shape.step
                starts.append(start + thread % 4 * 4 + shape.left - 2 * shape.before)
            group = Group(memory, shape.columns)
            operands = (*starts, there, shape.pieces * 1024)
            named = {f"_{shape.columns + n}": v for n, v in enumerate(operands)}
            group.run(module._products(shape, "f16"), **named)
            begin = tile * shape.together * shape.width + block * 64
            total[begin : begin + 64] = group.sums
    return total


@pytest.mark.parametrize(
    "case",
    [
        STEM,
        dataclasses.replace(STEM, side=(3, 5), low=0, high=4, height=14),
        dataclasses.replace(STEM, batch=1, side=(5, 5), stride=2, low=1, high=2, filter="fijc"),
    ],
    ids=lambda c: f"{c.side} low {c.low}",
)
def test_lines(case):
    """No element beside a line of a window counts, whatever it is."""
    source = plan(case, LINES).program.source
    arrays = arrays_of(case, case.batch)
    total = sums_of_lines(source, *arrays[:2])
    close_to_reference(case, total, arrays)
    image = arrays[0].copy()
    image[0, 0, 0] = np.inf
    h, w = case.places()
    again = sums_of_lines(source, image, arrays[1]).reshape(case.batch, h, w, -1)
    reached = np.zeros((case.batch, h, w), bool)
    reached[0, : case.low // 2 + 1, : case.low // 2 + 1] = True
    assert np.array_equal(np.isfinite(again).all(-1), ~reached)


@pytest.mark.parametrize(
    "case",
    [
        dataclasses.replace(CASE, side=(1, 1), low=0, high=0, filter="fc"),
        dataclasses.replace(CASE, filter="ijcf"),
        dataclasses.replace(CASE, outputs=96),
        dataclasses.replace(CASE, batch=None),
        # The windows of the last row of an image end behind those of the next one's first row.
        dataclasses.replace(CASE, stride=2, low=3, high=3),
        dataclasses.replace(CASE, channels=128),
        # Five pixels for each row.
        dataclasses.replace(CASE, height=56, width=56, stride=2),
        # The filter leaves no room for two tiles.
        dataclasses.replace(CASE, batch=640, side=(5, 5), low=2, high=2),
    ],
    ids=str,
)
def test_blocks_that_are_not_loaded_once(case):
    assert isinstance(plan(case, BLOCKS), NoMatch)


@pytest.mark.parametrize(
    "case",
    [
        # Lines of 180 bytes.
        dataclasses.replace(STEM, width=30, height=15, high=4),
        dataclasses.replace(STEM, channels=4),
        dataclasses.replace(STEM, dilation=2),
        dataclasses.replace(STEM, outputs=32),
        dataclasses.replace(STEM, outputs=256),
        dataclasses.replace(STEM, height=18),
        dataclasses.replace(STEM, batch=None),
        dataclasses.replace(STEM, side=(7, 2), low=0, high=0, height=21),
        dataclasses.replace(STEM, width=2048),
        dataclasses.replace(STEM, image="bwhc"),
    ],
    ids=str,
)
def test_lines_that_are_not_loaded_once(case):
    assert isinstance(plan(case, dataclasses.replace(LINES, width=case.outputs)), NoMatch)


@pytest.mark.parametrize(
    ("one", "other"),
    [("h * 2 + i * 1, w", "h * 1 + i * 2, w"), ("-> (b, h * 2", "-> (b * 2, h * 2")],
    ids=["every second line", "every second image"],
)
def test_other_steps_are_not_loaded_once(one, other):
    text = conv_text(dataclasses.replace(STEM, batch=1))
    assert text.count(one) == 1
    assert not isinstance(plan(STEM, LINES, text=text), NoMatch)
    assert isinstance(plan(STEM, LINES, text=text.replace(one, other)), NoMatch)


def test_the_text():
    found = plan(CASE, BLOCKS)
    moves = "(0, 1, 2, 7, 8, 9, 14, 15, 16)"
    shaped = f"shaped(189, 64, 189, {moves}, True, 64, 144, 1, 2)"
    assert f"convolution_halo_sm90.{shaped}" in found.program.source
    assert "of which the image is loaded once" in found.program.source
    assert found.grid == (Extent(2), Extent(1), Extent(1))
    deep = plan(dataclasses.replace(CASE, batch=640, outputs=128), BLOCKS)
    assert "True, 64, 144, 4, 132)" in deep.program.source
    whole = dataclasses.replace(STEM, batch=32, height=224, width=224)
    stem = plan(whole, dataclasses.replace(LINES, height=256))
    numbers = "64, 112, 112, 224, 672, 6, 2, 3, 10, 1, 21, 7, 4, 896, 32, 1392, 20, 132"
    assert f"hopper_lines.shaped({numbers})" in stem.program.source
    assert "tiles of 448 by 64" in stem.program.source
    assert "row_inside" not in stem.program.source


@pytest.mark.parametrize(("case", "tiling"), [(CASE, LINES), (STEM, BLOCKS)])
def test_each_form_has_its_own_groups(case, tiling):
    assert isinstance(plan(case, tiling), NoMatch)


def test_elsewhere_none_is_loaded_once(monkeypatch):
    for case, tiling in ((CASE, BLOCKS), (STEM, LINES)):
        assert isinstance(plan(case, tiling, target=targets.parse("cuda:sm_80")), NoMatch)
    monkeypatch.setattr(triton_compiler, "has_gluon", lambda: False)
    for case, tiling in ((CASE, BLOCKS), (STEM, LINES)):
        assert isinstance(plan(case, tiling), NoMatch)


def test_the_table_lets_them_load_once():
    square = Conv(32, 56, 56, 64, 64, low=1, high=1, filter="fijc")
    stem = dataclasses.replace(STEM, batch=32, height=224, width=224)
    assert "convolution_halo_sm90.windows" in plan(square, None).program.source
    assert "hopper_lines.lines" in plan(stem, None).program.source
    steps = dataclasses.replace(square, height=112, width=112, stride=2)
    assert "matmul_sm90.products" in plan(steps, None).program.source
    narrow = plan(dataclasses.replace(stem, width=220), None).program.source
    assert "tl.dot(" in narrow
    with ir.Context():
        assert "tl.dot(" in plan(stem, None, target=targets.parse("cuda:sm_80")).program.source


def test_candidates():
    found = convolution.candidates(
        Key("convolution", convolution.TERMS_INSIDE, (100352, 64, 64, 9))
    )
    assert [t for t in found if t.once] == [BLOCKS]
    plain = Key("convolution", convolution.TERMS_INSIDE, (100352, 64, 64, 1))
    assert not any(t.once for t in convolution.candidates(plain))
    stem = Key("convolution", "channels inside", (401408, 64, 3, 49))
    assert [t.width for t in convolution.candidates(stem) if t.once] == [64]


@pytest.mark.parametrize(
    ("case", "tiling", "kind"),
    [(CASE, BLOCKS, "f16"), (dataclasses.replace(STEM, outputs=128), LINES, "bf16")],
    ids=["blocks", "lines"],
)
def test_it_builds(case, tiling, kind):
    found = plan(case, dataclasses.replace(tiling, width=case.outputs), kind=kind)
    kernel = triton_compiler.build(found.program, "sm_90")
    text = kernel.code.decode()
    read = "ldmatrix.sync.aligned.m8n8.x4" if case is CASE else "ld.shared.b32"
    assert read in text
    width = case.outputs
    assert f"wgmma.mma_async.sync.aligned.m64n{width}k16.f32.{kind}.{kind}" in text
    assert kernel.workgroup_size == (128 * (tiling.groups + 1), 1, 1)
    assert kernel.workgroup_memory <= HOPPER.shared_memory
