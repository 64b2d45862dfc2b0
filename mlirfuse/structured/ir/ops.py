"""Typed questions about single ops. The only module that reads raw attributes.

Maps are tuples with one entry per tensor dimension: the number of the loop that indexes it, or
None for a constant-zero index. A map that is neither is not representable and reads as None.
"""

from __future__ import annotations

import ctypes
import dataclasses
import functools
import math
import re
from collections.abc import Collection, Iterator

from iree.compiler import ir

from mlirfuse.structured.ir import analysis_cache

IndexMap = tuple[int | None, ...]

REGION = "flow.dispatch.region"
RETURN = "flow.return"

# Ops without memory, ordering or control effects that may be moved, cloned and grouped.
_PURE_DIALECTS = ("arith.", "math.", "tensor.", "linalg.", "iree_linalg_ext.", "complex.")
_PURE_OPS = frozenset(
    {"affine.apply", "flow.tensor.constant", "util.null", REGION, "iree_tensor_ext.bitcast"}
)

_FLOATS = frozenset({"f16", "bf16", "f32"})

DYNAMIC_SIZE = 128
"""Elements that a dynamic dimension counts for in a model of time."""


def is_pure(op: ir.Operation) -> bool:
    """Whether the op can be moved among others of its block without changing the program."""
    return op.name.startswith(_PURE_DIALECTS) or op.name in _PURE_OPS


_address = ctypes.pythonapi.PyCapsule_GetPointer
_address.restype = ctypes.c_void_p
_address.argtypes = (ctypes.py_object, ctypes.c_char_p)


def identity(op: ir.Operation) -> int:
    """A number of the op that stays while it exists; its hash changes with its operands."""
    return int(_address(op._CAPIPtr, b"iree.compiler.ir.Operation._CAPIPtr"))


def defining_op(value: ir.Value) -> ir.Operation | None:
    """The op that defines the value; None for a block argument."""
    owner = value.owner
    return None if isinstance(owner, ir.Block) else owner.operation


def behind(value: ir.Value, views: Collection[str]) -> ir.Value:
    """What a value is a view of, through ops of these names."""
    op = defining_op(value)
    while op is not None and op.name in views:
        value = op.operands[0]
        op = defining_op(value)
    return value


def block_of(value: ir.Value) -> ir.Block:
    """The block that the value is defined in."""
    owner = value.owner
    return owner if isinstance(owner, ir.Block) else owner.operation.block


def ranked(value: ir.Value) -> ir.RankedTensorType | None:
    """The value's ranked tensor type, or None when it has another type."""
    return value.type if isinstance(value.type, ir.RankedTensorType) else None


@functools.cache
def _decode_type(kind: ir.Type) -> tuple[tuple[int | None, ...], str]:
    """Sizes and element type of a ranked tensor type; no sizes for another type."""
    if not isinstance(kind, ir.RankedTensorType):
        return (), str(kind)
    sizes = tuple(
        None if kind.is_dynamic_dim(i) else kind.get_dim_size(i) for i in range(kind.rank)
    )
    return sizes, str(kind.element_type)


def shape(value: ir.Value) -> tuple[int | None, ...]:
    """Sizes of a ranked tensor; None for a dynamic one. Empty for what is not a tensor."""
    return _decode_type(value.type)[0]


def element_type(value: ir.Value) -> str:
    """Element type in MLIR's spelling; the type itself for what is not a tensor."""
    return _decode_type(value.type)[1]


def is_float(value: ir.Value) -> bool:
    """Whether the elements are f16, bf16 or f32, the types that our passes take."""
    return element_type(value) in _FLOATS


_WIDTHS = {"index": 64, "i1": 8}


def element_bits(value: ir.Value) -> int:
    """Bits that one element takes in memory."""
    return _bits(element_type(value))


@functools.cache
def _bits(name: str) -> int:
    if name in _WIDTHS:
        return _WIDTHS[name]
    digits = "".join(c for c in name.removeprefix("bf") if c.isdigit())
    return int(digits) if digits else 32


def num_elements(value: ir.Value, dynamic_size: int = 1) -> int:
    """Number of elements, each dynamic dimension counted as `dynamic_size`."""
    return _elements(value.type, dynamic_size)


@functools.cache
def _elements(kind: ir.Type, dynamic_size: int) -> int:
    return math.prod(dynamic_size if s is None else s for s in _decode_type(kind)[0])


def num_bytes(value: ir.Value, dynamic_size: int = 1) -> int:
    """Bytes that the tensor takes in memory, each dynamic dimension counted as `dynamic_size`."""
    return _bytes(value.type, dynamic_size)


@functools.cache
def _bytes(kind: ir.Type, dynamic_size: int) -> int:
    return (_elements(kind, dynamic_size) * _bits(_decode_type(kind)[1]) + 7) // 8


def users(value: ir.Value) -> list[ir.Operation]:
    """The ops that read the value, each once."""
    return list(dict.fromkeys(use.owner.operation for use in value.uses))


def is_read(value: ir.Value) -> bool:
    """Whether an op reads the value."""
    return next(iter(value.uses), None) is not None


def ancestor_in(block: ir.Block, op: ir.Operation) -> ir.Operation | None:
    """The op of `block` that is or contains `op`; None when there is none."""
    current: ir.Operation | None = op
    while current is not None:
        if current.block == block:
            return current
        current = current.parent.operation if current.parent is not None else None
    return None


def nested_ops(op: ir.Operation) -> Iterator[ir.Operation]:
    """Every op inside the op's regions, outer before inner."""
    for region in op.regions:
        for block in region.blocks:
            for nested in block.operations:
                yield nested.operation
                yield from nested_ops(nested.operation)


@analysis_cache.kept
def sources(op: ir.Operation) -> tuple[tuple[ir.Value, ir.Operation | None], ...]:
    """The values from outside that the op or its nested ops read, with what defines each."""
    return tuple((value, defining_op(value)) for value in external_operands(op))


@analysis_cache.kept
def external_operands(op: ir.Operation) -> tuple[ir.Value, ...]:
    """The values from outside that the op or its nested ops read, each once."""
    seen: dict[ir.Value, None] = dict.fromkeys(op.operands)
    inside: set[ir.Value] = set()
    read: list[ir.Value] = []
    _values_in(op, inside, read)
    for value in read:
        if value not in inside:
            seen[value] = None
    return tuple(seen)


def _values_in(op: ir.Operation, defined: set[ir.Value], read: list[ir.Value]) -> None:
    """Collects the values that are defined inside the op, and what is read there, in order."""
    for region in op.regions:
        for block in region.blocks:
            defined.update(block.arguments)
            for view in block.operations:
                nested = view.operation
                read += nested.operands
                defined.update(nested.results)
                _values_in(nested, defined, read)


def computed(value: ir.Value) -> ir.Value:
    """The value inside the group that computes it, where one does; else the value itself."""
    owner = defining_op(value)
    if owner is None or owner.name != REGION:
        return value
    last = body(owner).operations[-1].operation
    found: ir.Value = last.operands[list(owner.results).index(value)]
    return found


def in_region(op: ir.Operation) -> bool:
    """Whether the op already lies inside a dispatch region or workgroups op."""
    parent = op.parent
    while parent is not None:
        if parent.operation.name in (REGION, "flow.dispatch.workgroups"):
            return True
        parent = parent.operation.parent
    return False


# --- linalg ------------------------------------------------------------------------------------


def is_generic(op: ir.Operation) -> bool:
    """Whether the op is a `linalg.generic`."""
    return bool(op.name == "linalg.generic")


@functools.cache
def _decode_map(attribute: ir.AffineMapAttr) -> IndexMap | None:
    entries: list[int | None] = []
    for expr in attribute.value.results:
        if isinstance(expr, ir.AffineDimExpr):
            entries.append(expr.position)
        elif isinstance(expr, ir.AffineConstantExpr) and expr.value == 0:
            entries.append(None)
        else:
            return None
    return tuple(entries)


_NAMED_MAPS: dict[str, tuple[IndexMap, ...]] = {
    "linalg.batch_matmul": ((0, 1, 3), (0, 3, 2), (0, 1, 2)),
    "linalg.batch_matvec": ((0, 1, 2), (0, 2), (0, 1)),
    "linalg.batch_vecmat": ((0, 2), (0, 2, 1), (0, 1)),
    "linalg.matmul": ((0, 2), (2, 1), (0, 1)),
    "linalg.matvec": ((0, 1), (1,), (0,)),
    "linalg.vecmat": ((1,), (1, 0), (0,)),
}
"""Indexing maps of the contractions that carry none as an attribute."""


@analysis_cache.kept
def indexing_maps(op: ir.Operation) -> tuple[IndexMap | None, ...]:
    """One map per operand of a structured op, inputs first, then inits."""
    if "indexing_maps" in op.attributes:
        return tuple(_decode_map(a) for a in op.attributes["indexing_maps"])
    if op.name in _NAMED_MAPS:
        return _NAMED_MAPS[op.name]
    if op.name == "linalg.fill":
        return ((), tuple(range(len(shape(op.operands[1])))))
    return ()


def plain_maps(op: ir.Operation) -> tuple[IndexMap, ...]:
    """The indexing maps of an op that is known to have no other than projected permutations."""
    maps = indexing_maps(op)
    assert None not in maps, op.name
    return tuple(m for m in maps if m is not None)


@functools.cache
def _decode_iterators(attribute: ir.ArrayAttr) -> tuple[str, ...]:
    kinds = str(attribute).split(",")
    return tuple("parallel" if "parallel" in k else "reduction" for k in kinds if "iterator" in k)


def forget() -> None:
    """Drops what is remembered of attributes and types: they keep their context alive."""
    _decode_map.cache_clear()
    _decode_type.cache_clear()
    _elements.cache_clear()
    _bytes.cache_clear()
    _decode_iterators.cache_clear()


@analysis_cache.kept
def iterator_types(op: ir.Operation) -> tuple[str, ...]:
    """`parallel` or `reduction` per loop of a structured op."""
    if "iterator_types" in op.attributes:
        return _decode_iterators(op.attributes["iterator_types"])
    maps = indexing_maps(op)
    outputs = {d for m in maps[num_inputs(op) :] if m is not None for d in m}
    loops = max((d for m in maps if m for d in m if d is not None), default=-1) + 1
    return tuple("parallel" if d in outputs else "reduction" for d in range(loops))


def num_inputs(op: ir.Operation) -> int:
    """Number of `ins` operands of a structured op."""
    return len(op.operands) - len(op.results)


def inputs(op: ir.Operation) -> list[ir.Value]:
    """The `ins` operands of a structured op."""
    return list(op.operands)[: num_inputs(op)]


def inits(op: ir.Operation) -> list[ir.Value]:
    """The `outs` operands of a structured op."""
    return list(op.operands)[num_inputs(op) :]


@analysis_cache.kept
def is_elementwise(op: ir.Operation) -> bool:
    """Whether every loop of the generic is parallel."""
    return is_generic(op) and all(t == "parallel" for t in iterator_types(op))


@analysis_cache.kept
def loop_sizes(op: ir.Operation) -> tuple[int | None, ...]:
    """Trip count of each loop of a structured op; None where dynamic or unknown."""
    sizes: list[int | None] = [None] * len(iterator_types(op))
    for value, index_map in zip(op.operands, indexing_maps(op), strict=False):
        for size, loop in zip(shape(value), index_map or (), strict=False):
            if loop is not None and size is not None:
                sizes[loop] = size
    return tuple(sizes)


def body(op: ir.Operation) -> ir.Block:
    """The scalar body of a structured op."""
    return op.regions[0].blocks[0]


@analysis_cache.kept
def reads_inits(op: ir.Operation) -> bool:
    """Whether the scalar body reads what the outs hold before."""
    return any(list(a.uses) for a in list(body(op).arguments)[num_inputs(op) :])


@analysis_cache.kept
def is_projection(op: ir.Operation) -> bool:
    """Whether the generic only moves data: it yields its one input unchanged."""
    return num_inputs(op) == 1 and moved_input(op) is not None


@analysis_cache.kept
def moved_input(op: ir.Operation) -> int | None:
    """Number of the input that an elementwise generic yields unchanged; it reads no other.

    What else it has as inputs is left over: ids of a table of one row that the row was gathered by.
    """
    if not is_elementwise(op) or len(op.results) != 1:
        return None
    block = body(op)
    if len(block.operations) != 1:
        return None
    yielded = block.operations[0].operation.operands[0]
    arguments = list(block.arguments)[: num_inputs(op)]
    return next((number for number, a in enumerate(arguments) if a == yielded), None)


@analysis_cache.kept
def reads_index(op: ir.Operation) -> bool:
    """Whether the scalar body asks for a loop index."""
    return "linalg.index" in scalar_names(op)


@analysis_cache.kept
def scalar_names(op: ir.Operation) -> tuple[str, ...]:
    """The names of the ops of the scalar body, the terminator's last."""
    return tuple(o.operation.name for o in body(op).operations)


# --- contractions ------------------------------------------------------------------------------

NAMED_CONTRACTIONS = frozenset({*_NAMED_MAPS, "linalg.contract"})


@analysis_cache.kept
def is_contraction(op: ir.Operation) -> bool:
    """Whether the op multiplies two inputs and sums over at least one loop.

    Named contractions, and generics whose body is `yield(out + a * b)` with casts to the
    accumulation type allowed on `a` and `b`.
    """
    if op.name in NAMED_CONTRACTIONS:
        return True
    if not is_generic(op) or num_inputs(op) != 2 or len(op.results) != 1:
        return False
    if "reduction" not in iterator_types(op) or None in indexing_maps(op):
        return False
    return multiplies_and_adds(op)


def multiplies_and_adds(op: ir.Operation) -> bool:
    """Whether the generic's body is `yield(out + a * b)`, casts of `a` and `b` allowed."""
    names = scalar_names(op)
    casts = {"arith.extf", "arith.extsi", "arith.extui"}
    rest = [n for n in names if n not in casts]
    return rest in (
        ["arith.mulf", "arith.addf", "linalg.yield"],
        ["arith.muli", "arith.addi", "linalg.yield"],
    )


# --- constants ---------------------------------------------------------------------------------


def constant(value: ir.Value) -> float | int | None:
    """The number that a value holds everywhere at compile time, else None.

    Scalar and splat constants, fills with one, and immutable globals of rank 0: IREE hoists
    constants that its inliner left over into such globals.
    """
    op = defining_op(value)
    if op is None:
        return None
    if op.name == "linalg.fill":
        return constant(op.operands[0])
    if op.name in ("tensor.expand_shape", "tensor.collapse_shape"):
        return constant(op.operands[0])
    if op.name == "util.global.load" and "is_immutable" in op.attributes and not shape(value):
        return _initial_value(op)
    if op.name != "arith.constant":
        return None
    return attribute_number(op.attributes["value"])


DATA = frozenset({"arith.constant", "flow.tensor.constant"})
"""Ops that are data: of the program, or a parameter, which comes from elsewhere at load time."""


def is_constant_data(value: ir.Value) -> bool:
    """Whether the value is known when the program is loaded: data or an immutable global."""
    op = defining_op(value)
    if op is None:
        return False
    return op.name in DATA or (op.name == "util.global.load" and "is_immutable" in op.attributes)


def _initial_value(load: ir.Operation) -> float | int | None:
    symbol = load.attributes["global"].value
    for op in _module_ops(load):
        attributes = op.attributes
        if op.name == "util.global" and attributes["sym_name"].value == symbol:
            if "is_mutable" in attributes or "initial_value" not in attributes:
                return None
            return attribute_number(attributes["initial_value"])
    return None


def initializer_value(value: ir.Value) -> ir.Value | None:
    """What an initializer of the module stores in the immutable global that the value is.

    The value stands in the initializer: its computation can be looked at, not referred to.
    """
    load = defining_op(value)
    if load is None or load.name != "util.global.load" or "is_immutable" not in load.attributes:
        return None
    symbol = load.attributes["global"].value
    for op in _module_ops(load):
        if op.name != "util.initializer":
            continue
        for inner in nested_ops(op):
            if inner.name == "util.global.store" and inner.attributes["global"].value == symbol:
                stored: ir.Value = inner.operands[0]
                return stored
    return None


def _module_ops(op: ir.Operation) -> Iterator[ir.Operation]:
    module = op.parent
    while module is not None and module.operation.name != "builtin.module":
        module = module.operation.parent
    if module is not None:
        yield from (o.operation for o in module.operation.regions[0].blocks[0].operations)


def attribute_number(attribute: ir.Attribute) -> float | int | None:
    """The number in a float, integer, bool or splat attribute, else None."""
    if isinstance(attribute, ir.FloatAttr):
        return float(attribute.value)
    if isinstance(attribute, (ir.IntegerAttr, ir.BoolAttr)):
        return int(attribute.value)
    if isinstance(attribute, ir.DenseElementsAttr) and attribute.is_splat:
        return attribute_number(attribute.get_splat_value())
    return None


def predicate(op: ir.Operation) -> str:
    """What distinguishes two scalar ops of one name: the predicate of a comparison."""
    return str(op.attributes["predicate"]) if "predicate" in op.attributes else ""


def softmax_axis(op: ir.Operation) -> int:
    """The dimension that a `linalg.softmax` runs over."""
    return int(op.attributes["dimension"].value)


# --- reshapes ----------------------------------------------------------------------------------

RESHAPES = frozenset({"tensor.expand_shape", "tensor.collapse_shape"})


def reassociation(op: ir.Operation) -> tuple[tuple[int, ...], ...]:
    """The groups of the larger shape's dimensions, one per dimension of the smaller."""
    return tuple(tuple(i.value for i in group) for group in op.attributes["reassociation"])


def slice_of(op: ir.Operation) -> tuple[tuple[int, int | None], ...] | None:
    """Offset and size along each dimension of the source, None for a dynamic size.

    None for another op than `tensor.extract_slice`, for steps other than one and for dynamic
    offsets. Dimensions of size one may be missing in the result.
    """
    if op.name != "tensor.extract_slice" or any(s != 1 for s in op.attributes["static_strides"]):
        return None
    dynamic = ir.ShapedType.get_dynamic_size()
    offsets = list(op.attributes["static_offsets"])
    sizes = tuple(None if s == dynamic else s for s in op.attributes["static_sizes"])
    if any(o == dynamic for o in offsets):
        return None
    return tuple(zip(offsets, sizes, strict=True))


@dataclasses.dataclass(frozen=True, slots=True)
class Sliced:
    """What a `tensor.extract_slice` takes: offset, size and step along each dimension.

    Each is a number, or the value that it is at run time.
    """

    boxes: tuple[tuple[int | ir.Value, int | ir.Value, int | ir.Value], ...]

    @property
    def dynamic_sizes(self) -> list[ir.Value]:
        """The sizes that are known at run time only."""
        return [size for _, size, _ in self.boxes if isinstance(size, ir.Value)]

    def is_whole(self, dimension: int, size: int | None) -> bool:
        """Whether a dimension of that size is taken whole; unknown counts as no."""
        return size is not None and self.boxes[dimension] == (0, size, 1)


def sliced(op: ir.Operation) -> Sliced:
    """The boxes of a `tensor.extract_slice`."""
    dynamic = ir.ShapedType.get_dynamic_size()
    given = iter(list(op.operands)[1:])
    columns = [
        [next(given) if n == dynamic else n for n in op.attributes[f"static_{name}"]]
        for name in ("offsets", "sizes", "strides")
    ]
    return Sliced(tuple(zip(*columns, strict=True)))


def inserted(op: ir.Operation) -> tuple[tuple[int, ...], tuple[int | None, ...]] | None:
    """Offsets and sizes of a `tensor.insert_slice`, None for a dynamic size.

    None for another op and for dynamic offsets.
    """
    dynamic = ir.ShapedType.get_dynamic_size()
    if op.name != "tensor.insert_slice" or dynamic in list(op.attributes["static_offsets"]):
        return None
    sizes = tuple(None if s == dynamic else s for s in op.attributes["static_sizes"])
    return tuple(op.attributes["static_offsets"]), sizes


def is_box(op: ir.Operation) -> bool:
    """Whether a `tensor.extract_slice` or `tensor.insert_slice` takes steps of one."""
    return all(step == 1 for step in op.attributes["static_strides"])


def padding_value(op: ir.Operation) -> ir.Value | None:
    """What a `tensor.pad` puts around its operand; None when it depends on the place."""
    block = op.regions[0].blocks[0]
    value: ir.Value = block.operations[len(block.operations) - 1].operation.operands[0]
    return value if block_of(value) != block else None


def padding_amounts(op: ir.Operation) -> tuple[tuple[int, int], ...] | None:
    """What a `tensor.pad` adds before and after each dimension; None for dynamic or negative."""
    low, high = (list(op.attributes[name]) for name in ("static_low", "static_high"))
    if any(amount < 0 for amount in (*low, *high)):
        return None
    return tuple(zip(low, high, strict=True))


# --- locations ---------------------------------------------------------------------------------


def taken_apart(location: ir.Location) -> tuple[list[ir.Location], str]:
    """The locations inside a location, innermost first, and what it says itself, if anything."""
    if isinstance(location, ir.CallSiteLoc):
        return [location.callee, location.caller], ""
    if isinstance(location, ir.FileLineColLoc):
        return [], f"{location.filename}:{location.start_line}:{location.start_col}"
    if isinstance(location, ir.NameLoc):
        return [location.child_loc], str(location.name_str)
    if isinstance(location, ir.FusedLoc):
        return list(location.locations), ""
    return [], ""


OWN_NAME = "mlirfuse.from:"
"""Start of the names that a run puts around locations for its own use."""


def source_frames(location: ir.Location) -> Iterator[str]:
    """Every source position and name in the location, innermost first, as `file:line:col`."""
    inside, frame = taken_apart(location)
    for part in inside:
        yield from source_frames(part)
    if frame and not frame.startswith(OWN_NAME):
        yield frame


_FRAMEWORKS = ("/torch/", "/jax/", "/jaxlib/", "/flax/")
_POSITION = re.compile(r":\d+:\d+$")


def is_position(frame: str) -> bool:
    """Whether a part of a location is `file:line:col`, not a name."""
    return _POSITION.search(frame) is not None


def location_name(location: ir.Location) -> str:
    """The position in the model's own source: the innermost outside the framework, or `-`.

    Without one it is the innermost name (ONNX's nodes have names), without that the framework's
    own position.
    """
    return _place(location.attr)


@analysis_cache.always
def _place(attribute: ir.Attribute) -> str:
    name, inside = "", ""
    for frame in source_frames(ir.Location.from_attr(attribute, attribute.context)):
        if not is_position(frame):
            name = name or frame
        elif not any(part in frame for part in _FRAMEWORKS):
            return frame
        else:
            inside = inside or frame
    return name or inside or "-"


def described(op: ir.Operation) -> str:
    """The op's name and its place in the model's source, for details of a refusal."""
    place = location_name(op.location)
    return op.name if place == "-" else f"{op.name} at {place}"


def functions(module: ir.Module) -> list[ir.Operation]:
    """The functions with a body at the top level of the module, in order."""
    return [
        op.operation
        for op in module.body.operations
        if op.operation.name in ("util.func", "func.func")
        and len(op.operation.regions[0].blocks) > 0
    ]


def symbol_name(op: ir.Operation) -> str:
    """The op's symbol name."""
    return str(op.attributes["sym_name"].value)


def blocks(op: ir.Operation) -> Iterator[ir.Block]:
    """Every block of the op that can hold groups: nested control flow, not linalg bodies."""
    for region in op.regions:
        for block in region.blocks:
            yield block
            for nested in block.operations:
                if nested.operation.name.startswith("scf."):
                    yield from blocks(nested.operation)
