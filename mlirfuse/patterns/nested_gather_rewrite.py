"""Read a tensor through the padding or the gather that makes another one of it for a gather.

    %p = tensor.pad %x low[1] high[1] { 0.0 }          tensor<NxT> to tensor<(N+2)xT>
    %y = linalg.generic { tensor.extract %p[i] }       tensor<MxKxT>, windows of it
  becomes
    %y = linalg.generic { 0 <= i - 1 < N ? tensor.extract %x[i - 1] : 0.0 }

So are the elements that a generic gathers, or computes from its loops, for another gather: windows
of rows and then of columns are one gather. The columns of a convolution (`torch.nn.Unfold`) and the
patches of a vision transformer are then one kernel, without a copy between two. Root: a generic
that extracts elements of a tensor of which gathers are the only users, where kernels for a GPU
compute it in less time than it takes to write and read the tensor. Static sizes; a constant value
of the padding. Numerics: exact.
Source: fusion of producers into `tensor.extract`, as TorchInductor computes indirect loads.
"""

from __future__ import annotations

from iree.compiler import ir

from mlirfuse import builders
from mlirfuse.core import FusionPass, Kind, Match, Numerics, PassContext
from mlirfuse.kernels import passes, triton_compiler
from mlirfuse.kernels.codegen.instructions import instructions, is_repeated_cheaply
from mlirfuse.structured.expr import predicates
from mlirfuse.structured.ir import fusable_neighbors, ops
from mlirfuse.structured.recognize import gathers

_EXTRACT = "tensor.extract"

BOUND_INSTRUCTIONS = 4
"""Instructions of the bounds of one index: a difference, a comparison and two selections."""


def match(root: ir.Operation, ctx: PassContext) -> Match | None:
    """Finds an element of a padded or gathered tensor that the root's body extracts."""
    if not triton_compiler.supports(ctx.target) or ops.in_region(root):
        return None
    for extract in ops.nested_ops(root):
        if extract.name == _EXTRACT and extract.parent.operation == root:
            producer = ops.defining_op(extract.operands[0])
            if producer is not None and producer.block == root.block and _is_read_through(producer):
                return Match(root, (root,), extract)
    return None


def _is_read_through(producer: ir.Operation) -> bool:
    if producer.name == "tensor.pad":
        each = _instructions_of_padding(producer)
    else:
        each = _instructions_of_gather(producer)
    if each is None:
        return False
    value = producer.results[0]
    reads = gathers.times_read(value)
    return reads is not None and is_repeated_cheaply(each, reads, ops.num_bytes(value))


def _instructions_of_padding(pad: ir.Operation) -> int | None:
    """Instructions of an element of a padded tensor; None where it cannot be read through."""
    amounts, value = ops.padding_amounts(pad), ops.padding_value(pad)
    if amounts is None or value is None or ops.constant(value) is None:
        return None
    if None in ops.shape(pad.operands[0]) or 0 in ops.shape(pad.operands[0]):
        return None
    return BOUND_INSTRUCTIONS * sum(amount != (0, 0) for amount in amounts)


def _instructions_of_gather(op: ir.Operation) -> int | None:
    """Instructions of an element of a generic that gathers; None for any other op."""
    if not gathers.computes_any_element(op):
        return None
    if not fusable_neighbors.has_gathering_body(op) or fusable_neighbors.has_scalar_body(op):
        return None
    return instructions(op, short=ops.element_bits(op.results[0]) <= 16)


def rewrite(match: Match, ctx: PassContext) -> ir.Operation:
    """Computes the element where the root extracted it."""
    root: ir.Operation = match.root
    extract: ir.Operation = match.data
    producer = ops.defining_op(extract.operands[0])
    assert producer is not None
    indices = list(extract.operands)[1:]
    with ir.InsertionPoint(extract), extract.location:
        element = _padded if producer.name == "tensor.pad" else _gathered
        extract.results[0].replace_all_uses_with(element(producer, indices))
    extract.erase()
    return root


def _padded(pad: ir.Operation, indices: list[ir.Value]) -> ir.Value:
    """The element of a padded tensor: of the tensor within its bounds, or the padding's value."""
    amounts, value, source = ops.padding_amounts(pad), ops.padding_value(pad), pad.operands[0]
    assert amounts is not None
    assert value is not None
    inside, zero = None, builders.scalar_constant(0, "index")
    for n, (size, amount) in enumerate(zip(ops.shape(source), amounts, strict=True)):
        if amount == (0, 0):
            continue
        low, last = (builders.scalar_constant(c, "index") for c in (amount[0], (size or 1) - 1))
        index = builders.scalar("arith.subi", [indices[n], low], "index")
        positive = builders.scalar("arith.maxsi", [index, zero], "index")
        indices[n] = builders.scalar("arith.minsi", [positive, last], "index")
        same = builders.scalar("arith.cmpi", [index, indices[n]], "i1", predicates.EQ)
        inside = same if inside is None else builders.scalar("arith.andi", [inside, same], "i1")
    element = builders.extract(source, indices)
    if inside is None:
        return element
    return builders.scalar("arith.select", [inside, element, value], ops.element_type(source))


def _gathered(op: ir.Operation, indices: list[ir.Value]) -> ir.Value:
    """The element of a generic at some indices."""
    *reads, written = ops.plain_maps(op)
    at = dict(zip(written, indices, strict=True))
    arguments = [
        builders.extract(value, [at[loop] for loop in read])
        for value, read in zip(ops.inputs(op), reads, strict=True)
    ]
    inner = [o for o in ops.nested_ops(op) if o.name == "linalg.index"]
    captured = {o.results[0]: at[o.attributes["dim"].value] for o in inner}
    init = ops.body(op).arguments[len(arguments)]  # No op reads it.
    return builders.body_of(op, captured)([*arguments, init])[0]


PASS = FusionPass(
    name="nested_gather_rewrite",
    summary="A gather reads through the padding or the gather in front of it",
    roots=("linalg.generic",),
    match=match,
    prepare=passes.needs_provider,
    rewrite=rewrite,
    numerics=Numerics.EXACT,
    kind=Kind.REWRITE,
    feature="kernels",
    targets=frozenset({"cuda", "rocm"}),
    source="mlirfuse",
)
