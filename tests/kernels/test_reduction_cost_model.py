"""Whether rows are held in registers, or shared by splits that loop over them: the cost model."""

import dataclasses

import numpy as np
import pytest
from iree.compiler import ir

from helpers.kernel_runner import TARGET, close, draw, needs_triton, planned, run
from helpers.linalg_text import Function
from helpers.softmax_text import softmax_text
from mlirfuse import targets
from mlirfuse.kernels import triton_compiler
from mlirfuse.kernels.reduction import cost_model, heuristics, strategies
from mlirfuse.kernels.reduction.distribution import distribute
from mlirfuse.kernels.reduction.problem import ReductionConfig, ReductionProblem

NORM = "arith.addf arith.addf"


@pytest.mark.parametrize(
    ("rows", "columns", "operand_bits", "held", "loops"),
    [
        # An H200, microseconds: in registers, and by the fastest loops.
        (16, 32768, 32, 3.3, 4.6),
        (64, 16384, 32, 4.0, 6.1),
        (64, 10240, 16, 2.1, 5.3),
        (64, 55520, 16, 12.5, 16.5),
        (128, 32768, 16, 6.1, 8.5),
        (224, 16384, 16, 5.5, 7.2),
        (512, 50000, 32, 64.4, 81.7),
    ],
)
def test_measured_norms(rows, columns, operand_bits, held, loops):
    """The computed form is the faster one, and the model within a factor of 2.2."""
    problem = ReductionProblem(rows, columns, NORM, 1, 1, operand_bits=operand_bits)
    tiles = distribute(heuristics._unpacked_config(problem, TARGET), rows, columns, TARGET.gpu)
    assert 0.45 < cost_model.registers_us(problem, tiles, TARGET) / held < 2.2
    assert held < loops
    assert not heuristics.choose_config(problem, TARGET).block_rows


@pytest.fixture
def split(monkeypatch):
    """Loops over columns in splits, for rows that registers could hold."""
    monkeypatch.setattr(heuristics, "choose_config", strategies.loop_config)


def resources(**values):
    return dataclasses.replace(TARGET, gpu=dataclasses.replace(TARGET.gpu, **values))


def test_a_larger_device_splits_rows_that_a_smaller_one_holds():
    problem = ReductionProblem(16, 32768, NORM, 1, 1)
    found = [
        heuristics.choose_config(problem, resources(num_sms=count, max_cluster_size=2)).splits > 1
        for count in (4, 132)
    ]
    assert found == [False, True]


def test_rows_that_are_read_again_cost_less_where_l2_holds_them():
    problem = ReductionProblem(8, 1 << 21, NORM, 1, 1)
    config = ReductionConfig(2048, 8, 32768, 1, block_rows=1, block_columns=2048, num_warps=8)
    config = dataclasses.replace(config, splits=128)
    small, large = (
        cost_model.loops_us(problem, config, resources(l2_bytes=n << 20)) for n in (1, 64)
    )
    assert large < small


@pytest.mark.parametrize(
    ("threads", "registers", "expected"),
    [(1024, 64, 1), (1024, 32, 2), (256, 40, 6), (128, 32, 16), (1024, 255, 1)],
)
def test_resident_ctas(threads, registers, expected):
    assert cost_model.resident_ctas(threads, registers, TARGET.gpu) == expected


def test_idle_multiprocessors_move_no_bytes():
    load = cost_model.Load(
        ctas=11, threads=128, registers=32, num_bytes=1e6, instructions=0, waits=0.0
    )
    few = cost_model.kernel_us(load, TARGET) - cost_model.KERNEL_US
    many = cost_model.kernel_us(dataclasses.replace(load, ctas=132), TARGET) - cost_model.KERNEL_US
    assert few == pytest.approx(many / cost_model.MAX_SM_SHARE)


@pytest.mark.parametrize("bits", [16, 32])
@pytest.mark.parametrize("rows", [1, 3, 8, 56, 131])
@pytest.mark.parametrize("columns", [9001, 72576, 278528, 1 << 20])
def test_splits_have_whole_tiles_and_occupy_the_device(rows, columns, bits):
    problem = ReductionProblem(rows, columns, NORM, 2, 1, operand_bits=bits)
    config = strategies.loop_config(problem, TARGET)
    chunk = -(-columns // (config.splits * config.block_columns)) * config.block_columns
    assert -(-columns // chunk) == config.splits
    most = rows * -(-columns // (128 * 4))
    assert rows * config.splits >= min(TARGET.gpu.num_sms, most // 2)


@pytest.mark.parametrize("rows", [7, 112, 300])
@pytest.mark.parametrize("writes", [0, 1])
def test_partial_results_fit_the_registers_of_a_cta(rows, writes):
    """More of them where a result beyond the L2 cache is written in whole lines."""
    problem = ReductionProblem(
        rows, 1 << 18, NORM, 1, writes, contiguous_rows=rows, operand_bits=32
    )
    config = strategies.loop_config(problem, TARGET)
    limit = strategies.MAX_PARTIALS * (strategies.WRITTEN_LINES if rows == 300 else 1)
    limit = limit if writes else strategies.MAX_SPLITS * config.block_rows
    assert config.block_rows * config.splits <= limit


@pytest.mark.parametrize("columns", [53385038, 2162688])
def test_threads_of_long_loops_have_several_vectors(columns):
    problem = ReductionProblem(1, columns, "arith.addf arith.addf", 1, 0, operand_bits=16)
    config = strategies.loop_config(problem, TARGET)
    elements = config.block_columns // (config.num_warps * TARGET.gpu.warp_size)
    assert elements >= 8


@pytest.mark.parametrize(("images", "shared"), [(8, True), (16, True), (64, False)])
def test_few_small_ctas_share_their_rows(images, shared):
    """312 CTAs of four warps leave an SM with ten of 64."""
    problem = ReductionProblem(
        images * 624, 4544, "arith.maximumf", 1, 0, contiguous_rows=624, operand_bits=32
    )
    assert (strategies.loop_config(problem, TARGET).splits > 1) == shared


def test_without_splits_there_is_one_kernel():
    problem = ReductionProblem(7619, 113, "arith.mulf", 1, 0, contiguous_rows=7619)
    assert heuristics.default_config(problem, TARGET).splits == 1


@pytest.mark.parametrize(
    ("text_type", "bits"), [("f16", 16), ("bf16", 16), ("f32", 32)], ids=["f16", "bf16", "f32"]
)
def test_problem_of_a_softmax(text_type, bits):
    with ir.Context():
        _, (plan,) = planned(softmax_text((4, 64), text_type), "rows")
        expected = ReductionProblem(
            4, 64, "arith.addf arith.maximumf", 1, 1, operand_bits=bits, passes=plan.problem.passes
        )
        assert plan.problem == expected


def group_norm_text(shape, dtype):
    """A group norm of a sum with weights of channels, and SiLU: [groups, channels, pixels]."""
    f = Function("main", shape)
    x, r = f.argument((0, 1, 2), dtype), f.argument((0, 1, 2), dtype)
    gamma, beta = f.argument((0, 1), dtype), f.argument((0, 1), dtype)
    count = float(shape[1] * shape[2])
    total = f.apply("arith.addf", f.cast(x, "f32"), f.cast(r, "f32"))
    mean = f.apply("arith.divf", f.reduce("arith.addf", total, (1, 2)), count)
    centered = f.apply("arith.subf", total, mean)
    squares = f.reduce("arith.addf", f.apply("arith.mulf", centered, centered), (1, 2))
    variance = f.apply("arith.divf", squares, count)
    root = f.apply("math.rsqrt", f.apply("arith.addf", variance, 1e-5))
    y = f.apply("arith.mulf", f.apply("arith.mulf", centered, root), f.cast(gamma, "f32"))
    y = f.apply("arith.addf", y, f.cast(beta, "f32"))
    power = f.apply("math.exp", f.apply("arith.negf", y))
    return f.finish(f.cast(f.apply("arith.divf", y, f.apply("arith.addf", power, 1.0)), dtype))


def row_function_text(shape, function):
    """A function of numbers less those of their row."""
    f = Function("main", shape)
    x = f.argument((0, 1), "f32")
    return f.finish(f.apply(function, f.apply("arith.subf", x, f.reduce("arith.addf", x, (1,)))))


@pytest.mark.parametrize(
    ("text", "heavy"),
    [
        (group_norm_text((8, 9, 8063), "f16"), True),
        (group_norm_text((8, 9, 8064), "f16"), False),
        (group_norm_text((8, 9, 63), "f16"), False),
        (row_function_text((8, 20000), "math.cos"), True),
        (row_function_text((8, 20000), "math.exp"), False),
        (row_function_text((8, 2000), "math.cos"), False),
    ],
    ids=["weights", "weights of runs", "short weights", "cosine", "exponential", "short cosine"],
)
def test_heavy_problems(text, heavy):
    """Long rows with a long function, or with an index for each element of weights."""
    with ir.Context():
        _, (plan,) = planned(text, "rows")
        assert next(p.problem for p in plan.kernels() if p.problem).heavy == heavy


def exact_group_norm(x, r, gamma, beta):
    """The same in float64."""
    total = x.astype(np.float64) + r.astype(np.float64)
    y = total - total.mean((1, 2), keepdims=True)
    y /= np.sqrt((y * y).mean((1, 2), keepdims=True) + 1e-5)
    y = y * gamma.astype(np.float64)[..., None] + beta.astype(np.float64)[..., None]
    return y / (1 + np.exp(-y))


@needs_triton
@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16"])
@pytest.mark.parametrize(
    "shape", [(3, 5, 2001), (2, 8, 1300), (1, 3, 4096)], ids=["odd", "even", "one row"]
)
@pytest.mark.parametrize("offset", [0.0, 100.0])
def test_few_long_rows(split, interpreter, dtype, shape, offset):
    """Kernels of splits, the last tile of the columns partial."""
    text = group_norm_text(shape, dtype)
    with ir.Context():
        _, (plan,) = planned(text, "rows")
        flat = ["elementwise_kernel"] if shape[-1] % 2 else []
        found = [step.program.entry for step in plan.kernels()]
        assert found == ["reduction_kernel"] * 2 + flat
        assert plan.kernels()[0].grid[1].count(()) > 1
    x, r = draw(shape, dtype, 1, spread=2.0), draw(shape, dtype, 2)
    x = (x + x.dtype.type(offset)).astype(x.dtype)
    gamma, beta = draw(shape[:2], dtype, 3), draw(shape[:2], dtype, 4)
    (found,) = run(interpreter, text, "rows", [x, r, gamma, beta], [shape])
    close(found, exact_group_norm(x, r, gamma, beta), dtype)


@needs_triton
@pytest.mark.parametrize("dtype", ["f32", "f16"])
@pytest.mark.parametrize("form", ["registers", "loop", "splits"])
@pytest.mark.parametrize("inner", [1304, 1300, 2002], ids=["eights", "fours", "twos"])
def test_elements_of_a_run_share_their_weights(interpreter, monkeypatch, dtype, form, inner):
    shape = (3, 4, inner)
    if form != "registers":
        monkeypatch.setattr(heuristics, "choose_config", strategies.loop_config)
    if form == "loop":
        monkeypatch.setattr(strategies, "_splits", lambda *_: [1])
    text = group_norm_text(shape, dtype)
    with ir.Context():
        _, (plan,) = planned(text, "rows")
        source = plan.program.source
    assert ("library.repeated(" in source) == (inner % 4 == 0)
    x, r = draw(shape, dtype, 1), draw(shape, dtype, 2)
    gamma, beta = draw(shape[:2], dtype, 3), draw(shape[:2], dtype, 4)
    (found,) = run(interpreter, text, "rows", [x, r, gamma, beta], [shape])
    close(found, exact_group_norm(x, r, gamma, beta), dtype)


@needs_triton
def test_the_last_pass_begins_with_the_columns_that_were_read_last(split):
    with ir.Context():
        _, (plan,) = planned(group_norm_text((8, 9, 8064), "f16"), "rows")
        first, last = (step.program.source for step in plan.kernels())
        splits = plan.grid[1].count(())
        for step in plan.kernels():
            assert triton_compiler.build(step.program, TARGET.arch).code
    assert "split = tl.program_id(1)\n" in first
    assert f"split = {splits - 1} - tl.program_id(1)\n" in last
    (header,) = (s for s in last.splitlines() if "tl.range(" in s and ", -" in s)
    width = int(header.rpartition("-")[2].removesuffix("):"))
    assert f"first - {width}, -{width}" in header
    rows = [s for s in last.splitlines() if "tl.load(x" in s and "column" in s and "//" not in s]
    assert rows
    assert all("eviction_policy='evict_first'" in s for s in rows)
    assert "evict" not in first


def test_forms_on_a_device_without_clusters():
    problem = ReductionProblem(8, 32768, NORM, 1, 1)
    assert heuristics.choose_config(problem, targets.parse("cuda:sm_80")).splits > 1
    many = dataclasses.replace(problem, rows=4096)
    assert heuristics.choose_config(many, targets.parse("cuda:sm_80")).splits == 1


@pytest.mark.parametrize("columns", [9000, 1 << 20])
def test_reductions_that_read_nothing_along_the_columns(columns):
    """Such as one of indices."""
    problem = ReductionProblem(4, columns, NORM, 0, 0)
    assert heuristics.choose_config(problem, TARGET) is not None


@needs_triton
def test_no_part_reads_the_next_row(split, interpreter):
    """The last part of a row is shorter than a tile, also where it finds a value near the mean."""
    shape = (2, 3, 3001)
    text = group_norm_text(shape, "f32")
    x, r = draw(shape, "f32", 1), draw(shape, "f32", 2)
    x[1] = np.nan
    gamma, beta = draw(shape[:2], "f32", 3), draw(shape[:2], "f32", 4)
    (found,) = run(interpreter, text, "rows", [x, r, gamma, beta], [shape])
    close(found, exact_group_norm(x, r, gamma, beta), "f32")
