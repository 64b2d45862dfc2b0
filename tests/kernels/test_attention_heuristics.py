"""Configurations of attention kernels that are computed from the problem and the GPU."""

import dataclasses
import json
from importlib import resources

import pytest
from iree.compiler import ir

from helpers.attention_text import write
from helpers.kernel_runner import KERNEL_PASSES
from mlirfuse import targets
from mlirfuse.kernels import triton_compiler
from mlirfuse.kernels.attention import heuristics
from mlirfuse.kernels.attention.family import ATTENTION
from mlirfuse.kernels.attention.problem import (
    OVERLAPPED_SM90,
    PORTABLE,
    WARP_SPECIALIZED_SM90,
    AttentionConfig,
    AttentionProblem,
)
from mlirfuse.kernels.attention.sizes import AttentionSizes
from mlirfuse.options import FusionOptions
from mlirfuse.pipelines import engine
from mlirfuse.tuning import kernel_search

HOPPER, AMPERE = targets.parse("cuda:sm_90"), targets.parse("cuda:sm_80")
MI300 = targets.parse("rocm:gfx942")


def sizes(queries, keys, heads, *, dynamic_batch=False):
    return AttentionSizes(128, 128, keys, queries, heads, dynamic_batch)


@pytest.mark.parametrize(
    ("problem", "target", "kernel"),
    [
        (AttentionProblem(1024, 1024, 128, 32), HOPPER, WARP_SPECIALIZED_SM90),
        (AttentionProblem(64, 1024, 128, 32), HOPPER, OVERLAPPED_SM90),
        (AttentionProblem(1024, 1024, 64, 32, "causal"), HOPPER, OVERLAPPED_SM90),
        (AttentionProblem(40, 1024, 64, 32), HOPPER, PORTABLE),
        (AttentionProblem(1024, 1024, 96, 32), HOPPER, WARP_SPECIALIZED_SM90),
        (AttentionProblem(1024, 1024, 40, 32), HOPPER, OVERLAPPED_SM90),
        (AttentionProblem(1024, 1024, 100, 32), HOPPER, PORTABLE),
        (AttentionProblem(1024, 1024, 128, 32, "general"), HOPPER, PORTABLE),
        (AttentionProblem(1024, 1024, 128, 32), AMPERE, PORTABLE),
        (AttentionProblem(1024, 1024, 128, 32), MI300, PORTABLE),
    ],
)
def test_default_kernel(problem, target, kernel):
    assert ATTENTION.default_config(problem, target).kernel == kernel


@pytest.mark.parametrize(
    ("problem", "first"),
    [
        (AttentionProblem(2154, 2154, 80, 16, "causal"), True),
        (AttentionProblem(2154, 2154, 64, 16, "causal"), True),
        (AttentionProblem(2154, 2154, 64, 16), False),
        # Keys and values of 134 MB.
        (AttentionProblem(8192, 8192, 128, 32, "causal"), False),
    ],
)
def test_tiles_of_most_keys_start_first(problem, first):
    """Those of all heads, where the L2 holds their keys and values."""
    assert ATTENTION.default_config(problem, HOPPER).heads_first == first


@pytest.mark.parametrize(
    ("problem", "tile"),
    [
        (AttentionProblem(1024, 1024, 64, 1, operand_bits=32), (16, 64)),
        (AttentionProblem(1024, 1024, 64, 2, operand_bits=32), (32, 64)),
        (AttentionProblem(1024, 1024, 128, 12, "causal", operand_bits=32), (16, 64)),
        (AttentionProblem(200, 200, 80, 64, operand_bits=32), (128, 32)),
        (AttentionProblem(4096, 4096, 64, 64, operand_bits=32), (64, 64)),
    ],
)
def test_few_queries_of_f32_have_small_tiles(problem, tile):
    config = ATTENTION.default_config(problem, HOPPER)
    assert (config.block_m, config.block_n) == tile


@pytest.mark.parametrize(
    ("queries", "head_size", "target", "config"),
    [
        (1024, 128, HOPPER, AttentionConfig(64, 64, 4, 2)),
        (1024, 256, HOPPER, AttentionConfig(128, 64, 8, 2)),
        (64, 256, HOPPER, AttentionConfig(64, 64, 4, 2)),
        (1024, 64, AMPERE, AttentionConfig(64, 64, 4, 3)),
        (1024, 128, AMPERE, AttentionConfig(64, 64, 4, 2)),
        (1, 128, AMPERE, AttentionConfig(16, 64, 4, 3)),
        (1024, 64, MI300, AttentionConfig(64, 64, 4, 2)),
        (1024, 256, MI300, AttentionConfig(64, 32, 4, 2)),
        (1024, 256, targets.parse("cuda:sm_89"), AttentionConfig(64, 32, 4, 2)),
        (17, 64, HOPPER, AttentionConfig(32, 64, 4, 3)),
    ],
)
def test_default_of_the_portable_kernel(queries, head_size, target, config):
    """Two CTAs share an SM where two stages allow it; else one has twice the queries, if it can."""
    problem = AttentionProblem(queries, 1024, head_size, 32, "general")
    assert ATTENTION.default_config(problem, target) == config


@pytest.mark.parametrize(("heads", "stages"), [(2, 2), (4, 3), (5, 2), (64, 2)])
def test_tiles_that_no_other_one_shares_an_sm_with_have_all_stages(heads, stages):
    """Of fewer heads the keys are split, of more two tiles share an SM."""
    problem = AttentionProblem(2048, 2048, 128, heads, mask="general", operand_bits=16)
    assert heuristics.portable_config(problem, HOPPER).num_stages == stages


@pytest.mark.parametrize(
    ("problem", "small"),
    [
        (AttentionProblem(358, 358, 256, 1), True),
        (AttentionProblem(358, 358, 64, 1), False),
        (AttentionProblem(358, 358, 64, 1, operand_bits=32), True),
        (AttentionProblem(300, 300, 128, 3), False),
        (AttentionProblem(478, 478, 128, 1, "causal"), True),
        (AttentionProblem(64, 8192, 128, 1), True),  # 16 splits of 8 blocks each
        (AttentionProblem(80, 8192, 128, 4), False),
    ],
)
def test_few_tiles_have_the_fewest_queries(problem, small):
    """Each block of keys of each such tile has a CTA, all of which the device holds at a time."""
    config = heuristics.portable_config(problem, HOPPER)
    assert heuristics.is_small(problem, HOPPER) == small
    assert (config.block_m == 16) == small
    given = sizes(problem.queries, problem.keys, problem.heads)
    splits = heuristics.num_kv_splits(given, config.block_m, problem.mask == "causal", HOPPER)
    blocks = -(-problem.keys // 64)
    if small and problem.mask != "causal":
        assert splits == min(blocks, heuristics.max_resident_ctas(HOPPER) // 4, 64)


def test_small_tiles_of_long_heads_fit_shared_memory():
    problem = AttentionProblem(100, 300, 1024, 1)
    config = heuristics.portable_config(problem, HOPPER)
    assert heuristics.is_small(problem, HOPPER)
    assert config.block_n < 64
    assert heuristics.shared_memory(problem, config, HOPPER) <= HOPPER.gpu.shared_memory_per_cta


def test_shared_memory_is_that_of_triton():
    """Bytes that Triton 3.9 reports for f16."""
    problem = AttentionProblem(4096, 4096, 128, 32, "causal")
    assert heuristics.shared_memory(problem, AttentionConfig(64, 64, 4, 3), AMPERE) == 90112
    assert heuristics.shared_memory(problem, AttentionConfig(16, 64, 4, 3), HOPPER) == 71680
    assert heuristics.shared_memory(problem, AttentionConfig(64, 64, 4, 2), MI300) == 40960
    assert heuristics.shared_memory(problem, AttentionConfig(64, 64, 4, 2), HOPPER) == 81920
    masked = dataclasses.replace(problem, head_size=80, mask="general")
    assert heuristics.shared_memory(masked, AttentionConfig(64, 64, 4, 3), HOPPER) == 131072
    assert heuristics.shared_memory(masked, AttentionConfig(128, 64, 8, 3), HOPPER) == 163840


@pytest.mark.parametrize(("target", "splits"), [(HOPPER, 264), (AMPERE, 216), (MI300, 608)])
def test_splits_of_one_tile_fill_the_device_twice(target, splits):
    assert heuristics.num_kv_splits(sizes(1, 1 << 20, 1), 16, False, target) == splits
    unknown = dataclasses.replace(target, gpu=None)
    assert heuristics.num_kv_splits(sizes(1, 1 << 20, 1), 16, False, unknown) == 128


def test_keys_are_split_where_tiles_leave_sms_idle():
    def splits(given, causal=False):
        return heuristics.num_kv_splits(given, 64, causal, HOPPER)

    assert splits(sizes(1, 8192, 64)) == 4
    assert splits(sizes(1, 8192, 132)) == 2
    assert splits(sizes(1, 8192, 133)) == 1
    assert splits(sizes(64, 8192, 98)) == 2
    assert splits(sizes(64, 8192, 99)) == 1
    assert splits(sizes(64, 8192, 64), causal=True) == 1
    # A split has 256 keys, at least; one of few queries a block, where few are merged.
    assert splits(sizes(64, 600, 1)) == 2
    assert splits(sizes(64, 500, 1)) == 1
    assert splits(sizes(1, 600, 1)) == 10
    assert splits(sizes(1, 392, 1)) == 7
    assert splits(sizes(1, 2048, 1)) == 16
    assert splits(sizes(1, 8192, 1)) == 64
    assert splits(sizes(1, 64, 1)) == 1
    # Sizes that are known at run time: unknown queries are many, an unknown batch may be one.
    assert splits(sizes(None, 8192, 1)) == 1
    assert splits(sizes(1, None, 8)) == 33
    assert splits(sizes(1, 8192, 8, dynamic_batch=True)) == 33
    assert splits(sizes(64, 8192, 16, dynamic_batch=True)) == 1


@pytest.mark.parametrize("target", [HOPPER, AMPERE, MI300], ids=str)
@pytest.mark.parametrize("head_size", [32, 64, 128, 256])
@pytest.mark.parametrize("queries", [1, 1024])
@pytest.mark.parametrize("mask", ["none", "causal", "general"])
def test_measured_configs_fit_the_gpu(target, head_size, queries, mask):
    problem = AttentionProblem(queries, 1024, head_size, 32, mask)
    configs = ATTENTION.configs(problem, target)
    assert configs
    assert len(configs) == len(set(configs))
    for config in configs:
        if config.kernel == PORTABLE:
            used = heuristics.shared_memory(problem, config, target)
            assert used <= target.gpu.shared_memory_per_cta
    for_sm90 = target is HOPPER and head_size > 32 and queries > 1 and mask != "general"
    assert any(config.kernel != PORTABLE for config in configs) == for_sm90


def test_search_space_has_the_measured_configs():
    file = resources.files("mlirfuse.kernels.configs").joinpath("cuda_sm_90.json")
    entries = [e for e in json.loads(file.read_text())["configs"] if e["family"] == "attention"]
    entries = [entry for entry in entries if entry["config"] is not None]
    assert entries
    for entry in entries:
        problem = AttentionProblem.from_dict(entry["problem"])
        config = AttentionConfig.from_dict(entry["config"])
        assert config in ATTENTION.configs(problem, HOPPER)


def test_keys_that_the_portable_kernel_would_not_split_keep_the_kernel_of_hopper(monkeypatch):
    """96 tiles of 128 queries leave SMs idle, but the portable kernel's 192 of 64 would not."""
    monkeypatch.setattr(triton_compiler, "has_gluon", lambda: True)
    monkeypatch.setattr(triton_compiler, "missing", lambda: None)
    text, _ = write("main", (2, 6, 1, 1024, 128, 128, 1024), dtype="f16")
    options = FusionOptions(enable_feature=("kernels",), disable_pass=KERNEL_PASSES)
    with ir.Context():
        grouped, _ = engine.run(ir.Module.parse(text), target=HOPPER, options=options)
        (region,) = kernel_search.regions(grouped)
        assert ATTENTION.problem(region, HOPPER) == AttentionProblem(1024, 1024, 128, 12)
        plan = ATTENTION.plan(region, HOPPER)
        assert "attention_warp_specialized_sm90.attention(" in plan.program.source
        assert plan.grid[0].count(()) == 96
