"""Strided scans whose threads walk along scans of their own, run by Triton's interpreter."""

import numpy as np
import pytest
from iree.compiler import ir

from helpers.kernel_runner import TARGET, close, draw, needs_triton, planned, run
from helpers.scan_text import expected, scan_text
from mlirfuse.kernels.scan import heuristics
from mlirfuse.kernels.scan.problem import ScanConfig, ScanProblem


@pytest.fixture(params=[1, 4], ids=["one part", "four parts"])
def serial(request, monkeypatch):
    """Blocks of four rows of 32 scans."""
    config = ScanConfig(4, 32, 1, request.param, serial=True)
    monkeypatch.setattr(heuristics, "choose_config", lambda problem, target: config)
    return config


@needs_triton
@pytest.mark.parametrize("dtype", ["f32", "f16"])
@pytest.mark.parametrize("combine", ["add", "mul", "logaddexp"])
@pytest.mark.parametrize(
    ("shape", "axis"),
    [
        ((64, 40), 0),  # whole blocks
        ((61, 64), 0),
        ((3, 45, 40), 1),
        ((9, 50, 5), 1),  # a tile has scans of several places of the first dimension
        ((3, 33), 0),  # one block
    ],
)
def test_combiners(interpreter, serial, shape, axis, combine, dtype):
    x = draw(shape, dtype, spread=0.3)
    x = x + x.dtype.type(combine == "mul")
    text = scan_text(shape, axis, combine, dtype)
    (found,) = run(interpreter, text, "scan", [x], [shape])
    close(found, expected(x, axis, combine), "f16")


@needs_triton
@pytest.mark.parametrize(("before", "after"), [(False, False), (True, False), (True, True)])
@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("rows", [60, 61])
def test_flips_and_exclusive_scans(interpreter, serial, rows, exclusive, before, after):
    x = draw((rows, 40), "f32")
    text = scan_text(x.shape, 0, dtype="f32", before=before, after=after, exclusive=exclusive)
    (found,) = run(interpreter, text, "scan", [x], [x.shape])
    close(found, expected(x, 0, "add", before, after, exclusive), "f32")


@needs_triton
def test_infinities_stay_where_they_are(interpreter, serial):
    """Totals of parts behind the last one are loaded as zeros, and are not combined."""
    x = draw((64, 40), "f32")
    x[20, 3], x[33:, 4], x[:, 5] = np.inf, -np.inf, -np.inf
    text = scan_text(x.shape, 0, "logaddexp", "f32")
    (found,) = run(interpreter, text, "scan", [x], [x.shape])
    with np.errstate(invalid="ignore"):
        exact = expected(x, 0, "logaddexp")
    assert np.isneginf(found[:, 5]).all()
    assert np.isposinf(found[20:, 3]).all()
    np.testing.assert_allclose(found, exact, rtol=1e-5, atol=1e-5)


@needs_triton
def test_each_row_is_combined_once():
    """A block has a load and a combination of each row; that of log-sum-exp is chosen by itself."""
    with ir.Context():
        _, (plan,) = planned(scan_text((600, 900), 0, "logaddexp", "f32"), "scan")
        source = plan.program.source
    loop = source[source.index("for block in") :]
    assert loop.count("tl.load(") == loop.count("combine(") == loop.count("tl.store(") == 8
    assert "associative_scan" not in source


@pytest.mark.parametrize(
    ("problem", "rows", "lanes"),
    [
        (ScanProblem(1, 6208, 896, 16, long=True), 8, 64),
        (ScanProblem(1, 6208, 896, 32, long=True), 8, 32),
        (ScanProblem(64, 21, 3000, 32, long=True), 7, 32),  # whole blocks
        (ScanProblem(1, 50000, 24, 16, long=True), 8, 32),
    ],
)
def test_long_combinations_are_serial(problem, rows, lanes):
    config, gpu = heuristics.default_config(problem, TARGET), TARGET.gpu
    assert config.serial
    assert (config.block_columns, config.block_lanes, config.num_warps) == (rows, lanes, 1)
    blocks = -(-problem.columns // rows)
    ctas = problem.outer * -(-problem.inner // lanes)
    assert ctas * config.segments <= 2 * gpu.num_sms * heuristics.STRIDED_CTAS_PER_SM or (
        config.segments == 1
    )
    assert config.segments <= heuristics.MAX_SERIAL_SHARE * blocks**0.5


def test_short_combinations_few_scans_and_rows_are_not():
    for problem in (
        ScanProblem(1, 6208, 896, 16),
        ScanProblem(1, 6208, 8, 16, long=True),
        ScanProblem(896, 6208, 1, 16, long=True),
    ):
        assert not heuristics.default_config(problem, TARGET).serial
