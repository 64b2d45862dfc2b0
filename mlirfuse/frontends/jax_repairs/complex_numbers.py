"""Tensors of complex numbers as two tensors of real ones, inside of the program.

  %2 = stablehlo.multiply %0, %1 : tensor<4xcomplex<f32>>
  %3 = stablehlo.reverse %2, dims = [0] : tensor<4xcomplex<f32>>
becomes products and sums of the parts of %0 and %1, and
  %re, %im = stablehlo.reverse %a, dims = [0] : tensor<4xf32>, and of %b

IREE 3.13 confuses constants of complex numbers, fails or crashes on gathers, windows and loops of
them, and has no buffers filled with a complex<f64>. Arguments and results of public functions stay
complex, and so do ops without a rule here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from mlirfuse.frontends.jax_repairs import complex_arithmetic
from mlirfuse.frontends.jax_repairs.definitions import traced

if TYPE_CHECKING:
    from iree.compiler import ir

Array = Any
Parts = tuple["ir.Value", "ir.Value"]

_BY_PARTS = frozenset(
    f"stablehlo.{name}"
    for name in (
        "add",
        "broadcast_in_dim",
        "concatenate",
        "dynamic_broadcast_in_dim",
        "dynamic_gather",
        "dynamic_pad",
        "dynamic_reshape",
        "dynamic_slice",
        "dynamic_update_slice",
        "gather",
        "negate",
        "pad",
        "real_dynamic_slice",
        "reshape",
        "reverse",
        "select",
        "slice",
        "subtract",
        "transpose",
    )
)
"""Ops that do the same to the real parts as to the imaginary parts."""

_SUMS = frozenset({"stablehlo.reduce", "stablehlo.reduce_window", "stablehlo.scatter"})
"""Ops that do so too where they add or subtract."""

_MIXED = frozenset(
    {
        "func.call",
        "stablehlo.case",
        "stablehlo.if",
        "stablehlo.optimization_barrier",
        "stablehlo.reduce",
        "stablehlo.reduce_window",
        "stablehlo.sort",
        "stablehlo.while",
    }
)
"""Ops that take both parts as operands of their own."""

_ELEMENT = re.compile(r"\(([^(),]+),\s*([^(),]+)\)")
_LITERAL = re.compile(r"dense<[^<>]*>(?= : tensor<)")
_BYTES = re.compile(r'dense<"0x([0-9A-F]+)">')


def split(module: ir.Module) -> None:
    """Splits all tensors of complex numbers."""
    from mlirfuse.frontends.jax_repairs.rewriting import is_public

    if "complex<" not in str(module.operation):
        return
    for op in module.body.operations:
        if op.operation.name == "func.func":
            _Splitter(public=is_public(op.operation)).function(op.operation)


def _real(declared: ir.Type) -> ir.Type | None:
    """The type of the parts; None for a type that is not complex."""
    from iree.compiler import ir

    if not isinstance(declared, ir.RankedTensorType):
        return None
    element = declared.element_type
    if not isinstance(element, ir.ComplexType):
        return None
    return ir.RankedTensorType.get(
        declared.shape, ir.ComplexType(element).element_type, declared.encoding
    )


def _expanded(types: Sequence[ir.Type]) -> list[ir.Type]:
    parts = [(each, _real(each)) for each in types]
    return [part for each, real in parts for part in ([real, real] if real else [each])]


class _Splitter:
    """Splits the tensors of one function."""

    def __init__(self, *, public: bool) -> None:
        self._public = public
        self._parts: dict[ir.Value, Parts] = {}
        self._whole: dict[ir.Value, ir.Value] = {}
        # Erased last: MLIR would give their addresses, which the keys are, to new values.
        self._old: list[ir.Operation] = []
        self._renewed: list[tuple[ir.Block, int]] = []

    def function(self, op: ir.Operation) -> None:
        from iree.compiler import ir

        block = op.regions[0].blocks[0]
        with op.location:
            if self._public:
                ops = list(block.operations)
                with ir.InsertionPoint.at_block_begin(block):
                    for argument in block.arguments:
                        self._take(argument)
                self._ops(ops)
            else:
                declared = ir.FunctionType(ir.TypeAttr(op.attributes["function_type"]).value)
                sides = [_expanded(side) for side in (declared.inputs, declared.results)]
                if sides != [list(declared.inputs), list(declared.results)]:
                    for name in ("arg_attrs", "res_attrs"):
                        if name in op.attributes:
                            del op.attributes[name]
                op.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(*sides))
                self._block(block)
        for each in reversed(self._old):
            each.erase()
        for block, count in self._renewed:
            for index in reversed(range(count)):
                block.erase_argument(index)

    def _block(self, block: ir.Block, *, pairs: bool = False) -> None:
        """Splits the arguments of a block too.

        Args:
          block: the block.
          pairs: whether arguments come in pairs, of which the parts do too.
        """
        arguments = list(block.arguments)
        if any(_real(argument.type) for argument in arguments):
            group = 2 if pairs else 1
            for start in range(0, len(arguments), group):
                self._renew(block, arguments[start : start + group])
            self._renewed.append((block, len(arguments)))
        self._ops(list(block.operations))

    def _renew(self, block: ir.Block, arguments: Sequence[ir.Value]) -> None:
        """Adds arguments to the end of a block for some of its own."""
        real = [_real(argument.type) for argument in arguments]
        made = [
            [
                block.add_argument(r or a.type, a.location)
                for a, r in zip(arguments, real, strict=True)
            ]
            for _ in range(2 if real[0] else 1)
        ]
        for index, argument in enumerate(arguments):
            if real[index]:
                self._parts[argument] = (made[0][index], made[1][index])
            else:
                argument.replace_all_uses_with(made[0][index])

    def _ops(self, ops: Sequence[Any]) -> None:
        from iree.compiler import ir

        for each in ops:
            op = each.operation
            values = [*op.operands, *op.results]
            with op.location, ir.InsertionPoint(op):
                if any(_real(value.type) for value in values) or op.name in _RETURNS:
                    self._split(op)
                else:
                    self._inside(op)

    def _inside(self, op: ir.Operation) -> None:
        for region in op.regions:
            for block in region.blocks:
                self._block(block, pairs=op.name == "stablehlo.sort")

    def _split(self, op: ir.Operation) -> None:
        """Splits one op; new ones come before it."""
        from iree.compiler import ir

        rule = _RULES.get(op.name)
        if op.name in _RETURNS:
            whole = self._public and op.name == "func.return"
            operands = [self._joined(v) for v in op.operands] if whole else self._flat(op.operands)
            self._replace(op, _create(op, [], operands))
        elif op.name in _BY_PARTS or (op.name in _SUMS and _adds(op)):
            self._set(op.results[0], *(self._part(op, part) for part in (0, 1)))
            self._old.append(op)
        elif op.name == "stablehlo.composite":  # a call, of the function that says its meaning
            callee = {"callee": op.attributes["decomposition"]}
            results = _expanded([result.type for result in op.results])
            operands = self._flat(op.operands)
            self._replace(op, ir.Operation.create("func.call", results, operands, callee))
        elif op.name in _MIXED:
            self._inside(op)
            old = _blocks(op)
            results = _expanded([result.type for result in op.results])
            new = _create(op, results, self._flat(op.operands))
            moved = list(zip(old, _blocks(new), strict=True))
            self._renewed = [
                (next((after for before, after in moved if before == block), block), count)
                for block, count in self._renewed
            ]
            self._replace(op, new)
        elif rule is None or not self._apply(op, rule):
            for index, value in enumerate(op.operands):
                op.operands[index] = self._joined(value)
            with ir.InsertionPoint.after(op):
                for result in op.results:
                    self._take(result)

    def _apply(self, op: ir.Operation, rule: Callable[..., Any]) -> bool:
        operands = [self._parts.get(value, value) for value in op.operands]
        found = rule(op, *operands)
        if found is None:
            return False
        if isinstance(found, tuple):
            self._set(op.results[0], *found)
        else:
            op.results[0].replace_all_uses_with(found)
        self._old.append(op)
        return True

    def _take(self, value: ir.Value) -> None:
        """Makes the parts of a value that stays complex."""
        if (real := _real(value.type)) is None:
            return
        parts = [_make(f"stablehlo.{name}", real, value) for name in ("real", "imag")]
        self._set(value, *parts)
        self._whole[value] = value

    def _set(self, value: ir.Value, real: ir.Value, imaginary: ir.Value) -> None:
        self._parts[value] = (real, imaginary)

    def _joined(self, value: ir.Value) -> ir.Value:
        if value not in self._parts:
            return value
        if value not in self._whole:
            return _make("stablehlo.complex", value.type, *self._parts[value])
        return self._whole[value]

    def _flat(self, values: Sequence[ir.Value]) -> list[ir.Value]:
        return [part for value in values for part in self._parts.get(value, (value,))]

    def _part(self, op: ir.Operation, part: int) -> ir.Value:
        """The op on the real or the imaginary parts."""
        from iree.compiler import ir

        copy = op.clone(ir.InsertionPoint(op)).operation
        for index, value in enumerate(copy.operands):
            if value in self._parts:
                copy.operands[index] = self._parts[value][part]
        inside = [each.operation for block in _blocks(copy) for each in block.operations]
        arguments = [argument for block in _blocks(copy) for argument in block.arguments]
        results = [result for each in (copy, *inside) for result in each.results]
        for value in (*arguments, *results):
            value.set_type(_real(value.type) or value.type)
        return copy.results[0]

    def _replace(self, op: ir.Operation, new: ir.Operation) -> None:
        """Records the results of the op that takes both parts of an op's complex operands."""
        results = iter(new.results)
        for result in op.results:
            if _real(result.type):
                self._set(result, next(results), next(results))
            else:
                result.replace_all_uses_with(next(results))
        self._old.append(op)


def _blocks(op: ir.Operation) -> list[ir.Block]:
    return [block for region in op.regions for block in region.blocks]


_RETURNS = frozenset({"func.return", "stablehlo.return"})


def _adds(op: ir.Operation) -> bool:
    """Whether the elements are added, subtracted, or replaced."""
    block = op.regions[0].blocks[0]
    body = [each.operation for each in block.operations]
    if len(op.results) != 1:
        return False
    if len(body) == 1:
        return all(value in list(block.arguments) for value in body[0].operands)
    return len(body) == 2 and body[0].name in ("stablehlo.add", "stablehlo.subtract")


def _make(name: str, result: ir.Type, *operands: ir.Value) -> ir.Value:
    from iree.compiler import ir

    return ir.Operation.create(name, [result], list(operands)).result


def _create(
    op: ir.Operation, results: Sequence[ir.Type], operands: Sequence[ir.Value]
) -> ir.Operation:
    """The op with other operands and results, and its regions."""
    from iree.compiler import ir

    attributes = {name: op.attributes[name] for name in op.attributes}
    if "result_layouts" in attributes or "operand_layouts" in attributes:
        attributes = {k: v for k, v in attributes.items() if not k.endswith("_layouts")}
    new = ir.Operation.create(
        op.name, list(results), list(operands), attributes, regions=len(op.regions)
    )
    for old, region in zip(op.regions, new.regions, strict=True):
        for block in list(old.blocks):
            block.append_to(region)
    return new


def _constant(op: ir.Operation) -> Parts | None:
    """Two constants, from the printed form: MLIR's bindings do not read complex elements."""
    from iree.compiler import ir

    real, text = _real(op.results[0].type), op.get_asm(print_generic_op_form=True)
    if not (literal := _LITERAL.search(text)):
        return None
    if found := _BYTES.fullmatch(literal[0]):
        assert isinstance(real, ir.RankedTensorType)
        element = np.dtype(f"f{real.element_type.width // 8}")
        numbers = np.frombuffer(bytes.fromhex(found[1]), element)
        literals = [f'dense<"0x{numbers[part::2].tobytes().hex().upper()}">' for part in (0, 1)]
    else:
        literals = [_ELEMENT.sub(rf"\{part}", literal[0]) for part in (1, 2)]
    values = [ir.Attribute.parse(f"{each} : {real}") for each in literals]
    parts = [ir.Operation.create(op.name, [real], [], {"value": v}).result for v in values]
    return parts[0], parts[1]


def _convert(op: ir.Operation, source: Any) -> Any:
    from iree.compiler import ir

    real = _real(op.results[0].type)
    if real is None:  # JAX takes the real part
        return _make(op.name, op.results[0].type, source[0])
    if isinstance(source, tuple):
        return tuple(_make(op.name, real, part) for part in source)
    if not real.has_static_shape:
        return None
    zeros = ir.DenseElementsAttr.get_splat(real, ir.FloatAttr.get(real.element_type, 0.0))
    zero = ir.Operation.create("stablehlo.constant", [real], [], {"value": zeros}).result
    return _make(op.name, real, source), zero


def _multiply(op: ir.Operation, x: Parts, y: Parts) -> Parts:
    """The product by four of the op on real numbers: of elements, contractions or convolutions."""
    real = _real(op.results[0].type)

    def make(a: ir.Value, b: ir.Value) -> ir.Value:
        return _create(op, [real], [a, b]).result

    (a, b), (c, d) = x, y
    return (
        _make("stablehlo.subtract", real, make(a, c), make(b, d)),
        _make("stablehlo.add", real, make(a, d), make(b, c)),
    )


def _compare(op: ir.Operation, x: Parts, y: Parts) -> ir.Value:
    """Both parts are equal, or one of them is not."""
    equal = "EQ" in str(op.attributes["comparison_direction"])
    results = [_create(op, [op.results[0].type], pair).result for pair in zip(x, y, strict=True)]
    name = "stablehlo.and" if equal else "stablehlo.or"
    return _make(name, op.results[0].type, *results)


def _divide(op: ir.Operation, x: Parts, y: Parts) -> Parts | None:
    found = traced(op, complex_arithmetic.quotient, [*x, *y])
    return None if found is None else (found[0], found[1])


def _function(op: ir.Operation, *operands: Parts) -> Parts | None:
    """A function of complex<f64>, for which IREE calls the C library."""
    if not str(_real(op.results[0].type)).endswith("f64>"):
        return None
    function = getattr(complex_arithmetic, op.name.partition(".")[2])
    found = traced(op, function, [part for value in operands for part in value])
    return None if found is None else (found[0], found[1])


_RULES: dict[str, Callable[..., Any]] = {
    "stablehlo.compare": _compare,
    "stablehlo.complex": lambda op, real, imaginary: (real, imaginary),
    "stablehlo.constant": _constant,
    "stablehlo.convert": _convert,
    "stablehlo.convolution": _multiply,
    "stablehlo.divide": _divide,
    "stablehlo.dot_general": _multiply,
    "stablehlo.exponential_minus_one": _function,
    "stablehlo.imag": lambda op, value: value[1],
    "stablehlo.multiply": _multiply,
    "stablehlo.power": _function,
    "stablehlo.real": lambda op, value: value[0],
    "stablehlo.rsqrt": _function,
    "stablehlo.tanh": _function,
}
"""Ops -> the parts of their result, or the result, from the parts of their operands."""
