"""Products whose terms the workgroups of a cluster share, and products of one row."""

import numpy as np
import pytest
import test_kernels
from iree.compiler import ir
from test_kernels import close, draw, needs_triton, product_text, run
from test_kernels_convolution import Conv, conv_text

from mlirfuse import targets
from mlirfuse.kernels import building, convolution, matmul
from mlirfuse.kernels.matmul import Tiling
from mlirfuse.kernels.provider import Plan
from mlirfuse.options import FusionOptions
from mlirfuse.pipelines import engine
from mlirfuse.structured import ops

interpreter = test_kernels.interpreter
SM_90 = targets.parse("cuda:sm_90")
SPLIT = Tiling(16, 64, 64, 4, 3, split=4)


def product(depth, rows=16, kind="f16"):
    return product_text((1, rows, 128, depth), (1, 3), (2, 3), (1, 2), kind, (1, 2))


def plan(text, supports, tiling, target=SM_90):
    """The plan of a module's only group."""
    options = FusionOptions(
        enable_feature=("kernels",),
        disable_pass=test_kernels.KERNEL_PASSES,
        single_op_groups=True,
    )
    grouped, _ = engine.run(ir.Module.parse(text), target=target, options=options)
    (region,) = [
        view.operation
        for function in ops.functions(grouped)
        for block in ops.blocks(function)
        for view in block.operations
        if view.operation.name == ops.REGION
    ]
    found = supports(region, target, tiling)
    assert isinstance(found, Plan), found
    return found


@needs_triton
def test_the_terms_are_shared_and_the_first_rank_stores():
    with ir.Context():
        found = plan(product(512), matmul.supports, SPLIT)
        lines = found.program.source.splitlines()
        kernel = building.build(found.program, "sm_90")
    rank = next(n for n, line in enumerate(lines) if line == "    rank = tl.program_id(0) % 4")
    assert "library.tile_of(tl.program_id(0) // 4, " in lines[rank + 1]
    total = next(line for line in lines if "library.product(" in line)
    assert total.count(" + rank * 128 * 1") == 2
    assert ", 128, 64, 16, 64, tl.float32)" in total
    combined = lines.index('    total0 = cluster.combined(total0, "sum", 4, 128, 8)')
    assert lines[combined + 1] == "    if rank == 0:"
    assert all(line.startswith("        ") for line in lines[combined + 2 :])
    assert sum("tl.store(" in line for line in lines[combined:]) == 1
    assert (found.program.cluster, found.grid[0].repeat) == (4, 2 * 4)
    text = kernel.code.decode()
    assert ".reqntid 128\n.reqnctapercluster 4\n" in text
    assert text.count("barrier.cluster.wait") == 2
    assert "mapa.shared::cluster.u32 there, here, 3;" in text


@needs_triton
def test_large_tiles_are_exchanged_in_parts():
    """128 numbers of 256 threads are four times what is exchanged at a time."""
    case = Conv(2, 16, 16, 64, 256, low=1, high=1)
    with ir.Context():
        found = plan(conv_text(case), convolution.supports, Tiling(128, 256, 64, 8, 3, split=4))
        kernel = building.build(found.program, "sm_90")
    # Nine steps: the last workgroup has none, and adds zeros.
    assert "for step in range(rank * 3, tl.minimum(rank * 3 + 3, 9)):" in found.program.source
    assert (found.program.cluster, found.grid[0].repeat) == (4, 4)
    text = kernel.code.decode()
    assert ".shared .align 16 .b8 exchanged[32768];" in text
    assert text.count("barrier.cluster.wait") == 8
    assert kernel.workgroup_memory == kernel.shared_memory + 32768


@pytest.mark.parametrize(
    ("depth", "kind", "target", "ranks"),
    [
        (512, "f16", "cuda:sm_90", 4),
        (510, "f16", "cuda:sm_90", 1),
        (512, "f16", "cuda:sm_80", 1),
        (512, "f16", "rocm:gfx942", 1),
    ],
)
def test_where_terms_are_not_shared(depth, kind, target, ranks):
    with ir.Context():
        found = plan(product(depth, kind=kind), matmul.supports, SPLIT, targets.parse(target))
    assert (found.program.cluster, found.grid[0].repeat) == (ranks, 2 * ranks)
    assert ("cluster.combined" in found.program.source) == (ranks > 1)


def test_sums_of_whole_numbers_are_not_shared():
    with ir.Context():
        found = plan(test_kernels.BYTES.replace("71", "72"), matmul.supports, SPLIT)
    assert found.program.cluster == 1


def test_terms_of_convolutions_are_shared_on_hopper_alone():
    case, tiling = Conv(2, 16, 16, 64, 64, low=1, high=1), Tiling(64, 64, 64, 4, 3, split=3)
    for name, ranks in (("cuda:sm_90", 3), ("cuda:sm_80", 1)):
        with ir.Context():
            found = plan(conv_text(case), convolution.supports, tiling, targets.parse(name))
        assert (found.program.cluster, found.grid[0].repeat) == (ranks, ranks)
        assert ("rank" in found.program.source) == (ranks > 1)


@needs_triton
@pytest.mark.parametrize(
    ("sizes", "left", "right"),
    [
        ((1, 1, 45, 70), (1, 3), (2, 3)),
        ((1, 1, 45, 64), (1, 3), (3, 2)),
        ((1, 1, 45, 70), (3,), (3, 2)),
        ((3, 1, 17, 33), (0, 3), (0, 2, 3)),
        ((1, 5, 33, 70), (1, 3), (2, 3)),
    ],
)
def test_product_without_matrix_units(interpreter, monkeypatch, sizes, left, right):
    monkeypatch.setattr(matmul, "_tiling", lambda *_: Tiling(1, 16, 32, 4, 1))
    out = tuple(n for n in range(3) if n in (*left, *right))
    shape = tuple(sizes[a] for a in out)
    arrays = [draw([sizes[a] for a in axes], "f16", n) for n, axes in enumerate((left, right))]
    arrays += [draw((sizes[2],), "f32", 3), draw(shape, "f16", 4)]
    text = product_text(sizes, left, right, out, "f16", out)
    (found,) = run(interpreter, text, "matmul", arrays, [shape])
    a, b, bias, r = (x.astype(np.float64) for x in arrays)
    letters = "bmnk"
    spelled = ",".join("".join(letters[a] for a in axes) for axes in (left, right))
    total = np.einsum(f"{spelled}->{''.join(letters[a] for a in out)}", a, b)
    close(found, np.tanh(total + bias) + r, "f16")


@needs_triton
@pytest.mark.parametrize("joint", [True, False])
def test_several_products_without_matrix_units(interpreter, monkeypatch, joint):
    monkeypatch.setattr(matmul, "_tiling", lambda *_: Tiling(1, 16, 32, 4, 1))
    test_kernels.test_several_products(interpreter, 1, 53, 71, joint)
