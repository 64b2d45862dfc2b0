"""A kernel in the place of a region.

  %y = flow.dispatch.region { ... }
becomes
  %y = hal.dispatch.extern "row_kernel"(%x, %size) count { ... } objects { ptx }
"""

from __future__ import annotations

from collections.abc import Sequence

from iree.compiler import ir

from mlirfuse import builders
from mlirfuse.kernels.provider import Extent, Kernel, Plan
from mlirfuse.kernels.tiles import returned
from mlirfuse.structured import ops

_EXECUTABLE_TARGETS = {
    "ptx": '#hal.executable.target<"cuda", "cuda-nvptx-fb">',
    "hsaco": '#hal.executable.target<"rocm", "rocm-hsaco-fb">',
}


def replace(region: ir.Operation, plan: Plan, kernels: Sequence[Kernel]) -> ir.Operation:
    """Lets kernels compute what a region computes, and removes the region.

    Args:
      region: a `flow.dispatch.region`.
      plan: what was planned for it.
      kernels: what was built of the plan's kernels, in the order in which they run.

    Returns:
      The last `hal.dispatch.extern`, with the region's location and marks.
    """
    scratch: list[ir.Value] = []
    with ir.InsertionPoint(region), region.location:
        for step, kernel in zip(plan.kernels(), kernels, strict=True):
            new = _extern(region, step, kernel, scratch)
            scratch = list(new.results)
    for old, value in zip(region.results, new.results, strict=True):
        old.replace_all_uses_with(value)
    region.erase()
    return new


def _extern(
    region: ir.Operation, plan: Plan, kernel: Kernel, scratch: Sequence[ir.Value]
) -> ir.Operation:
    size = None if plan.dynamic is None else _size(region, *plan.dynamic)
    arguments = [*scratch, *plan.operands]
    f32 = ir.F32Type.get()
    types = [ir.RankedTensorType.get(shape, f32) for shape in plan.scratch]
    types = types or [r.type for r in region.results]
    dims = [builders.dimension(v, n) for v in arguments for n in _dynamic(v)]
    if size is not None:
        i32 = ir.IntegerType.get_signless(32)
        arguments.append(
            ir.Operation.create("arith.index_cast", results=[i32], operands=[size]).results[0]
        )
    workload = [] if size is None else [size]
    result_dims = [] if plan.scratch else list(region.operands)
    segments = [len(workload), len(arguments), len(dims), len(result_dims)]
    op = ir.Operation.create(
        "hal.dispatch.extern",
        results=types,
        operands=[*workload, *arguments, *dims, *result_dims],
        attributes={
            **_attributes(plan, kernel, len(arguments), len(types), size is not None),
            "operandSegmentSizes": ir.DenseI32ArrayAttr.get(segments),
        },
        regions=2,
    )
    _count_region(op, plan.grid, len(workload))
    return op


def _attributes(
    plan: Plan, kernel: Kernel, arguments: int, results: int, has_size: bool
) -> dict[str, ir.Attribute]:
    bindings = ["#hal.pipeline.binding<storage_buffer, ReadOnly>"] * (arguments - has_size)
    bindings += ["#hal.pipeline.binding<storage_buffer>"] * results
    constants = "constants = 1, " if has_size else ""
    x, y, z = kernel.workgroup_size
    data = f'dense<"0x{kernel.code.hex()}"> : vector<{len(kernel.code)}xi8>'
    # Bytecode keeps this attribute as text, and IREE 3.13.0 cannot read one without a path again.
    held = f'path = "{plan.program.entry}.{kernel.suffix}", data = {data}'
    texts = {
        "layout": f"#hal.pipeline.layout<{constants}bindings = [{', '.join(bindings)}]>",
        "targets": f"[{_EXECUTABLE_TARGETS[kernel.suffix]}]",
        "target_ordinals": "[0 : index]",
        "target_objects": f"[[#hal.executable.object<{{{held}}}>]]",
        "tied_operands": f"[{', '.join(['-1 : index'] * results)}]",
        "workgroup_size": f"[{x} : index, {y} : index, {z} : index]",
        "workgroup_local_memory": f"{kernel.shared_memory} : index",
    }
    attributes = {name: ir.Attribute.parse(text) for name, text in texts.items()}
    attributes["export_name"] = ir.StringAttr.get(plan.program.entry)
    return attributes


def _count_region(op: ir.Operation, grid: tuple[Extent, ...], workload: int) -> None:
    """Computes the number of workgroups from the dynamic size."""
    index = ir.IndexType.get()
    device = ir.Type.parse("!hal.device")
    kinds = [device, *[index] * workload]
    block = op.regions[0].blocks.append(*kinds, arg_locs=[op.location] * len(kinds))
    with ir.InsertionPoint(block), op.location:
        counts = [_count(extent, block) for extent in grid]
        ir.Operation.create("hal.return", operands=counts)


def _count(extent: Extent, block: ir.Block) -> ir.Value:
    number = builders.scalar_constant
    if not extent.dynamic:
        return number(-(-extent.size // extent.block) * extent.repeat, "index")
    total = builders.scalar(
        "arith.muli", [block.arguments[1], number(extent.size, "index")], "index"
    )
    count = builders.scalar("arith.ceildivui", [total, number(extent.block, "index")], "index")
    return builders.scalar("arith.muli", [count, number(extent.repeat, "index")], "index")


def _dynamic(value: ir.Value) -> list[int]:
    return [number for number, size in enumerate(ops.shape(value)) if size is None]


def _size(region: ir.Operation, value: ir.Value, dim: int) -> ir.Value:
    """The dynamic size as a value outside the region."""
    results = returned(region)
    if value not in results:
        return builders.dimension(value, dim)
    before = sum(len(_dynamic(v)) for v in results[: results.index(value)])
    size: ir.Value = region.operands[before + _dynamic(value).index(dim)]
    return size
