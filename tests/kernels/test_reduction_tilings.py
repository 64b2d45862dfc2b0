"""Kernels of rows: how rows are distributed over CTAs, and over those of a cluster."""

import dataclasses
import functools
import re

import numpy as np
import pytest
from iree.compiler import ir

from helpers import kernel_runner
from helpers.kernel_runner import TARGET, close, draw, needs_triton, planned, run
from helpers.linalg_text import Function
from helpers.softmax_text import softmax_reference, softmax_text
from mlirfuse import targets
from mlirfuse.core import NoMatch, Reason
from mlirfuse.kernels import triton_compiler
from mlirfuse.kernels.codegen.iteration_space import Conflict, Group, Space, loop_axes
from mlirfuse.kernels.reduction import heuristics
from mlirfuse.kernels.reduction.distribution import distribute
from mlirfuse.kernels.reduction.family import REDUCTION
from mlirfuse.kernels.reduction.problem import ReductionConfig, ReductionProblem
from mlirfuse.structured.ir import ops


@pytest.fixture
def share(monkeypatch):
    """Has kernels of rows planned with a configuration, for a target."""

    def choose(config, target=TARGET):
        chosen = functools.partial(REDUCTION.plan, config=config)
        monkeypatch.setitem(kernel_runner.SUPPORTS, "rows", lambda op, _: chosen(op, target))

    return choose


def plan_of(text):
    with ir.Context():
        _, (plan,) = planned(text, "rows")
        return plan


@pytest.mark.parametrize(
    ("config", "sizes", "expected"),
    [
        ((2048, 16, 32768), (4096, 512), (4, 512, 4, 1)),
        ((2048, 16, 32768), (3, 500), (4, 512, 4, 1)),
        ((2048, 16, 32768), (1, 20), (1, 32, 1, 1)),
        ((2048, 32, 32768), (2048, 32768), (1, 32768, 32, 1)),
        ((8192, 16, 8192), (16384, 1024), (8, 1024, 16, 1)),
        ((8192, 16, 8192), (2048, 32768), (1, 8192, 16, 4)),
        ((8192, 16, 8192), (2048, 32767), (1, 8192, 16, 4)),
        ((8192, 16, 8192), (2048, 20000), (1, 8192, 16, 3)),
        # A cluster has no more than eight; five of these hold the row.
        ((8192, 16, 4096), (2048, 40000), (1, 8192, 16, 5)),
        ((8192, 16, 1024), (2048, 32768), (1, 4096, 8, 8)),
        ((8192, 16, 4096), (7, 262144), (1, 32768, 32, 8)),
    ],
)
def test_distribution_of_rows(config, sizes, expected):
    found = distribute(ReductionConfig(*config), *sizes, TARGET.gpu)
    assert dataclasses.astuple(found) == expected


@needs_triton
@pytest.mark.parametrize(("shape", "ranks"), [((3, 128), 4), ((2, 97), 4), ((1, 70), 3)])
@pytest.mark.parametrize("dynamic", [False, True])
def test_a_cluster_covers_its_rows(interpreter, share, monkeypatch, shape, ranks, dynamic):
    """All rows are equal, so the sums of a whole row are known; each part is at its offset."""
    from mlirfuse.kernels.device import reduction_sm90

    x = np.repeat(draw((1, shape[1]), "f16", spread=4.0), shape[0], 0)
    exact = x[:1].astype(np.float64)
    whole = {"max": exact.max(), "sum": np.exp(exact - exact.max()).sum()}
    asked = []

    def all_reduce(part, form, *how):
        asked.append((form, *how))
        return part * 0.0 + float(whole[form])

    monkeypatch.setattr(reduction_sm90, "announce", lambda: asked.append("announce"))
    monkeypatch.setattr(reduction_sm90, "all_reduce", all_reduce)
    share(ReductionConfig(2048, 8, 32))
    text = softmax_text((None if dynamic else shape[0], shape[1]), "f16")
    (found,) = run(interpreter, text, "rows", [x], [shape])
    close(found, softmax_reference(x.astype(np.float64)), "f16")
    once = ["announce", ("max", ranks, True), ("sum", ranks, False)]
    assert asked == once * (ranks * shape[0])


@pytest.mark.parametrize("target", ["cuda:sm_80", "cuda:sm_89", "rocm:gfx942"])
def test_clusters_are_hoppers_alone(share, target):
    share(ReductionConfig(2048, 16, 4096), targets.parse(target))
    plan = plan_of(softmax_text((4, 8192), "f16"))
    assert isinstance(plan, NoMatch)
    assert plan.reason is Reason.TARGET_UNSUPPORTED
    assert plan.detail == f"{target} has no thread block clusters"
    assert plan_of(softmax_text((4, 4096), "f16")).program.cluster_size == 1


@pytest.mark.parametrize(
    ("target", "most", "ctas"),
    [("cuda:sm_90", 65536, 4), ("cuda:sm_80", 32768, 1), ("rocm:gfx942", 32768, 1)],
)
def test_longer_rows_are_not_held_in_registers(share, target, most, ctas):
    share(None, targets.parse(target))
    plan = plan_of(softmax_text((1024, most), "f16"))
    assert plan.program.cluster_size == ctas
    for shape, kernels in (((1024, 8 * most + 8), 1), ((2, 8 * most + 8), 2)):
        plan = plan_of(softmax_text(shape, "f16"))
        entries = [step.program.entry for step in plan.kernels()]
        assert entries == ["reduction_kernel"] * kernels


@needs_triton
def test_object_code_of_a_cluster(share):
    for part, warps in ((1024, 2), (4096, 8)):
        share(ReductionConfig(2048, 16, part))
        plan = plan_of(softmax_text((6, 4096), "f16"))
        code = triton_compiler.build(plan.program, "sm_90").code.decode()
        directive = ".reqnctapercluster 4\n" if part < 4096 else ""
        assert f".reqntid {32 * warps}\n{directive}{{" in code
        # All run; the maxima are exchanged; the sums are exchanged.
        count = 3 if part < 4096 else 0
        assert code.count("barrier.cluster.arrive") == code.count("barrier.cluster.wait") == count
        assert plan.grid[0].repeat == 4096 // part


@pytest.mark.parametrize(
    ("combine", "start", "form"),
    [
        ("arith.addf", 0.0, "sum"),
        ("arith.maximumf", float("-inf"), "max"),
        ("arith.maxnumf", float("-inf"), "maxnum"),
        ("arith.minnumf", float("inf"), "minnum"),
    ],
)
def test_each_reduction_has_a_form_over_clusters(share, combine, start, form):
    f = Function("main", (6, 4096))
    x = f.argument((0, 1), "f32")
    text = f.finish(f.apply("arith.subf", x, f.reduce(combine, x, [1], start)))
    share(ReductionConfig(2048, 16, 1024))
    assert f'"{form}", 4, True)' in plan_of(text).program.source


@pytest.mark.parametrize("short", [False, True])
def test_candidates_differ(short):
    for sizes in ((16384, 1024), (2048, 32768), (3, 20), (64, 20000)):
        problem = ReductionProblem(*sizes, "arith.addf", 1, 1, narrow_result=short)
        tried = heuristics.configs(problem, TARGET)
        assert tried[0] == heuristics.default_config(problem, TARGET)
        found = [distribute(config, *sizes, TARGET.gpu) for config in tried]
        flags = [(config.packed, config.evict_first) for config in tried]
        assert len({*zip(found, flags, strict=True)}) == len(found)
        # Whole rows of a power of two, not only the longest ones of a CTA.
        assert ((True, False) in flags) == (sizes[1] in (1024, 32768))
        assert (False, True) in flags
        assert any(each.cluster_size > 1 for each in found) == (sizes[1] > 2048)


@pytest.mark.parametrize(
    ("sizes", "target", "columns", "cluster_size"),
    [
        ((16384, 4096), "cuda:sm_90", 4096, 1),
        ((1, 4096), "cuda:sm_90", 4096, 1),
        ((64, 10240), "cuda:sm_90", 16384, 1),
        ((16, 20480), "cuda:sm_90", 4096, 5),
        ((64, 40960), "cuda:sm_90", 8192, 5),
        ((256, 40960), "cuda:sm_90", 8192, 5),
        ((2048, 32768), "cuda:sm_90", 32768, 1),
        ((64, 8192), "cuda:sm_80", 8192, 1),
        ((64, 10240), "rocm:gfx942", 16384, 1),
    ],
)
def test_few_long_rows_are_shared_by_default(sizes, target, columns, cluster_size):
    """As it was measured: one CTA where it holds a row, but where there are very few rows."""
    target = targets.parse(target)
    config = heuristics.default_config(ReductionProblem(*sizes, "arith.addf", 1, 1), target)
    found = distribute(config, *sizes, target.gpu)
    assert (found.columns, found.cluster_size) == (columns, cluster_size)


def byte_text(low, high, offset=None, cast="arith.fptosi"):
    """Rows over their sums and a scale, plus an offset, rounded and clamped, as i8."""
    f = Function("main", (4, 64))
    x = f.argument((0, 1), "f32")
    total = f.reduce("arith.addf", x, [1], 0.0)
    steps = f.apply("math.roundeven", f.apply("arith.divf", x, total))
    if offset is not None:
        steps = f.apply("arith.addf", steps, offset)
    bounded = f.apply("arith.minimumf", f.apply("arith.maximumf", steps, low), high)
    return f.finish(f.cast(bounded, "i8", cast))


@pytest.mark.parametrize(
    ("text", "byte"),
    [
        (byte_text(-128.0, 127.0), "-128.0, 127.0"),
        (byte_text(-7.0, 3.0), "-7.0, 3.0"),
        # Values outside of i8, a bound between two integers, no rounding before the bounds.
        (byte_text(-129.0, 127.0), None),
        (byte_text(-128.0, 128.0), None),
        (byte_text(-127.5, 127.0), None),
        (byte_text(-128.0, 127.0, 0.5), None),
    ],
)
def test_quantization_to_i8(text, byte):
    plan = plan_of(text)
    source = plan.program.source
    problem = ReductionProblem(4, 64, "arith.addf", 1, 1, narrow_result=True, operand_bits=32)
    assert plan.problem == problem
    assert ("library.byte(" in source) == (byte is not None)
    assert byte is None or f", {byte})" in source


def test_unsigned_bytes():
    """The conversion is in the group of the reduction."""
    with ir.Context():
        _, plans = planned(byte_text(0.0, 127.0, cast="arith.fptoui"), "rows")
        kinds = [[ops.element_type(v) for v in plan.results] for plan in plans if plan is not None]
    assert kinds == [["i8"]]


def weighted_text():
    """Rows times weights, times their maximum."""
    f = Function("main", (4, 4096))
    x, g = f.argument((0, 1), "f16"), f.argument((1,), "f16")
    weighted = f.apply("arith.mulf", x, g)
    highest = f.reduce("arith.maximumf", x, [1], float("-inf"))
    return f.finish(f.apply("arith.mulf", weighted, highest))


def test_operands_are_loaded_late_under_register_pressure(share):
    for thread, late in ((8, False), (16, True), (32, True)):
        share(ReductionConfig(2048, thread, 32768))
        lines = plan_of(weighted_text()).program.source.splitlines()
        weights = next(n for n, s in enumerate(lines) if "tl.load(x1" in s)
        sums = next(n for n, s in enumerate(lines) if "tl.reduce" in s)
        assert (weights > sums) == late


@pytest.mark.parametrize("once", [False, True])
def test_rows_that_are_loaded_once(share, once):
    share(ReductionConfig(2048, 8, 32768, evict_first=once))
    source = plan_of(weighted_text()).program.source
    policy = ", eviction_policy='evict_first'" if once else ""
    assert f"tl.load(x0 + row * (4096) + column{policy}).to(tl.float32)\n" in source
    assert "tl.load(x1 + column).to(tl.float32)\n" in source


PACKED = ReductionConfig(1, 32, 32768, packed=True)


@needs_triton
@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_packed_rows(interpreter, share, monkeypatch, dtype):
    from mlirfuse.kernels.device import library

    reduced = []

    def packed(x, what):
        reduced.append(float(what.handle.data.item()))
        return x

    monkeypatch.setattr(library, "packed", packed)
    share(PACKED)
    x = draw((2, 256), dtype, spread=4.0)
    (found,) = run(interpreter, softmax_text(x.shape, dtype), "rows", [x], [x.shape])
    exact = x.astype(np.float64)
    close(found, softmax_reference(exact), dtype)
    highest = exact.max(1)
    sums = np.exp(exact - highest[:, None]).sum(1)
    assert reduced == pytest.approx([*np.stack([highest, sums], 1).flat])


def sums_text(dtype):
    """An add of two tensors, returned; quantized, minus its maximum, over the sum of that."""
    f = Function("main", (4, 1024))
    total = f.apply("arith.addf", f.argument((0, 1), dtype), f.argument((0, 1), dtype))
    wide = f.apply("arith.mulf", f.cast(total, "f32"), f.argument((1,), "f32"))
    less = f.apply("arith.subf", wide, f.reduce("arith.maximumf", wide, [1], float("-inf")))
    part = f.apply("arith.divf", less, f.reduce("arith.addf", less, [1]))
    return f.finish(total, f.cast(part, dtype))


def test_values_computed_from_packed_rows_are_computed_again(share):
    share(PACKED)
    plan = plan_of(sums_text("f16"))
    assert plan.program.max_registers == 32
    lines = plan.program.source.splitlines()
    named = {name: text for name, _, text in (s.strip().partition(" = ") for s in lines)}
    read = [name for name, text in named.items() if re.match(r"tl.load\(x\d \+ row", text)]
    for combine in ("tl.reduce", "tl.sum"):
        (reduced,) = [name for name, text in named.items() if combine in text]
        again = [name for name, text in named.items() if text.endswith(f", {reduced})")]
        assert [named[name] for name in again] == [f"library.packed({x}, {reduced})" for x in read]
        assert f"{again[0]} + {again[1]}" in named.values()
        read = again
    assert sum("tl.store" in line for line in lines) == 2


@pytest.mark.parametrize(
    ("config", "sizes", "dtype", "target", "packed"),
    [
        (PACKED, (4, 1024), "f16", TARGET, True),
        (PACKED, (None, 1024), "bf16", TARGET, True),
        (dataclasses.replace(PACKED, packed=False), (4, 1024), "f16", TARGET, False),
        (dataclasses.replace(PACKED, tile_elements=2048), (4, 1024), "f16", TARGET, False),
        (dataclasses.replace(PACKED, max_columns_per_cta=512), (4, 1024), "f16", TARGET, False),
        (PACKED, (4, 1000), "f16", TARGET, False),
        (PACKED, (4, 1024), "f32", TARGET, False),
        (PACKED, (4, 1024), "f16", targets.parse("rocm:gfx942"), False),
    ],
)
def test_which_rows_are_packed(share, config, sizes, dtype, target, packed):
    share(config, target)
    program = plan_of(softmax_text(sizes, dtype)).program
    assert program.max_registers == (32 if packed else 0)
    assert ("library.packed(" in program.source) == packed


@needs_triton
def test_object_code_of_packed_rows(share):
    share(PACKED)
    code = triton_compiler.build(
        plan_of(softmax_text((4, 1024), "f16")).program, "sm_90"
    ).code.decode()
    assert ".maxnreg 32\n" in code
    # A pair of elements each: 16 registers of a thread, after the maximum and after the sum.
    assert len(re.findall(r"^\tand\.b32 (%r\d+), %r\d+, %r\d+;", code, re.M)) == 2 * 16


@pytest.mark.parametrize(("shape", "registers"), [((2048, 32768), 32), ((16384, 8192), 0)])
def test_measured_rows_are_packed(shape, registers):
    assert plan_of(softmax_text(shape, "f16")).program.max_registers == registers


@pytest.mark.parametrize(
    ("sizes", "reads", "combiners", "packed"),
    [
        ((2048, 32768), 1, "arith.addf", True),
        ((2048, 32768), 1, "arith.addf arith.maximumf", True),
        # Registers would spill.
        ((2048, 32768), 1, "arith.addf arith.addf", False),
        ((2048, 32768), 2, "arith.addf", False),
        ((2048, 32767), 1, "arith.addf", False),
        # An SM has room for two CTAs anyway.
        ((2048, 16384), 1, "arith.addf", False),
        # A cluster shares a row.
        ((4, 32768), 1, "arith.addf", False),
    ],
)
def test_rows_that_leave_an_sm_one_cta_are_packed(sizes, reads, combiners, packed):
    problem = ReductionProblem(*sizes, combiners, reads, 1)
    assert heuristics.default_config(problem, TARGET).packed is packed


@pytest.mark.parametrize("rows", [64, 512, 4096])
def test_rows_with_results_of_their_columns_are_held_and_others_read_by_loops(rows):
    problem = ReductionProblem(rows, 40960, "arith.addf arith.addf", 1, 1)
    assert not heuristics.default_config(problem, TARGET).block_rows
    numbers = dataclasses.replace(problem, writes=0)
    assert heuristics.default_config(numbers, TARGET).block_rows


@pytest.mark.parametrize("sizes", [(1, 32768), (8, 9000), (64, 16384), (224, 16384)])
def test_one_cta_holds_a_row_of_which_numbers_are_left(sizes):
    problem = ReductionProblem(*sizes, "arith.addf arith.maximumf", 1, 0)
    found = distribute(heuristics.default_config(problem, TARGET), *sizes, TARGET.gpu)
    assert (found.rows, found.cluster_size) == (1, 1)
    # Registers of two tensors of f32 would spill.
    wide = dataclasses.replace(problem, columns=32768, reads=2, operand_bits=32)
    assert heuristics.default_config(wide, TARGET).block_rows


@pytest.mark.parametrize(("columns", "rows"), [(768, 16), (1024, 16), (2048, 8)])
def test_tiles_of_turned_rows_write_sectors(columns, rows):
    problem = ReductionProblem(4096, columns, "arith.addf arith.addf", 1, 1, turned=True)
    found = distribute(heuristics.default_config(problem, TARGET), 4096, columns, TARGET.gpu)
    assert (found.rows, found.num_warps) == (rows, 16)


@pytest.mark.parametrize(
    ("columns", "warps"), [(64, 4), (69, 1), (1000, 4), (1001, 1), (1500, 4), (20, 4)]
)
def test_odd_rows_of_one_warp_reduce_without_shared_memory(columns, warps):
    problem = ReductionProblem(30000, columns, "arith.addf", 1, 1)
    config = heuristics.default_config(problem, TARGET)
    assert (distribute(config, 30000, columns, TARGET.gpu).num_warps == 1) is (warps == 1)


def moved_text(dtype):
    """A norm of an add of a transposed tensor, with a transposed result."""
    f = Function("main", (None, None, 40))
    x, r = f.argument((0, 1, 2), dtype), f.argument((1, 0, 2), dtype)
    total = f.cast(f.apply("arith.addf", r, x), "f32")
    mean = f.apply(
        "arith.divf", f.reduce("arith.addf", f.apply("arith.mulf", total, total), [2]), 40.0
    )
    root = f.apply("math.rsqrt", f.apply("arith.addf", mean, 1e-5))
    normed = f.cast(f.apply("arith.mulf", total, root), dtype)
    return f.finish(f.apply("arith.mulf", normed, f.argument((2,), dtype), axes=(1, 0, 2)))


@needs_triton
@pytest.mark.parametrize("dtype", ["f32", "f16"])
@pytest.mark.parametrize("sizes", [(1, 3), (3, 7), (7, 1)])
def test_dynamic_sizes_one_without_the_other(interpreter, dtype, sizes):
    shapes = [(*sizes, 40), (*reversed(sizes), 40)]
    x, r, gamma = (draw(shape, dtype, seed) for seed, shape in enumerate([*shapes, (40,)]))
    (found,) = run(interpreter, moved_text(dtype), "rows", [x, r, gamma], shapes[1:])
    total = (x + r.swapaxes(0, 1)).astype(np.float64)
    normed = total / np.sqrt((total**2).mean(-1, keepdims=True) + 1e-5) * gamma.astype(np.float64)
    close(found, normed.swapaxes(0, 1), dtype)


@needs_triton
def test_object_code_of_dynamic_sizes_one_without_the_other():
    program = plan_of(moved_text("f16")).program
    assert [name for name, kind in program.arguments if kind == "i32"] == ["size_0", "size_1"]
    assert "row_kernel" in triton_compiler.build(program, "sm_90").code.decode()


def test_no_guess_which_dynamic_size_is_which():
    """The loops of an op that is unrelated to the anchor may be either's."""
    f = Function("main", (None, None, 40))
    x, y = f.argument((0, 1, 2), "f32"), f.argument((1, 0, 2), "f32")
    text = f.finish(f.apply("math.absf", x), f.apply("math.absf", y))
    space = Space((Group("row", (None, None)), Group("column", (40,))))
    axes = [(0, 0), (0, 1), (1, 0)]
    with ir.Context():
        module = ir.Module.parse(text)
        block = module.body.operations[0].regions[0].blocks[0]
        group = [o.operation for o in block.operations if o.operation.name == "linalg.generic"]
        assert loop_axes(space, group[:1], axes, anchor=group[0]) == {group[0]: axes}
        with pytest.raises(Conflict):
            loop_axes(space, group, axes, anchor=group[0])


@pytest.mark.parametrize("sizes", [(144, 288), (1024, 64), (2048, 512), (16384, 1024), (3, 2000)])
def test_few_rows_have_threads_of_few_elements_and_ctas_for_half_of_the_sms(sizes):
    problem = ReductionProblem(*sizes, "arith.addf", 1, 1)
    config, gpu = heuristics.default_config(problem, TARGET), TARGET.gpu
    tile = distribute(config, *sizes, gpu)
    each = tile.rows * tile.columns // (gpu.warp_size * tile.num_warps)
    threads = -(-sizes[0] // tile.rows) * gpu.warp_size * tile.num_warps
    assert -(-sizes[0] // tile.rows) >= min(gpu.num_sms // 2, sizes[0])
    full = 2 * threads >= gpu.num_sms * gpu.max_threads_per_sm
    assert each <= 8 or full or tile.num_warps >= 8


@pytest.mark.parametrize("combiners", ["arith.addf", "arith.addf arith.addf"])
@pytest.mark.parametrize("columns", [2, 3, 8])
def test_tiles_of_few_columns_have_many_rows(columns, combiners):
    """Rows are contiguous: 64 of them by two columns had one warp, of four elements a thread."""
    problem = ReductionProblem(1 << 21, columns, combiners, 1, 0, contiguous_rows=1 << 21)
    config = heuristics.default_config(problem, TARGET)
    assert config.num_warps >= 2
    assert config.block_rows * columns >= 1024
    assert (1 << 21) // config.block_rows >= TARGET.gpu.num_sms


@pytest.mark.parametrize(
    ("rows", "columns", "run"), [(1, 294016, 1), (2, 333184, 1), (168, 2786, 2)]
)
def test_splits_of_few_rows_fill_the_device(rows, columns, run):
    problem = ReductionProblem(rows, columns, "arith.maximumf", 1, 0, contiguous_rows=run)
    config = heuristics.default_config(problem, TARGET)
    tiles = -(-rows // config.block_rows) if config.block_rows else rows
    assert tiles * config.splits >= TARGET.gpu.num_sms


@pytest.mark.parametrize(("columns", "reads", "each"), [(885529, 2, 8), (1000000, 2, 16)])
def test_rows_that_are_loaded_one_by_one_have_more_threads(columns, reads, each):
    """Eight elements of two tensors each, where vectors have sixteen."""
    config = heuristics.default_config(
        ReductionProblem(7, columns, "arith.addf", reads, 0, operand_bits=32), TARGET
    )
    assert config.block_columns == 2048
    assert config.block_columns == each * config.num_warps * TARGET.gpu.warp_size


@pytest.mark.parametrize(("bits", "ctas"), [(16, 1), (32, 2)])
def test_two_tensors_of_16_bits_take_the_registers_of_one(bits, ctas):
    problem = ReductionProblem(2048, 32768, "arith.addf arith.addf", 2, 2, operand_bits=bits)
    config = heuristics.default_config(problem, TARGET)
    assert config.max_columns_per_cta * ctas == 32768


@pytest.mark.parametrize(("rows", "columns"), [(43264, 8), (102400, 16), (1 << 15, 4)])
def test_contiguous_rows_of_few_columns_have_threads_of_few_elements(rows, columns):
    problem = ReductionProblem(rows, columns, "arith.addf", 1, 1, contiguous_rows=rows)
    config, gpu = heuristics.default_config(problem, TARGET), TARGET.gpu
    tile = distribute(config, rows, columns, gpu)
    each = tile.rows * tile.columns // (gpu.warp_size * tile.num_warps)
    threads = rows // tile.rows * gpu.warp_size * tile.num_warps
    assert each <= 8 or 2 * threads >= gpu.num_sms * gpu.max_threads_per_sm


@needs_triton
@pytest.mark.parametrize(
    ("shape", "height", "apart"),
    [((256, 8, 13, 13), 64, True), ((256, 8, 9, 27), 128, True), ((8, 8, 14, 14), 0, False)],
)
def test_blocks_of_rows_end_with_a_run_of_odd_length(shape, height, apart):
    """Lanes are along rows: Triton finds none adjacent by a remainder of an odd number."""
    f = Function("main", shape)
    x = f.argument(range(4), "f32")
    text = f.finish(f.apply("arith.divf", x, f.reduce("arith.addf", x, (1,))))
    with ir.Context():
        _, (plan,) = planned(text, "rows")
        source = plan.program.source
        assert ("row_inner" in source) == apart
        ctas = plan.grid[0].count(())
    if apart:
        assert f"tl.arange(0, {height})" in source
        assert ctas == shape[0] * -(-shape[2] * shape[3] // height)
        assert "row % " not in source


@pytest.mark.parametrize(("columns", "run"), [(5, 936), (16, 8), (5, 1), (7, 1)])
@pytest.mark.parametrize("rows", [8, 217152, 1 << 24])
def test_threads_reduce_few_columns_alone(rows, columns, run):
    problem = ReductionProblem(rows, columns, "arith.maximumf", 1, 0, contiguous_rows=run)
    config, gpu = heuristics.default_config(problem, TARGET), TARGET.gpu
    assert config.block_columns == 1
    threads = config.num_warps * gpu.warp_size
    assert threads * config.elements_per_thread == config.block_rows
    ctas = -(-rows // config.block_rows)
    assert ctas >= gpu.num_sms or config.num_warps == 1
    assert config.elements_per_thread == 1 or 2 * ctas * threads >= gpu.num_sms * 2048


@pytest.mark.parametrize(
    ("rows", "columns", "run", "writes"),
    [
        (30000, 17, 936, 0),
        (217152, 65, 936, 0),
        (217152, 8, 1, 0),
        (217152, 9, 936, 1),
        (217152, 5, 1, 1),
    ],
)
def test_other_rows_are_not_unrolled(rows, columns, run, writes):
    problem = ReductionProblem(rows, columns, "arith.maximumf", 1, writes, contiguous_rows=run)
    assert heuristics.default_config(problem, TARGET).block_columns != 1


@pytest.mark.parametrize("columns", [17, 64])
def test_a_thread_of_many_rows_reduces_more_columns_of_two(columns):
    problem = ReductionProblem(217152, columns, "arith.addf", 1, 0, contiguous_rows=936)
    config = heuristics.default_config(problem, TARGET)
    assert (config.block_rows, config.block_columns, config.num_warps) == (64, 1, 1)


@needs_triton
@pytest.mark.parametrize(("shape", "axis"), [((32, 5, 117, 8), 1), ((3000, 5), 1)])
def test_object_code_of_few_columns(shape, axis):
    """A load of each column, which both reductions read, and no exchange between threads."""
    f = Function("main", shape)
    x = f.argument(range(len(shape)), "f32")
    highest = f.reduce("arith.maximumf", x, (axis,), float("-inf"))
    text = f.finish(f.reduce("arith.addf", f.apply("arith.subf", x, highest), (axis,)))
    with ir.Context():
        _, (plan,) = planned(text, "rows")
        code = triton_compiler.build(plan.program, "sm_90").code.decode()
    assert code.count("ld.global") == 5
    assert "shfl" not in code
    assert "bar.sync" not in code
