"""Which chains of ops are one kernel, by target kind: the table that `FusionPlan.check` asks.

A chain has one root, the op that is not elementwise, and elementwise ops before it (prologue) and
after it (epilogue). Each rule follows from a kernel family or from one form of IREE's code
generation; its strategies compile the chains that it takes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from mlirfuse.fusion_plan import ops
from mlirfuse.fusion_plan.codes import Code, Refusal
from mlirfuse.fusion_plan.conditions import (
    COVERED,
    DISTRIBUTED_1X1,
    DISTRIBUTED_CHANNELS,
    FORMS,
    NO_CHANNEL_VECTORS,
    SEVERAL_FILTERS,
    SEVERAL_SUMS,
    SEVERAL_WINDOWS,
    UNPADDED,
    UNSHARED_SUMS,
    WIDE_GROUPED_FILTERS,
    Condition,
    form,
    windows_up_to,
)
from mlirfuse.fusion_plan.description import Description
from mlirfuse.fusion_plan.strategies import (
    COMPUTED_IN_ONE_GROUP,
    COMPUTED_POSITIONS,
    FILTER_AS_GIVEN,
    IREE,
    KERNELS,
    ONE_GROUP,
    ONE_GROUP_IREE,
    ONE_GROUP_UNSPLIT,
    UNPACKED,
    Strategy,
)
from mlirfuse.fusion_plan.tensors import DTYPES, LAYOUTS
from mlirfuse.targets.base import Target

POINTWISE = frozenset(
    {
        ops.Bias.kind,
        ops.ActivationForward.kind,
        ops.ActivationBackward.kind,
        ops.BatchNormInference.kind,
        ops.Residual.kind,
        ops.Quantize.kind,
    }
)
"""Kinds that are elementwise, with operands broadcast."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """Chains of one root that are one kernel.

    Attributes:
      roots: kinds of the root; an empty one for chains that are elementwise.
      strategies: ways to compile, in the order in which they are tried.
      source: the kernel family, or the form of IREE's code generation, that the rule follows from.
      prologue: whether elementwise ops may stand before the root.
      epilogue: kinds that may stand after it.
      dtypes: element types of the input.
      layouts: layouts of the input; row-major tensors have none.
      forms: forms of a convolution, `dense`, `grouped`, `depthwise`.
      modes: modes of the root; None for all.
      conditions: further conditions on the root.
    """

    roots: tuple[str, ...]
    strategies: tuple[Strategy, ...]
    source: str
    prologue: bool = False
    epilogue: frozenset[str] = POINTWISE
    dtypes: tuple[str, ...] = DTYPES
    layouts: tuple[str, ...] = ("", *LAYOUTS)
    forms: tuple[str, ...] = FORMS
    modes: tuple[str, ...] | None = None
    conditions: tuple[Condition, ...] = ()


_CONV, _POOL = (ops.ConvForward.kind,), (ops.Pool.kind,)
_CONVOLUTION = ("convolution",)
_MATMUL, _ATTENTION = (ops.Matmul.kind,), (ops.Attention.kind,)
_ROWS = (ops.Norm.kind, ops.Softmax.kind, ops.Reduce.kind)
_TRAINING = (ops.BatchNormForwardTraining.kind, ops.BatchNormBackward.kind)
_CHANNELS_FIRST = tuple(layout for layout in LAYOUTS if not layout.endswith("C"))
_CHANNELS_LAST = tuple(layout for layout in LAYOUTS if layout.endswith("C"))

_PADDED_ON_CPU = tuple(layout for layout in LAYOUTS if layout != "NCW")
"""Layouts for which IREE 3.13 pads the image of a convolution inside of its kernel on a CPU."""

MAX_POOL_WINDOW = 81
"""Elements of a window that the pooling kernels unroll."""

_WINDOWS = (COMPUTED_POSITIONS, COMPUTED_IN_ONE_GROUP)
"""Ways for windows of any form; the last ones, since other kernels read neighbors by vectors."""

_COMPUTED = Rule(
    roots=(*_CONV, *_POOL),
    strategies=_WINDOWS,
    source="IREE, a reduction that computes the positions of its elements",
)

_TRITON = (
    Rule(
        roots=_CONV,
        strategies=(KERNELS, FILTER_AS_GIVEN, ONE_GROUP_UNSPLIT, ONE_GROUP_IREE, *_WINDOWS),
        source="conv_triton_kernel",
        modes=_CONVOLUTION,
        conditions=(COVERED, WIDE_GROUPED_FILTERS),
    ),
    Rule(
        roots=_POOL,
        strategies=(KERNELS, ONE_GROUP_IREE, *_WINDOWS),
        source="pool_triton_kernel",
        modes=("max", "average_inclusive"),
        conditions=(COVERED, windows_up_to(MAX_POOL_WINDOW)),
    ),
    Rule(
        roots=_POOL,
        strategies=(KERNELS, ONE_GROUP_IREE, *_WINDOWS),
        source="pool_triton_kernel",
        conditions=(COVERED, UNPADDED, windows_up_to(MAX_POOL_WINDOW)),
    ),
    Rule(
        roots=_MATMUL,
        strategies=(KERNELS, ONE_GROUP_UNSPLIT),
        source="matmul_triton_kernel",
        layouts=("",),
    ),
    Rule(roots=_ATTENTION, strategies=(KERNELS, IREE), source="IREE, attention"),
    Rule(
        roots=(*_ROWS, *_TRAINING),
        strategies=(KERNELS, ONE_GROUP_UNSPLIT, IREE),
        source="row_triton_kernel",
        prologue=True,
    ),
    Rule(roots=("",), strategies=(KERNELS,), source="elementwise_triton_kernel"),
)

_CUDA = (*_TRITON, dataclasses.replace(_COMPUTED, conditions=(DISTRIBUTED_1X1,)))
_ROCM = (*_TRITON, dataclasses.replace(_COMPUTED, conditions=(DISTRIBUTED_CHANNELS,)))

_CPU = (
    Rule(
        roots=_CONV,
        strategies=(KERNELS, UNPACKED, ONE_GROUP_IREE, *_WINDOWS),
        source="IREE, a convolution without a packed filter",
        modes=_CONVOLUTION,
        layouts=_PADDED_ON_CPU,
        forms=("dense",),
        conditions=(COVERED, SEVERAL_FILTERS, SEVERAL_WINDOWS),
    ),
    Rule(
        roots=_CONV,
        strategies=(KERNELS, UNPACKED, ONE_GROUP_IREE, *_WINDOWS),
        source="IREE, a convolution without a packed filter",
        modes=_CONVOLUTION,
        conditions=(COVERED, UNPADDED, SEVERAL_FILTERS, WIDE_GROUPED_FILTERS),
    ),
    Rule(
        roots=_CONV,
        strategies=(ONE_GROUP_IREE, *_WINDOWS),
        source="IREE, a convolution in a group",
        modes=_CONVOLUTION,
        layouts=_CHANNELS_LAST,
        forms=("grouped",),
        conditions=(COVERED, SEVERAL_FILTERS, SEVERAL_WINDOWS, WIDE_GROUPED_FILTERS),
    ),
    Rule(
        roots=_POOL,
        strategies=(KERNELS, ONE_GROUP_IREE, *_WINDOWS),
        source="pool_vector_kernel; IREE, a pooling in a group",
        conditions=(COVERED,),
    ),
    Rule(
        roots=_MATMUL,
        strategies=(KERNELS, UNPACKED, ONE_GROUP_IREE),
        source="IREE, a matmul without packed operands",
        layouts=("",),
    ),
    Rule(roots=_ATTENTION, strategies=(KERNELS, IREE), source="IREE, attention"),
    Rule(
        roots=_ROWS,
        strategies=(KERNELS, IREE, ONE_GROUP_IREE),
        source="row_vector_kernel",
        prologue=True,
    ),
    Rule(
        roots=_TRAINING,
        strategies=(KERNELS, ONE_GROUP_IREE),
        source="row_vector_kernel; IREE, reductions in a group",
        prologue=True,
    ),
    Rule(roots=("",), strategies=(KERNELS,), source="IREE, elementwise ops"),
    _COMPUTED,
)

_SPIRV = (
    Rule(
        roots=_CONV,
        strategies=(KERNELS, ONE_GROUP, *_WINDOWS),
        source="IREE, a convolution in a group",
        modes=_CONVOLUTION,
        forms=("dense", "depthwise"),
        conditions=(
            *(COVERED, SEVERAL_FILTERS, SEVERAL_WINDOWS, WIDE_GROUPED_FILTERS),
            NO_CHANNEL_VECTORS,
        ),
    ),
    Rule(
        roots=_CONV,
        strategies=(KERNELS, ONE_GROUP, *_WINDOWS),
        source="IREE, a convolution",
        modes=_CONVOLUTION,
        conditions=(COVERED, UNPADDED, SEVERAL_FILTERS, WIDE_GROUPED_FILTERS),
    ),
    Rule(
        roots=_POOL,
        strategies=(KERNELS, ONE_GROUP, *_WINDOWS),
        source="IREE, a pooling in a group",
        conditions=(COVERED,),
    ),
    Rule(
        roots=_MATMUL,
        strategies=(KERNELS, ONE_GROUP),
        source="IREE, a matmul with its epilogue",
        layouts=("",),
        dtypes=("f32", "f16"),
    ),
    Rule(
        roots=_ROWS,
        strategies=(KERNELS, ONE_GROUP),
        source="IREE, reductions in a group",
        prologue=True,
        conditions=(SEVERAL_SUMS,),
    ),
    Rule(
        roots=_TRAINING,
        strategies=(ONE_GROUP,),
        source="IREE, reductions in a group",
        prologue=True,
        layouts=_CHANNELS_FIRST,
        modes=("spatial",),
    ),
    Rule(roots=("",), strategies=(KERNELS,), source="IREE, elementwise ops"),
    dataclasses.replace(_COMPUTED, conditions=(UNSHARED_SUMS,)),
)

TABLE: Mapping[str, tuple[Rule, ...]] = {
    "cpu": _CPU,
    "cuda": _CUDA,
    "rocm": _ROCM,
    "vulkan": _SPIRV,
}
"""Target kind -> its rules; the first that fits decides how a plan is compiled."""


TARGETS = ("cpu", "cuda:sm_90", "rocm:gfx942", "vulkan")
"""A target of each kind: those of the support table, and those that a nearest plan may move to."""


def find(plan: Description, target: Target) -> Rule:
    """The rule that the plan fits.

    Raises:
      Refusal: there is none; the reason is that of the rule which the plan fails last.
    """
    if not plan.ops:
        raise Refusal(Code.MISSING_OP, "the plan has no op")
    derived = plan.derived()
    if all(_is_identity(op) for op in plan.ops):
        raise Refusal(Code.MISSING_OP, "the plan copies its input: no op computes anything")
    _check_chain(plan)
    operands = 2 + sum(len(d.arguments) + len(d.results) for d in derived)
    if operands > target.max_operands:
        raise Refusal(
            Code.OPERANDS,
            f"{operands} operands and results; {target.name} takes {target.max_operands}",
        )
    _check_kernels(target)
    best: tuple[int, Refusal] | None = None
    for rule in TABLE[target.name]:
        failed = _failure(rule, plan, target)
        if failed is None:
            return rule
        if best is None or failed[0] > best[0]:
            best = failed
    assert best is not None
    raise best[1]


def _check_kernels(target: Target) -> None:
    if target.name not in ("cuda", "rocm"):
        return
    from mlirfuse.kernels import triton_compiler

    if not triton_compiler.available(target):
        missing = triton_compiler.missing()
        why = "no kernels for this architecture" if missing is None else missing.detail
        raise Refusal(Code.TARGET, f"{target}: {why}")


def _is_identity(op: ops.Op) -> bool:
    activation = isinstance(op, ops.ActivationForward | ops.ActivationBackward)
    return activation and getattr(op, "mode", "") == "pasthru"


def roots(plan: Description) -> list[int]:
    """Indices of the ops that are not elementwise."""
    return [i for i, op in enumerate(plan.ops) if op.kind not in POINTWISE]


def _check_chain(plan: Description) -> None:
    """Checks what holds on every target.

    Raises:
      Refusal: two roots, or an op after a quantization.
    """
    found = roots(plan)
    if len(found) > 1:
        first, second = (plan.ops[i].kind for i in found[:2])
        raise Refusal(Code.ORDER, f"{second} after {first} is a kernel of its own", found[1])
    for index, op in enumerate(plan.ops[:-1]):
        if op.kind == ops.Quantize.kind:
            after = plan.ops[index + 1].kind
            raise Refusal(Code.ORDER, f"{after} after quantize, which is the last op", index + 1)


def _failure(rule: Rule, plan: Description, target: Target) -> tuple[int, Refusal] | None:
    """The first condition of a rule that the plan fails, and how many it fulfills before."""
    found = roots(plan)
    at = found[0] if found else None
    root = None if at is None else plan.ops[at]
    kind = "" if root is None else root.kind
    first = plan.ops[0].kind
    tests: list[tuple[bool, Code, str]] = [
        (kind in rule.roots, Code.TARGET, f"{target.name} has no kernel for {kind or first}"),
        (
            rule.prologue or not at,
            Code.ORDER,
            f"{first} before {kind} is a kernel of its own",
        ),
        (_modes(rule, root), Code.MODE, f"{kind} in mode '{getattr(root, 'mode', '')}'"),
        (form(plan, root) in rule.forms, Code.SHAPE, f"a {form(plan, root)} convolution"),
        (
            all(op.kind in rule.epilogue for op in plan.ops[(at or 0) + 1 :]),
            Code.ORDER,
            f"an op after {kind} that its kernel does not compute",
        ),
        (plan.input.dtype in rule.dtypes, Code.DTYPE, f"element type {plan.input.dtype}"),
        (
            plan.input.layout in rule.layouts,
            Code.LAYOUT,
            f"layout {plan.input.layout or 'row-major'} for {kind}",
        ),
        *((c.holds(plan, root), c.code, f"{kind} with {c.detail}") for c in rule.conditions),
    ]
    for passed, (fits, code, detail) in enumerate(tests):
        if not fits:
            return passed, Refusal(code, detail, at)
    return None


def _modes(rule: Rule, root: ops.Op | None) -> bool:
    return rule.modes is None or getattr(root, "mode", None) in rule.modes
