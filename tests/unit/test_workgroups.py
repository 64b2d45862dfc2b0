"""How kernels for CPUs divide work among workgroups."""

import dataclasses
import re

import pytest
from iree.compiler import ir

from mlirfuse import targets
from mlirfuse.kernels.vector.workgroups import MANY_RESERVATIONS, RESERVED, merged
from mlirfuse.options import FusionOptions
from mlirfuse.pipelines import engine

HOST = targets.parse("cpu:znver5")
TWO_CORES = dataclasses.replace(
    HOST,
    cpu=dataclasses.replace(HOST.cpu, cores=2, l2_bytes=1 << 20, l3_bytes=32 << 20),
)
MATMUL = """
util.global private @w : tensor<{k}x{n}xf32>
util.func public @f(%x: tensor<{m}x{k}xf32>) -> tensor<{m}x{n}xf32> {{
  %zero = arith.constant 0.0 : f32
  %w = util.global.load immutable @w : tensor<{k}x{n}xf32>
  %e = tensor.empty() : tensor<{m}x{n}xf32>
  %i = linalg.fill ins(%zero : f32) outs(%e : tensor<{m}x{n}xf32>) -> tensor<{m}x{n}xf32>
  %y = linalg.matmul ins(%x, %w : tensor<{m}x{k}xf32>, tensor<{k}x{n}xf32>)
      outs(%i : tensor<{m}x{n}xf32>) -> tensor<{m}x{n}xf32>
  util.return %y : tensor<{m}x{n}xf32>
}}
"""


@pytest.mark.parametrize("count", [*range(1, 80), 118, 200, 235, 256, 1000])
def test_merged_workgroups_end_together(count):
    """Where some are merged, IREE hands them out singly, and two cores have as much as can be."""
    cores, taken = TWO_CORES.cpu.cores, merged(count, TWO_CORES.cpu)
    if count < cores * RESERVED:
        assert taken == 1
        return
    workgroups = -(-count // taken)
    at_once = RESERVED if workgroups >= cores * RESERVED else 1
    assert at_once == 1 or count >= cores * RESERVED * MANY_RESERVATIONS
    busiest = -(-workgroups // (at_once * cores)) * at_once * taken
    assert busiest <= max(-(-count // cores) + 2, 1.03 * count / cores)


@pytest.mark.parametrize(
    ("sizes", "blocks"),
    [
        ((128, 2816, 1024), 1),  # weights of 11 MB are read once
        ((2048, 1024, 1024), 5),  # 1024 pages, of which each row touches two
        ((8192, 256, 64), 33),  # the second cache holds the weights
    ],
)
def test_blocks_of_rows(sizes, blocks):
    """Weights that no cache of a core holds are read for each block, so there are few blocks."""
    m, n, k = sizes
    with ir.Context():
        grouped, _ = engine.run(
            ir.Module.parse(MATMUL.format(m=m, n=n, k=k)),
            target=TWO_CORES,
            options=FusionOptions(single_op_groups=True),
        )
        text = grouped.operation.get_asm(large_elements_limit=8)
    (count,) = re.findall(r"hal\.return (.*), (.*), .* : index", text)
    assert count[1].removeprefix("%c").partition("_")[0] == str(blocks)
