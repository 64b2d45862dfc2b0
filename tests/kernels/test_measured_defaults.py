"""Computed configurations are those that were the fastest where they were measured, on an H200."""

import dataclasses

import pytest

from mlirfuse import targets
from mlirfuse.kernels.attention import heuristics as attention
from mlirfuse.kernels.attention.problem import AttentionProblem
from mlirfuse.kernels.convolution import heuristics as convolution
from mlirfuse.kernels.convolution.problem import ConvolutionProblem
from mlirfuse.kernels.matmul import heuristics as matmul
from mlirfuse.kernels.matmul.problem import MatmulProblem
from mlirfuse.kernels.pooling import heuristics as pooling
from mlirfuse.kernels.pooling.problem import PoolingProblem
from mlirfuse.kernels.recurrence import heuristics as recurrence
from mlirfuse.kernels.recurrence.problem import RecurrenceProblem
from mlirfuse.kernels.reduction import heuristics as reduction
from mlirfuse.kernels.reduction.problem import ReductionProblem
from mlirfuse.kernels.scan import heuristics as scan
from mlirfuse.kernels.scan.problem import ScanProblem
from mlirfuse.kernels.sort import heuristics as sort
from mlirfuse.kernels.sort.problem import SortProblem

HOPPER = targets.parse("cuda:sm_90")


def f32(m, n, k, **others):
    return MatmulProblem(m, n, k, 1, operand_bits=32, **others)


@pytest.mark.parametrize(
    ("problem", "tile"),
    [
        # A few tiles that have an SM each: latency of blocks of K, and idle lanes.
        (f32(368, 17, 186), (16, 32, 64, 4)),
        (f32(17, 5031, 784, b_k_contiguous=False), (32, 64, 64, 4)),
        (f32(64, 4032, 770, b_k_contiguous=False), (32, 64, 64, 4)),
        (f32(256, 832, 280), (64, 32, 64, 4)),
        # Blocks of 64 would be 128 of K.
        (f32(844, 1664, 84, epilogue=54), (64, 64, 32, 4)),
    ],
)
def test_matmuls_of_f32(problem, tile):
    found = matmul.default_config(problem, HOPPER)
    assert (found.block_m, found.block_n, found.block_k, found.num_warps) == tile


@pytest.mark.parametrize(
    ("problem", "tile"),
    [
        (MatmulProblem(16, 155, 401, 133, operand_bits=32, b_k_contiguous=False), (64, 32)),
        (f32(4, 3001, 777, b_k_contiguous=False), (64, 32)),
        (f32(14, 11077, 14777, b_k_contiguous=False), (128, 64)),
        (f32(5, 4096, 4096, b_k_contiguous=False), (128, 64)),
    ],
)
def test_a_small_m_with_narrow_loads_has_short_blocks(problem, tile):
    found = matmul.default_config(problem, HOPPER)
    assert (found.block_n, found.block_k) == tile


@pytest.mark.parametrize(
    ("sizes", "epilogue", "tiles"),
    [
        ((512, 1080, 1080), 21, {(128, 64), (64, 128)}),
        ((2160, 1024, 256), 21, {(64, 128), (128, 64)}),
        ((512, 2712, 768), 21, {(128, 128)}),
        ((1000, 1000, 1000), 0, {(64, 128), (128, 64)}),
        ((246, 768, 768), 0, {(64, 32)}),
        ((73, 1536, 768), 21, {(64, 32)}),
        ((800, 400, 2000), 21, {(64, 64)}),
    ],
)
def test_small_matmuls_are_bound_by_the_l2_cache(sizes, epilogue, tiles):
    """Small tiles load more; those of one round of CTAs start once."""
    problem = MatmulProblem(*sizes, 1, epilogue=epilogue, wide_epilogue=epilogue > 0)
    found = matmul.default_config(problem, HOPPER)
    assert (found.block_m, found.block_n) in tiles


@pytest.mark.parametrize(
    ("sizes", "warps"),
    [((745, 512, 4096, 2), 8), ((512, 1080, 1080, 1), 8), ((2160, 1024, 256, 1), 4)],
)
def test_two_warpgroups_compute_the_epilogue_of_a_lone_cta(sizes, warps):
    problem = MatmulProblem(*sizes, epilogue=30, wide_epilogue=True)
    assert matmul.default_config(problem, HOPPER).num_warps == warps


def test_few_warps_scan_a_block_with_many_masked_columns():
    found = [scan.choose_config(ScanProblem(9000, n, 1), HOPPER) for n in (1100, 2048)]
    assert [config.num_warps for config in found] == [2, 4]
    assert {config.block_columns for config in found} == {2048}


@pytest.mark.parametrize(
    ("rows", "columns", "combiners", "block"),
    [
        (2000, 17664, "arith.maximumf", 4096),
        (8000, 5504, "arith.maximumf", 2048),
        (2000, 16384, "arith.maximumf", 0),  # no masked lanes
        (16000, 1400, "arith.addf", 0),
        (3000, 9000, "arith.maximumf arith.minimumf", 0),  # positions
        (100, 17664, "arith.maximumf", 0),  # too few rows
    ],
)
def test_loops_read_rows_that_would_leave_lanes_idle(rows, columns, combiners, block):
    """Numbers alone are left of them."""
    problem = ReductionProblem(rows, columns, combiners, 1, 0)
    assert reduction.choose_config(problem, HOPPER).block_columns == block


def test_tiles_of_a_short_k_have_few_accumulators():
    """And fewer where each element of the result is an access of its own."""

    def each(n, k):
        problem = MatmulProblem(3392, n, k, 2)
        found = matmul.default_config(problem, HOPPER)
        return found.block_m * found.block_n // (32 * found.num_warps)

    assert each(1651, 16) <= 32
    assert each(1664, 16) <= 64
    assert each(1664, 64) <= 64


@pytest.mark.parametrize(
    ("problem", "tile"),
    [
        (ConvolutionProblem(216, 128, 11, 27, k_contiguous=False, operand_bits=32), (16, 32, 64)),
        (ConvolutionProblem(8192, 8, 64, 25, operand_bits=32), (128, 16, 64)),
    ],
)
def test_small_convolutions_of_f32(problem, tile):
    found = convolution.default_config(problem, HOPPER)
    assert (found.block_m, found.block_n, found.block_k) == tile


def test_masked_channels_of_a_block_count():
    """The second of two blocks of 64 channels would have 17 of 81, for each tap."""
    problem = ConvolutionProblem(2048, 42, 81, 49, False, False, operand_bits=32)
    assert convolution.default_config(problem, HOPPER, classes=4).block_k == 32


def test_dependent_sums_of_few_short_rows_have_many_threads():
    divergence = ReductionProblem(
        360, 320, "arith.addf arith.maximumf", 2, 0, operand_bits=32, passes=2
    )
    found = reduction.default_config(divergence, HOPPER)
    assert (found.tile_elements, found.elements_per_thread) == (512, 4)


def test_columns_of_many_rows_are_split_often():
    """Where each part is long; elsewhere the partial results take longer."""
    squares = ReductionProblem(69, 1358875, "arith.addf", 1, 0, contiguous_rows=69, operand_bits=32)
    found = reduction.choose_config(squares, HOPPER)
    assert found.splits * -(-69 // found.block_rows) >= 1024
    short = dataclasses.replace(squares, rows=64, columns=9749, contiguous_rows=64)
    assert reduction.choose_config(short, HOPPER).splits <= 512
    variance = dataclasses.replace(short, combiners="arith.addf arith.addf")
    assert reduction.choose_config(variance, HOPPER).splits <= 128


def test_threads_reduce_few_values_alone():
    """Each tensor and each reduction counts."""
    mean = ReductionProblem(
        1122880, 48, "arith.addf", 1, 0, contiguous_rows=280720, operand_bits=16
    )
    assert reduction.choose_config(mean, HOPPER).block_columns == 1
    deviation = dataclasses.replace(mean, columns=24, reads=2, combiners="arith.addf arith.addf")
    assert reduction.choose_config(deviation, HOPPER).block_columns != 1


@pytest.mark.parametrize(("bits", "rows"), [(32, 32), (16, 64)])
def test_contiguous_rows_of_a_tile_are_a_line(bits, rows):
    problem = ReductionProblem(
        640, 4000, "arith.addf arith.maximumf", 2, 1, contiguous_rows=640, operand_bits=bits
    )
    assert reduction.choose_config(problem, HOPPER).block_rows == rows


@pytest.mark.parametrize(("stride", "each", "warps"), [(3481869, 2, 8), (3481872, 4, 4)])
def test_threads_have_few_rows_where_columns_are_not_aligned(stride, each, warps):
    problem = ReductionProblem(
        stride, 8, "arith.ori", 2, 0, contiguous_rows=stride, operand_bits=32
    )
    found = reduction.choose_config(problem, HOPPER)
    assert (found.elements_per_thread, found.num_warps) == (each, warps)


@pytest.mark.parametrize(
    ("rows", "columns", "bits", "tile"),
    [(134016, 384, 16, 1024), (60000, 768, 16, 1024), (2000, 768, 16, 1024), (9216, 261, 32, 1024)],
)
def test_rows(rows, columns, bits, tile):
    """Many rows have few threads in a CTA; rows of one warp share it beyond a full device."""
    problem = ReductionProblem(rows, columns, "arith.addf arith.addf", 1, 1, operand_bits=bits)
    found = reduction.default_config(problem, HOPPER)
    assert found.tile_elements == tile
    each = {134016: 16, 60000: 16, 2000: 8, 9216: 32}
    assert found.elements_per_thread == each[rows]


@pytest.mark.parametrize(
    ("columns", "run", "bits", "tile"),
    [
        (14, 2, 32, (32, 2)),
        (100, 3, 32, (8, 2)),
        (8, 2, 32, (64, 2)),
        (30, 5, 16, (16, 4)),
        (6, 3, 16, (64, 4)),
        (24, 8, 16, (32, 1)),
        (24, 16, 16, (32, 1)),
        (60, 4, 32, (16, 1)),
    ],
)
def test_written_rows_of_short_runs_have_small_tiles(columns, run, bits, tile):
    """Of one warp where a load has vectors of a run, and of more where it has not."""
    problem = ReductionProblem(
        200000, columns, "arith.addf arith.maximumf", 1, 1, contiguous_rows=run, operand_bits=bits
    )
    found = reduction.choose_config(problem, HOPPER)
    assert (found.block_rows, found.num_warps) == tile
    assert not found.block_columns
    longer = dataclasses.replace(problem, contiguous_rows=1000)
    assert reduction.choose_config(longer, HOPPER).block_rows > tile[0]


@pytest.mark.parametrize(("columns", "run"), [(3, 2), (4, 8)])
def test_threads_have_few_written_columns_alone(columns, run):
    problem = ReductionProblem(
        800000, columns, "arith.addf", 1, 1, contiguous_rows=run, operand_bits=16
    )
    assert reduction.choose_config(problem, HOPPER).block_columns == 1


def test_numbers_of_rows_that_fill_the_device_are_for_loops():
    problem = ReductionProblem(
        196352, 637, "arith.addf", 1, 0, contiguous_rows=196352, operand_bits=32
    )
    found = reduction.choose_config(problem, HOPPER)
    assert found.block_columns
    assert found.splits == 1
    for others in ({"rows": 1072, "columns": 788}, {"writes": 1}):
        few = dataclasses.replace(problem, contiguous_rows=1072, **others)
        assert not reduction.choose_config(few, HOPPER).block_columns


@pytest.mark.parametrize(("rows", "columns"), [(864, 116224), (512, 65536), (2400, 32768)])
def test_many_long_rows_of_many_instructions_are_for_loops(rows, columns):
    problem = ReductionProblem(rows, columns, "arith.addf arith.addf", 1, 1, passes=2)
    assert not reduction.choose_config(problem, HOPPER).block_columns
    heavy = dataclasses.replace(problem, heavy=True)
    assert reduction.choose_config(heavy, HOPPER).block_columns
    few = dataclasses.replace(heavy, rows=256)
    assert not reduction.choose_config(few, HOPPER).block_columns


def test_short_rows_of_few_ctas_have_small_tiles():
    problem = ReductionProblem(6272, 43, "arith.addf arith.addf", 1, 0, operand_bits=32)
    assert reduction.default_config(problem, HOPPER).tile_elements == 512
    many = dataclasses.replace(problem, rows=1 << 20)
    assert reduction.default_config(many, HOPPER).tile_elements == 2048


@pytest.mark.parametrize(
    ("rows", "columns", "lanes", "warps"),
    [
        (45680, 593, 2, 1),
        (191688, 75, 8, 1),
        (60000, 300, 2, 1),
        (8000, 2000, 1, 4),
        (500, 593, 1, 2),
    ],
)
def test_one_warp_scans_short_rows(rows, columns, lanes, warps):
    found = scan.default_config(ScanProblem(rows, columns), HOPPER)
    assert (found.block_lanes, found.num_warps) == (lanes, warps)


@pytest.mark.parametrize(("bits", "each"), [(32, 2), (16, 4)])
def test_poolings_that_load_single_elements_store_eight_bytes(bits, each):
    problem = PoolingProblem(251904, 82, "3x3", strided_columns=True, element_bits=bits)
    found = pooling.default_config(problem, HOPPER)
    assert found.tile_elements // (32 * found.num_warps) == each


@pytest.mark.parametrize(
    ("rows", "columns", "bits", "config"),
    [
        (80, 4021, 16, (1, 512)),
        (80, 4021, 32, (1, 512)),
        (500, 2000, 32, (1, 1024)),
        (2000, 1000, 32, (1, 0)),
        (64, 1000, 32, (8, 0)),
        (5000, 300, 16, (1, 0)),
        (256, 500, 16, (8, 0)),
    ],
)
def test_one_warp_sorts_a_row_or_a_chunk(rows, columns, bits, config):
    """Unless there are few of them."""
    found = sort.default_config(SortProblem(rows, columns, columns, bits), HOPPER)
    assert (found.num_warps, found.chunk_columns) == config


def test_heads_of_64_without_a_mask_have_long_blocks_of_keys():
    plain = AttentionProblem(2048, 2048, 64, 4)
    assert attention.default_config(plain, HOPPER).block_n == 128
    masked = dataclasses.replace(plain, mask="general")
    assert attention.default_config(masked, HOPPER).block_n == 64


def test_keys_are_split_where_small_tiles_of_f32_are_too_many():
    """Unless the mask is causal, whose keys are not split."""
    many = AttentionProblem(2117, 2117, 96, 2, operand_bits=32)
    assert attention.portable_config(many, HOPPER).block_m == 128
    few = dataclasses.replace(many, queries=2000)
    assert attention.portable_config(few, HOPPER).block_m == 16
    causal = dataclasses.replace(many, mask="causal")
    assert attention.portable_config(causal, HOPPER).block_m == 16


def test_wide_heads_have_two_warpgroups():
    wide = AttentionProblem(2048, 1016, 256, 64)
    assert attention.portable_config(wide, HOPPER).num_warps == 8
    few = dataclasses.replace(wide, queries=64)
    assert attention.portable_config(few, HOPPER).num_warps == 4


@pytest.mark.parametrize(
    ("rows", "columns", "products", "config"),
    [
        (64, 59, 4, (64, 64, 4)),
        (2, 256, 3, (8, 256, 4)),
        (1, 1024, 3, (16, 1024, 16)),
        # A thread receives a part of K: parts have an element for each.
        (1, 417, 3, (8, 512, 4)),
        (8, 704, 1, (16, 256, 4)),
        # The CTAs of all rows run at a time.
        (32, 256, 4, (16, 256, 4)),
        # Weights in caches: of rows for most SMs, and of more than registers hold.
        (100, 128, 4, (128, 32, 4)),
        (1, 1024, 4, (16, 128, 8)),
    ],
)
def test_recurrences_of_few_rows_have_the_fewest_warps_that_hold_the_weights(
    rows, columns, products, config
):
    problem = RecurrenceProblem(rows, columns, columns, products, operand_bits=32)
    found = recurrence.default_config(problem, HOPPER)
    assert found.block_rows == 1
    assert (found.block_columns, found.block_k, found.num_warps) == config


@pytest.mark.parametrize(
    ("problem", "config"),
    [
        (ScanProblem(1, 2048, 1208, 32), (32, 32, 2, 28)),
        (ScanProblem(8, 3000, 128, 16), (32, 64, 2, 47)),
    ],
)
def test_scans_along_rows_have_short_blocks_of_two_warps(problem, config):
    found = scan.default_config(problem, HOPPER)
    assert dataclasses.astuple(found)[:4] == config


@pytest.mark.parametrize(
    ("columns", "bits", "reads", "tile"),
    [(325, 16, 2, 1024), (325, 16, 1, 2048), (336, 16, 2, 2048), (251, 32, 2, 1024)],
)
def test_sums_of_two_unaligned_tensors_have_fewer_threads(columns, bits, reads, tile):
    problem = ReductionProblem(15276, columns, "arith.addf", reads, 0, operand_bits=bits)
    assert reduction.default_config(problem, HOPPER).tile_elements == tile


@pytest.mark.parametrize(
    ("rows", "columns", "block"),
    [(712, 6419, (1024, 1, 4)), (2000, 6419, (512, 2, 2)), (2000, 3000, (4096, 1, 4))],
)
def test_few_long_rows_are_scanned_by_more_warps(rows, columns, block):
    found = scan.default_config(ScanProblem(rows, columns), HOPPER)
    assert (found.block_columns, found.block_lanes, found.num_warps) == block
    assert found.segments == 1


@pytest.mark.parametrize(
    ("columns", "inner", "lanes", "warps", "split"),
    [
        (558, 17024, 16, 1, False),
        (600, 9000, 16, 2, False),
        (2048, 1208, 32, 2, True),
        (558, 40000, 32, 2, False),
    ],
)
def test_strided_scans_of_half_lines_are_not_split(columns, inner, lanes, warps, split):
    found = scan.default_config(ScanProblem(1, columns, inner), HOPPER)
    assert (found.block_lanes, found.num_warps) == (lanes, warps)
    assert (found.segments > 1) == split
