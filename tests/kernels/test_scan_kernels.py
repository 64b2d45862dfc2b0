"""Kernels of scans against float64, run by Triton's interpreter on the CPU."""

import math

import numpy as np
import pytest
from iree.compiler import ir

from helpers.kernel_runner import TARGET, close, draw, needs_triton, planned, run
from helpers.scan_text import expected, scan_text
from mlirfuse import targets
from mlirfuse.core import NoMatch
from mlirfuse.kernels import triton_compiler
from mlirfuse.kernels.scan import heuristics
from mlirfuse.kernels.scan.family import SCAN
from mlirfuse.kernels.scan.problem import ScanConfig, ScanProblem
from mlirfuse.tuning import kernel_search


@needs_triton
@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16"])
@pytest.mark.parametrize(
    ("shape", "axis"),
    [
        ((5, 40), 1),
        ((3, 1031), 1),
        ((40, 5), 0),
        ((2, 130, 3), 1),
        ((77, 9, 5), 1),  # a tile has scans of several places of the first dimension
        ((300,), 0),
        ((1, 1), 1),
    ],
)
def test_sums(interpreter, shape, axis, dtype):
    x = draw(shape, dtype)
    (found,) = run(interpreter, scan_text(shape, axis, dtype=dtype), "scan", [x], [shape])
    close(found, expected(x, axis), dtype)


@needs_triton
@pytest.mark.parametrize("combine", ["mul", "max", "logaddexp"])
@pytest.mark.parametrize(("shape", "axis"), [((3, 70), 1), ((70, 3), 0)])
def test_other_combiners(interpreter, shape, axis, combine):
    x = draw(shape, "f32", spread=0.9) + np.float32(combine == "mul")
    (found,) = run(interpreter, scan_text(shape, axis, combine, "f32"), "scan", [x], [shape])
    close(found, expected(x, axis, combine), "f16")


@needs_triton
@pytest.mark.parametrize(("before", "after"), [(True, False), (False, True), (True, True)])
@pytest.mark.parametrize(("shape", "axis"), [((3, 131), 1), ((37, 5), 0)])
@pytest.mark.parametrize("exclusive", [False, True])
def test_flips(interpreter, shape, axis, before, after, exclusive):
    x = draw(shape, "f16")
    text = scan_text(shape, axis, before=before, after=after, exclusive=exclusive)
    (found,) = run(interpreter, text, "scan", [x], [shape])
    close(found, expected(x, axis, "add", before, after, exclusive), "f16")


@pytest.fixture
def short_segments(monkeypatch):
    """Contiguous scans in five segments of a few blocks, each of which is four runs."""
    default = heuristics.default_config

    def choose(problem, target):
        computed = default(problem, target)
        return computed if problem.inner > 1 else ScanConfig(64, 1, 1, segments=5)

    monkeypatch.setattr(heuristics, "choose_config", choose)


@needs_triton
@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize(("shape", "axis"), [((2, 1111), 1), ((4200, 3), 0), ((2, 2100, 5), 1)])
def test_segments(interpreter, short_segments, shape, axis, after):
    """Few and long scans: the totals of segments come first."""
    x = draw(shape, "f32")
    x[(slice(None),) * axis + (shape[axis] // 2,)] += 100.0
    text = scan_text(shape, axis, dtype="f32", after=after)
    with ir.Context():
        _, (plan,) = planned(text, "scan")
        assert len(plan.kernels()) == 2
    (found,) = run(interpreter, text, "scan", [x], [shape])
    close(found, expected(x, axis, after=after), "f32")


@needs_triton
@pytest.mark.parametrize(
    ("combine", "shape", "axis", "segments", "pipelined"),
    [
        ("add", (2, 1111), 1, 5, False),
        ("add", (2, 1112), 1, 5, False),
        ("add", (2, 1112), 1, 1, True),
        ("add", (1, 1111), 1, 1, True),
        ("add", (2, 1111), 1, 1, False),
        ("logaddexp", (2, 1112), 1, 5, True),
        ("add", (4200, 3), 0, 5, True),
    ],
)
def test_loads_of_split_and_of_unaligned_scans_are_not_pipelined(
    monkeypatch, combine, shape, axis, segments, pipelined
):
    """There are as many CTAs as the device holds; with functions a pipeline is faster.

    A copy of a pipeline has one element where rows are not aligned.
    """
    lanes = 1 if axis == 1 else 4
    config = ScanConfig(64, lanes, 1, segments)
    monkeypatch.setattr(heuristics, "choose_config", lambda problem, target: config)
    with ir.Context():
        _, (plan,) = planned(scan_text(shape, axis, combine, "f32"), "scan")
        stages = [step.program.num_stages for step in plan.kernels()]
    assert stages == [3 if pipelined else 1] * (2 if segments > 1 else 1)


COUNTED = """
#id = affine_map<(r, c) -> (r, c)>
util.func public @main(%x: tensor<3x700xf32>) -> tensor<3x700xi64> {
  %zero = arith.constant 0.0 : f32
  %start = arith.constant INIT : i64
  %e = tensor.empty() : tensor<3x700xi64>
  %m = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<3x700xf32>) outs(%e : tensor<3x700xi64>) {
  ^bb0(%a: f32, %o: i64):
    %t = arith.cmpf ogt, %a, %zero : f32
    %i = CAST : i1 to i32
    %w = arith.extsi %i : i32 to i64
    linalg.yield %w : i64
  } -> tensor<3x700xi64>
  %s = tensor.empty() : tensor<3xi64>
  %f = linalg.fill ins(%start : i64) outs(%s : tensor<3xi64>) -> tensor<3xi64>
  %y:2 = iree_linalg_ext.scan dimension(1) inclusive(true)
      ins(%m : tensor<3x700xi64>) outs(%e, %f : tensor<3x700xi64>, tensor<3xi64>) {
  ^bb0(%p: i64, %q: i64):
    %r = COMBINE %p, %q : i64
    iree_linalg_ext.yield %r : i64
  } -> tensor<3x700xi64>, tensor<3xi64>
  util.return %y#0 : tensor<3x700xi64>
}
"""


@needs_triton
@pytest.mark.parametrize("segments", [1, 5])
@pytest.mark.parametrize(
    ("cast", "combine", "init", "narrow"),
    [
        ("arith.extui %t", "arith.addi", "0", True),
        ("arith.extsi %t", "arith.addi", "0", True),
        ("arith.extui %t", "arith.muli", "1", False),
        ("arith.fptosi %a", "arith.addi", "0", False),
    ],
)
def test_truths_are_counted_in_32_bits(
    interpreter, monkeypatch, cast, combine, init, narrow, segments
):
    config = ScanConfig(64, 1, 1, segments)
    monkeypatch.setattr(heuristics, "choose_config", lambda problem, target: config)
    text = COUNTED.replace("CAST", cast).replace("COMBINE", combine).replace("INIT", init)
    text = text.replace("%a : i1 to i32", "%a : f32 to i32")
    with ir.Context():
        _, (plan,) = planned(text, "scan")
        sources = [step.program.source for step in plan.kernels()]
        kinds = [program.scratch_types for program in plan.kernels()[:-1]]
    assert all(("]).to(tl.int32)\n" in source) == narrow for source in sources)
    assert kinds == ([("i32" if narrow else "i64",)] if segments > 1 else [])
    x = draw((3, 700), "f32", spread=9.0)
    (found,) = run(interpreter, text, "scan", [x], [x.shape])
    numbers = np.trunc(x) if "fptosi" in cast else (x > 0) * (-1 if "extsi" in cast else 1)
    exact = np.cumprod if combine == "arith.muli" else np.cumsum
    np.testing.assert_array_equal(found, exact(numbers.astype(np.int64), axis=1))


@pytest.mark.parametrize("combine", ["add", "logaddexp"])
@pytest.mark.parametrize(
    ("shape", "axis", "wide"), [((70000, 40000), 0, True), ((7000, 40000), 0, False)]
)
def test_offsets_of_more_than_31_bits(shape, axis, combine, wide):
    """An index along the scanned dimension times its stride has 64 bits."""
    with ir.Context():
        _, (plan,) = planned(scan_text(shape, axis, combine), "scan")
        source = plan.program.source
    indices = [line for line in source.splitlines() if line.strip().startswith("column = ")]
    assert indices
    assert all(("tl.int64" in line) == wide for line in indices)


@needs_triton
@pytest.mark.parametrize("reversed", [False, True])
@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize(
    ("columns", "segments"), [(64, 1), (256, 1), (577, 1), (577, 4), (1024, 3)]
)
def test_runs(interpreter, monkeypatch, columns, segments, exclusive, reversed):
    """One block, several of them, several segments, with and without masks."""
    config = ScanConfig(64, 1, 1, segments)
    monkeypatch.setattr(heuristics, "choose_config", lambda problem, target: config)
    x = draw((2, columns), "f32")
    text = scan_text(x.shape, 1, dtype="f32", before=reversed, after=reversed, exclusive=exclusive)
    (found,) = run(interpreter, text, "scan", [x], [x.shape])
    close(found, expected(x, 1, "add", reversed, reversed, exclusive), "f32")


@pytest.mark.parametrize("columns", [3000, 14744, 17000, 1 << 20, 41261422])
@pytest.mark.parametrize("outer", [1, 48])
@pytest.mark.parametrize("bits", [32, 64])
def test_long_scans_fill_the_device(outer, columns, bits):
    problem = ScanProblem(outer, columns, 1, bits)
    config, gpu = heuristics.default_config(problem, TARGET), TARGET.gpu
    blocks = -(-columns // config.block_columns)
    assert config.num_warps <= (32 if bits == 32 else 16)
    assert config.block_columns == config.num_warps * gpu.warp_size * 16
    warps, most = outer * config.segments * config.num_warps, gpu.num_sms * 64
    # One wave of CTAs, or so few blocks that a second kernel would take longer than they.
    assert warps <= most
    assert config.segments > 1 or blocks <= 5
    assert 2 * warps >= most // 2 or blocks <= 5 or config.segments == blocks


@pytest.mark.parametrize(
    ("outer", "columns", "bits", "split"),
    [
        (32, 11656, 32, False),
        (32, 11655, 32, True),
        (32, 11656, 64, True),
        (256, 20000, 16, False),
        (256, 20000, 64, True),
    ],
)
def test_scans_of_costly_blocks_are_split(outer, columns, bits, split):
    """Elements are costly that have 64 bits, or are loaded alone; parts of 64 bits have 4 warps."""
    config = heuristics.default_config(ScanProblem(outer, columns, 1, bits), TARGET)
    assert (config.segments > 1) == split
    assert not split or config.num_warps == 4


@pytest.mark.parametrize("target", ["cuda:sm_80", "cuda:sm_86", "cuda:sm_90"])
@pytest.mark.parametrize("columns", [14744, 17000, 100000])
def test_tiles_of_long_scans_fit_into_shared_memory(target, columns):
    """Those that a CTA loads ahead: two blocks of two operands."""
    target = targets.parse(target)
    config = heuristics.default_config(ScanProblem(48, columns), target)
    walks = config.block_columns * config.segments < columns
    assert not walks or 16 * config.block_columns <= target.gpu.shared_memory_per_cta


@needs_triton
def test_infinities_stay_where_they_are(interpreter):
    x = draw((4, 600), "f32")
    x[0, 500], x[1, 30], x[2, 0] = np.inf, -np.inf, np.nan
    (found,) = run(interpreter, scan_text(x.shape, 1, dtype="f32"), "scan", [x], [x.shape])
    assert np.isinf(found[0, 500:]).all()
    assert np.isfinite(found[0, :500]).all()
    assert np.isneginf(found[1, 30:]).all()
    assert np.isnan(found[2]).all()


@needs_triton
@pytest.mark.parametrize("combine", ["max", "logaddexp"])
@pytest.mark.parametrize("columns", [600, 1111])
def test_infinities_in_other_combiners(interpreter, short_segments, combine, columns):
    x = draw((4, columns), "f32", spread=1.0)
    x[0, columns // 2], x[1, : columns // 2], x[2, 500], x[3] = np.inf, -np.inf, np.nan, -np.inf
    text = scan_text(x.shape, 1, combine, "f32")
    (found,) = run(interpreter, text, "scan", [x], [x.shape])
    with np.errstate(invalid="ignore"):
        wanted = expected(x, 1, combine)
    np.testing.assert_allclose(found, wanted, rtol=1e-4)


def test_tiles_fill_the_device():
    short = heuristics.default_config(ScanProblem(1, 2, 1 << 21, 64), TARGET)
    assert short.block_columns * short.block_lanes == heuristics.TILE_ELEMENTS
    few = heuristics.default_config(ScanProblem(1, 2, 1 << 12, 64), TARGET)
    assert (few.block_columns, few.block_lanes) == (2, 16)
    sms = TARGET.gpu.num_sms
    long = heuristics.default_config(ScanProblem(2, 1 << 20), TARGET)
    assert 2 * long.segments >= sms
    many = heuristics.default_config(ScanProblem(65536, 5000), TARGET)
    assert many.segments == 1
    columns = math.ceil(5000 / many.block_columns) * many.block_columns
    assert columns <= 1.07 * 5000
    whole = heuristics.default_config(ScanProblem(65536, 3000), TARGET)
    assert (whole.block_columns, whole.num_warps) == (4096, 4)
    masked = heuristics.default_config(ScanProblem(65536, 2100), TARGET)
    assert masked.block_columns < 2100
    short = heuristics.default_config(ScanProblem(65536, 75), TARGET)
    assert (short.block_columns, short.block_lanes) == (128, heuristics.ROWS_ELEMENTS // 128)


TOTAL = """
func.func @main(%x: tensor<4x8xf32>) -> tensor<4xf32> {
  %e = tensor.empty() : tensor<4x8xf32>
  %t = tensor.empty() : tensor<4xf32>
  %y = flow.dispatch.region -> (tensor<4xf32>) {
    %s:2 = iree_linalg_ext.scan {operandSegmentSizes = array<i32: 1, 2>}
        dimension(1) inclusive(true)
        ins(%x : tensor<4x8xf32>) outs(%e, %t : tensor<4x8xf32>, tensor<4xf32>) {
    ^bb0(%a: f32, %b: f32):
      %r = arith.addf %a, %b : f32
      iree_linalg_ext.yield %r : f32
    } -> tensor<4x8xf32>, tensor<4xf32>
    flow.return %s#1 : tensor<4xf32>
  }
  return %y : tensor<4xf32>
}
"""


def test_no_kernel_for_the_total():
    with ir.Context():
        module = ir.Module.parse(TOTAL)
        (region,) = kernel_search.regions(module)
        plan = SCAN.plan(region, TARGET)
    assert isinstance(plan, NoMatch)
    assert "the total of a scan" in plan.detail


@needs_triton
@pytest.mark.parametrize("arch", ["sm_80", "gfx942"])
@pytest.mark.parametrize("shape", [(8, 40), (2, 100000)])
def test_object_code(shape, arch):
    with ir.Context():
        _, (plan,) = planned(scan_text(shape, 1), "scan")
        for step in plan.kernels():
            assert triton_compiler.build(step.program, arch).code


@needs_triton
@pytest.mark.parametrize("element", ["i32", "i64"])
def test_segments_of_integers(interpreter, short_segments, element):
    """Their totals are integers: in f32 a sum above 2^24 would be rounded."""
    shape = (2, 1111)
    x = np.random.default_rng(0).integers(0, 1 << 20, shape).astype(f"int{element[1:]}")
    text = scan_text(shape, 1, dtype="f32").replace("arith.addf", "arith.addi")
    text = text.replace("f32", element).replace("arith.constant 0.0", "arith.constant 0")
    with ir.Context():
        _, (plan,) = planned(text, "scan")
        assert len(plan.kernels()) == 2
    (found,) = run(interpreter, text, "scan", [x], [shape])
    np.testing.assert_array_equal(np.asarray(found), np.cumsum(x, 1))


@pytest.mark.parametrize(
    ("problem", "config"),
    [
        (ScanProblem(512, 121, 8, 16), ScanConfig(128, 8, 4)),
        (ScanProblem(300, 200, 4, 32), ScanConfig(256, 4, 4)),
        (ScanProblem(64, 250, 16, 16), ScanConfig(256, 8, 4)),
        (ScanProblem(128, 500, 6, 16), ScanConfig(512, 4, 4)),
        (ScanProblem(8192, 37, 8, 16), ScanConfig(64, 32, 4)),
        (ScanProblem(1, 500, 5000, 16), ScanConfig(32, 64, 2, 8)),
        (ScanProblem(2, 2100, 5, 32), ScanConfig(32, 16, 1, 33)),
    ],
    ids=str,
)
def test_few_scans_are_whole_in_a_tile(problem, config):
    """Of a place or of parts of a line; more or longer ones are split."""
    assert heuristics.default_config(problem, TARGET) == config
