"""The model of stock IREE's dispatches, beside those that it makes."""

import dataclasses

import pytest
from iree.compiler import ir

from helpers.linalg_text import Function
from helpers.models import records
from mlirfuse import cost, stock_dispatches, targets
from mlirfuse.compilation import open_model
from mlirfuse.options import FusionOptions
from mlirfuse.pipelines import engine
from mlirfuse.structured.ir import ops

ROWS, COLUMNS = 512, 256

COMPUTING = ("linalg.", "iree_linalg_ext.", "tensor.pad", "tensor.concat")


def chain(f, x):
    return f.apply("arith.negf", f.apply("math.absf", x))


def diamond(f, x):
    y = f.apply("math.exp", x)
    return f.apply("arith.addf", f.apply("math.absf", y), f.apply("arith.negf", y))


def softmax(f, x):
    shifted = f.apply("arith.subf", x, f.reduce("arith.maximumf", x, (1,)))
    powers = f.apply("math.exp", shifted)
    return f.apply("arith.divf", powers, f.reduce("arith.addf", powers, (1,)))


def norm(f, x):
    mean = f.apply("arith.divf", f.reduce("arith.addf", x, (1,)), float(COLUMNS))
    centered = f.apply("arith.subf", x, mean)
    square = f.apply("arith.mulf", centered, centered)
    variance = f.apply("arith.divf", f.reduce("arith.addf", square, (1,)), float(COLUMNS))
    scale = f.apply("math.rsqrt", f.apply("arith.addf", variance, 1e-5))
    return f.apply("arith.mulf", centered, scale)


def row_sum(f, x):
    return f.apply("arith.negf", f.reduce("arith.addf", f.apply("math.exp", x), (1,)))


def linear(f, x):
    y = f.contract(x, f.argument((1, 2), "f32"), (0, 2))
    return f.apply("math.tanh", f.apply("arith.addf", y, f.argument((2,), "f32")))


def normed_linear(f, x):
    return f.contract(norm(f, x), f.argument((1, 2), "f32"), (0, 2))


def linear_softmax(f, x):
    y = f.contract(x, f.argument((1, 2), "f32"), (0, 2))
    shifted = f.apply("arith.subf", y, f.reduce("arith.maximumf", y, (2,)))
    return f.apply("math.exp", shifted)


PROGRAMS = {
    made.__name__: made
    for made in (
        *(chain, diamond, softmax, norm, row_sum),
        *(linear, normed_linear, linear_softmax),
    )
}


def text(name):
    f = Function("main", (ROWS, COLUMNS, 128))
    return f.finish(PROGRAMS[name](f, f.argument((0, 1), "f32")))


@pytest.mark.parametrize("name", PROGRAMS)
def test_as_many_dispatches_as_iree_makes(name, tmp_path):
    options = FusionOptions.resolve()
    with open_model(text(name), target="cpu", options=options) as work:
        counted = work.compiler.count(work.normalized, tmp_path)
        with ir.Context():
            module = ir.Module.parseFile(str(work.normalized))
            (function,) = ops.functions(module)
            inside = [view.operation for view in function.regions[0].blocks[0].operations]
            made = stock_dispatches.dispatches(op for op in inside if op.name.startswith("linalg."))
    assert len(made) == counted.dispatches


def gain(name, target="cpu", *, kernels=False):
    """The saving of the whole function as one group, and that against every op alone."""
    with ir.Context():
        module = ir.Module.parse(text(name))
        (function,) = ops.functions(module)
        inside = [view.operation for view in function.regions[0].blocks[0].operations]
        group = [op for op in inside if op.name.startswith("linalg.")]
        found = dataclasses.replace(targets.parse(target), vector_kernels=kernels)
        return stock_dispatches.gain(group, found), cost.gain(group, found)


@pytest.mark.parametrize(
    ("name", "target"),
    [("chain", "cpu"), ("linear", "cpu"), ("row_sum", "cuda:sm_90"), ("chain", "cuda:sm_90")],
)
def test_what_stock_fuses_saves_nothing(name, target):
    saved, alone = gain(name, target)
    assert (saved.bytes_saved, saved.microseconds) == (0, 0.0)
    assert alone.bytes_saved > 0


def test_a_sum_of_rows_saves_the_time_of_additions_in_order():
    """IREE's code adds the elements of a row one after the other; its dispatch moves as much."""
    saved, _ = gain("row_sum", "cpu:x86-64-v4", kernels=True)
    assert saved.bytes_saved == 0
    target = targets.parse("cpu:x86-64-v4")
    clock = 3e9 * target.cpu.cores
    assert saved.microseconds == pytest.approx(1e6 * ROWS * COLUMNS * 4 / clock, rel=0.01)


@pytest.mark.parametrize(("dimension", "count"), [(1, 2 * 8 * 16), (0, 0)])
def test_a_softmax_along_rows_has_two_reductions(dimension, count):
    softmax = f"""
    func.func @main(%x: tensor<8x16xf32>) -> tensor<8x16xf32> {{
      %e = tensor.empty() : tensor<8x16xf32>
      %y = linalg.softmax dimension({dimension}) ins(%x : tensor<8x16xf32>)
        outs(%e : tensor<8x16xf32>) -> tensor<8x16xf32>
      return %y : tensor<8x16xf32>
    }}"""
    with ir.Context():
        module = ir.Module.parse(softmax)
        (function,) = ops.functions(module)
        found = [view.operation for view in function.regions[0].blocks[0].operations]
        (op,) = [op for op in found if op.name == "linalg.softmax"]
        assert stock_dispatches.ordered_additions(op) == count


def test_a_softmax_saves_the_second_read_of_its_tensor():
    saved, alone = gain("softmax")
    tensor, row = 4 * ROWS * COLUMNS, 4 * ROWS
    # One dispatch has the maxima, the other one all the rest; the maxima are written and read.
    assert saved.bytes_saved == tensor + 2 * row < alone.bytes_saved
    assert 0 < saved.microseconds < alone.microseconds


def test_regions_of_earlier_passes_are_looked_into():
    """A group that a pass adds to is compared with stock's dispatches of all its ops."""
    with ir.Context():
        module = ir.Module.parse(text("norm"))
        pipeline = "reduction_fusion"
        options = FusionOptions.resolve(pipeline=pipeline)
        made, report = engine.run(module, target=targets.parse("cpu"), options=options)
        assert report.counts() == {pipeline: 1}
        (function,) = ops.functions(made)
        inside = [view.operation for view in function.regions[0].blocks[0].operations]
        regions = [op for op in inside if op.name == ops.REGION]
        assert len(stock_dispatches.dispatches(regions)) == 2
        assert stock_dispatches.gain(regions, targets.parse("cpu")).bytes_saved > 0


def test_decisions_have_the_gain_over_stock():
    with ir.Context():
        module = ir.Module.parse(text("norm"))
        options = FusionOptions.resolve(pipeline="reduction_fusion")
        _, report = engine.run(module, target=targets.parse("cpu"), options=options)
    (taken,) = [d for d in report.decisions if d.taken]
    saved, _ = gain("norm", kernels=True)
    assert (taken.bytes_saved, taken.gain_us) == (saved.bytes_saved, round(saved.microseconds, 3))
    assert "of this machine" in report.rates


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name in ("resnet50", "moe") else pytest.mark.slow)
        for name in records.MODELS
    ],
)
def test_models_have_about_as_many_dispatches(name):
    """Within a quarter: movements of data have rules of their own, which are left out."""
    counted = records.stored(name)["targets"]["cpu"]["dispatches"]["stock"]
    path, target = records.imported(name)[0], records.TARGETS["cpu"]
    with open_model(path, target=target, options=records.OPTIONS) as work, ir.Context():
        module = ir.Module.parseFile(str(work.normalized))
        inside = [
            view.operation
            for function in ops.functions(module)
            for view in function.regions[0].blocks[0].operations
        ]
        made = stock_dispatches.dispatches(op for op in inside if op.name.startswith(COMPUTING))
        alone = sum(1 for op in inside if op.name.startswith(COMPUTING) and cost.does_work(op))
    assert len(made) == pytest.approx(counted, rel=0.25)
    assert alone > 2 * counted
