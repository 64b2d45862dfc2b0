"""A kernel in the place of a region.

  %y = flow.dispatch.region { ... }
becomes
  %y = hal.dispatch.extern "row_kernel"(%x, %size) count { ... } objects { ptx }

A kernel that updates a tensor in place has it as its last tensor, tied to the result: IREE copies
it before, where anything reads it later. What reads it earlier must stay so
(`backend.in_place_updates`).

  %y = hal.dispatch.extern "scatter_kernel"(%u, %i, %x) -> %x

Memory that only the kernel uses is further results, which nobody reads; where it is to be zero it
is tied to zeros.

  %y, %w, %c = hal.dispatch.extern "recurrence_kernel"(%x, %zeros) -> (tensor, tensor, %zeros)

IREE 3.13.0 recomputes a dispatch without tensors among its operands where one of its results is
copied, and then takes the first result for each of them (`PropagateCloneableOps`). So a kernel of
constants alone that has several results gets memory for the first one.
"""

from __future__ import annotations

from collections.abc import Sequence

from iree.compiler import ir

from mlirfuse import builders
from mlirfuse.builders.destination_builder import zeroed_memory
from mlirfuse.kernels import calls
from mlirfuse.kernels.codegen.tile_writer import returned
from mlirfuse.kernels.plan import Extent, Kernel, Plan, Size, Workspace
from mlirfuse.structured.ir import ops

_EXECUTABLE_TARGETS = {
    "ptx": '#hal.executable.target<"cuda", "cuda-nvptx-fb">',
    "hsaco": '#hal.executable.target<"rocm", "rocm-hsaco-fb">',
}


def replace(region: ir.Operation, plan: Plan, kernels: Sequence[Kernel]) -> ir.Operation:
    """Replaces a region by kernels that compute it.

    Args:
      region: a `flow.dispatch.region`.
      plan: the plan of its kernels.
      kernels: their object code, in the order in which they run.

    Returns:
      The last `hal.dispatch.extern`; all of them name the ops of the region and have its marks.
    """
    scratch: list[ir.Value] = []
    made: list[ir.Operation] = []
    with ir.InsertionPoint(region), region.location:
        for step, kernel in zip(plan.kernels(), kernels, strict=True):
            new = _extern(region, step, kernel, scratch)
            scratch = list(new.results)
            made.append(new)
    for old, value in zip(region.results, list(new.results)[: len(region.results)], strict=True):
        old.replace_all_uses_with(value)
    calls.describe(made, region)
    region.erase()
    return new


def _extern(
    region: ir.Operation, plan: Plan, kernel: Kernel, scratch: Sequence[ir.Value]
) -> ir.Operation:
    workload = [_size(region, size) for size in plan.sizes]
    arguments = [*scratch, *plan.operands]
    tied = [-1] * len(plan.scratch or region.results)
    if plan.destination is not None:
        tied = [len(arguments)]
        arguments.append(_outside(region, plan.destination))
    for workspace in plan.workspaces:
        tied.append(len(arguments) if workspace.zeroed else -1)
        arguments += [_zeros(workspace)] if workspace.zeroed else []
    kinds = plan.scratch_types or ("f32",) * len(plan.scratch)
    types = [
        builders.tensor_type([None if e.sizes else e.size for e in shape], kind)
        for shape, kind in zip(plan.scratch, kinds, strict=True)
    ]
    types = types or [r.type for r in region.results]
    types += [builders.tensor_type([w.elements], w.element_type) for w in plan.workspaces]
    result_dims = list(region.operands)
    if plan.scratch:
        dynamic = [extent for shape in plan.scratch for extent in shape if extent.sizes]
        result_dims = [_product(extent.size, extent.sizes, workload) for extent in dynamic]
    if not arguments and len(types) > 1:
        tied[0] = 0
        arguments.append(zeroed_memory(types[0], result_dims[: _dynamic_dims(types[0])]))
    dims = [builders.dimension(v, n) for v in arguments for n in _dynamic(v)]
    i32 = ir.IntegerType.get_signless(32)
    arguments += [
        ir.Operation.create("arith.index_cast", results=[i32], operands=[size]).results[0]
        for size in workload
    ]
    segments = [len(workload), len(arguments), len(dims), len(result_dims)]
    op = ir.Operation.create(
        "hal.dispatch.extern",
        results=types,
        operands=[*workload, *arguments, *dims, *result_dims],
        attributes={
            **_attributes(plan, kernel, len(arguments), tied),
            "operandSegmentSizes": ir.DenseI32ArrayAttr.get(segments),
        },
        regions=2,
    )
    _count_region(op, plan.grid, len(workload))
    return op


def _outside(region: ir.Operation, value: ir.Value) -> ir.Value:
    """The value, or a copy before the region of the empty tensor or fill in it that makes it."""
    op = ops.defining_op(value)
    if op is None or not ops.in_region(op):
        return value
    operands = [_outside(region, operand) for operand in op.operands]
    copy = op.clone(ir.InsertionPoint(region)).operation
    for index, operand in enumerate(operands):
        copy.operands[index] = operand
    found: ir.Value = copy.results[0]
    return found


def _zeros(workspace: Workspace) -> ir.Value:
    return zeroed_memory(builders.tensor_type([workspace.elements], workspace.element_type))


def _attributes(
    plan: Plan, kernel: Kernel, arguments: int, tied: Sequence[int]
) -> dict[str, ir.Attribute]:
    """The attributes of a dispatch.

    Args:
      plan: the plan of the kernel.
      kernel: its object code.
      arguments: number of its operands.
      tied: for each result the operand that it updates; -1 for one that is written only.
    """
    sizes = len(plan.sizes)
    read = arguments - sizes - sum(operand >= 0 for operand in tied)
    bindings = ["#hal.pipeline.binding<storage_buffer, ReadOnly>"] * read
    bindings += ["#hal.pipeline.binding<storage_buffer>"] * len(tied)
    constants = f"constants = {sizes}, " if sizes else ""
    x, y, z = kernel.workgroup_size
    data = f'dense<"0x{kernel.code.hex()}"> : vector<{len(kernel.code)}xi8>'
    # Bytecode keeps this attribute as text, and IREE 3.13.0 cannot read one without a path again.
    held = f'path = "{plan.program.entry}.{kernel.suffix}", data = {data}'
    texts = {
        "layout": f"#hal.pipeline.layout<{constants}bindings = [{', '.join(bindings)}]>",
        "targets": f"[{_EXECUTABLE_TARGETS[kernel.suffix]}]",
        "target_ordinals": "[0 : index]",
        "target_objects": f"[[#hal.executable.object<{{{held}}}>]]",
        "tied_operands": f"[{', '.join(f'{operand} : index' for operand in tied)}]",
        "workgroup_size": f"[{x} : index, {y} : index, {z} : index]",
        "workgroup_local_memory": f"{kernel.shared_memory} : index",
    }
    attributes = {name: ir.Attribute.parse(text) for name, text in texts.items()}
    attributes["export_name"] = ir.StringAttr.get(plan.program.entry)
    return attributes


def _count_region(op: ir.Operation, grid: tuple[Extent, ...], workload: int) -> None:
    """Computes the number of CTAs from the dynamic sizes."""
    index = ir.IndexType.get()
    device = ir.Type.parse("!hal.device")
    kinds = [device, *[index] * workload]
    block = op.regions[0].blocks.append(*kinds, arg_locs=[op.location] * len(kinds))
    with ir.InsertionPoint(block), op.location:
        counts = [_count(extent, list(block.arguments)[1:]) for extent in grid]
        ir.Operation.create("hal.return", operands=counts)


def _count(extent: Extent, sizes: Sequence[ir.Value]) -> ir.Value:
    if not extent.sizes:
        count = -(-extent.size // extent.block)
        return _product(count * extent.repeat, extent.repeats, sizes)
    block = builders.scalar_constant(extent.block, "index")
    total = _product(extent.size, extent.sizes, sizes)
    count = builders.scalar("arith.ceildivui", [total, block], "index")
    repeat = _product(extent.repeat, extent.repeats, sizes)
    return builders.scalar("arith.muli", [count, repeat], "index")


def _product(number: int, numbers: Sequence[int], sizes: Sequence[ir.Value]) -> ir.Value:
    """A number times some of the sizes."""
    product = builders.scalar_constant(number, "index")
    for other in numbers:
        product = builders.scalar("arith.muli", [product, sizes[other]], "index")
    return product


def _dynamic_dims(kind: ir.Type) -> int:
    tensor = ir.RankedTensorType(kind)
    return sum(tensor.is_dynamic_dim(dim) for dim in range(tensor.rank))


def _dynamic(value: ir.Value) -> list[int]:
    return [number for number, size in enumerate(ops.shape(value)) if size is None]


def _size(region: ir.Operation, wanted: Size) -> ir.Value:
    """The dynamic size as a value outside the region."""
    results, value, dim = returned(region), wanted.value, wanted.dim
    if value not in results:
        return builders.dimension(value, dim)
    before = sum(len(_dynamic(v)) for v in results[: results.index(value)])
    size: ir.Value = region.operands[before + _dynamic(value).index(dim)]
    return size
