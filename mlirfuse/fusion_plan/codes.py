"""The reasons why a plan is not one kernel, each with a code of its own."""

from __future__ import annotations

import dataclasses
import enum

from mlirfuse.core import MlirfuseError


class Code(enum.StrEnum):
    """Answer of `FusionPlan.check`; `ONE_KERNEL` is the only one that compiles."""

    ONE_KERNEL = "one_kernel"
    ORDER = "unsupported_order"
    LAYOUT = "unsupported_layout"
    DTYPE = "unsupported_data_type"
    SHAPE = "unsupported_shape"
    FILTER_SIZE = "unsupported_filter_size"
    STRIDE = "unsupported_stride"
    PADDING = "unsupported_padding"
    MODE = "unsupported_mode"
    ACTIVATION = "unsupported_activation"
    MISSING_OP = "missing_op"
    TARGET = "unsupported_target"
    OPERANDS = "too_many_operands"
    SEVERAL_KERNELS = "several_kernels"
    NOT_COMPILED = "not_compiled"
    MISSING_ARGUMENT = "missing_argument"


class FusionPlanError(MlirfuseError):
    """A plan that is not one kernel, or that cannot run.

    Attributes:
      code: the reason.
    """

    def __init__(self, code: Code, message: str) -> None:
        super().__init__(f"{code.value}: {message}")
        self.code = code


@dataclasses.dataclass(eq=False)
class Refusal(Exception):
    """A fact about one op that no target supports, or that a rule forbids.

    Attributes:
      code: the reason.
      detail: one sentence.
      op: index of the op; None for the plan as a whole.
    """

    code: Code
    detail: str
    op: int | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Check:
    """Answer of `FusionPlan.check`.

    Attributes:
      code: `ONE_KERNEL`, or the reason why the plan is not one kernel.
      detail: the reason in one sentence; empty for one kernel.
      op: index of the op that the reason is about; None for one kernel or the plan as a whole.
      nearest: text of the nearest plan that is one kernel; empty for one kernel, or where a few
        edits lead to none.
      edits: the changes that lead there.
    """

    code: Code
    detail: str = ""
    op: int | None = None
    nearest: str = ""
    edits: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        """Whether the plan is one kernel."""
        return self.code is Code.ONE_KERNEL

    def __str__(self) -> str:
        """The answer in one line."""
        if self:
            return "one kernel"
        near = f"; nearest: {self.nearest} ({', '.join(self.edits)})" if self.nearest else ""
        return f"{self.code.value}: {self.detail}{near}"
