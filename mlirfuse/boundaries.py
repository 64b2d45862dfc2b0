"""The tensors that two kernels of the final program exchange, and why they are two kernels."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Mapping
from typing import Any

from mlirfuse.errors import MlirfuseError
from mlirfuse.reasons import Reason


class BoundaryReason(enum.Enum):
    """Why a tensor between two kernels exists, where no refusal of a pass decided it. Closed.

    Each member carries its code (stable, used in JSON), a text, and a hint on how to change it.
    """

    TWO_CONTRACTIONS = (
        "two_contractions",
        "both kernels have a contraction, convolution or attention, and a kernel computes one of"
        " them, or several of one operand",
        "write softmax(Q K^T) V as attention, which is one kernel; contractions of one operand, as"
        " gate and up, may be one with --must-fuse; other pairs stay two",
    )
    CONTRACTION_OPERAND = (
        "contraction_operand",
        "a kernel of a contraction reads its operands, and those of its epilogue, from memory: work"
        " on an operand would be repeated for each tile that reads it",
        "fold the work into the op before it, as its epilogue, or into constant weights",
    )
    ROWS_OF_TILES = (
        "rows_of_tiles",
        "a reduction, pooling, scan or sort needs elements of several tiles of a contraction's"
        " result, and a kernel of a contraction keeps one tile at a time",
        "no switch changes it; the exceptions are attention, and in kernels of Triton rows of at"
        " most 256 elements, which a tile has whole",
    )
    REDUCTION_FIRST = (
        "reduction_first",
        "the result of a reduction is read in another iteration space, so that it is needed first",
        "reduce over the trailing axis, so that one workgroup has a whole row",
    )
    NEXT_REDUCTION = (
        "next_reduction",
        "the second kernel reduces over results of a reduction, which have to be complete before",
        "reduce over all axes at once, or write the pair as one op, as a norm or softmax",
    )
    OTHER_PATH = (
        "other_path",
        "a third kernel reads results of the first one, and the second one needs what it computes:"
        " one kernel of the two would be before it and after it",
        "compute the value again where it is read second, or fuse all kernels between the two",
    )
    SEVERAL_USERS = (
        "several_users",
        "several kernels read results of the first one: each would have to compute them again, or"
        " one to write them for the others",
        "remove a user, or compute the value where it is read",
    )
    RESHAPED = (
        "reshaped",
        "a reshape between the kernels cuts the elements differently, or cuts axes that one of them"
        " moves, and IREE does not fuse across it",
        "reshape before the first op or after the last one of the two kernels",
    )
    DATA_MOVEMENT = (
        "data_movement",
        "one of the kernels only moves elements: a transpose, copy, slice, concat, gather or pack",
        "keep one layout, or put the elements where they are needed in the op that makes them",
    )
    COPIED_PART = (
        "copied_part",
        "a part of the tensor is read or written in place, between the two kernels",
        "avoid the slice or the concat, or put it before the first op",
    )
    COMPUTED_INDICES = (
        "computed_indices",
        "the second kernel reads elements at computed indices, as a gather or a rotary embedding"
        " does, and any of them may be needed first",
        "compute the elements after the gather, or gather them before; no switch changes it",
    )
    OWN_KERNEL = (
        "own_kernel",
        "IREE has a code generator of its own for an op of one of the kernels, which takes no other"
        " ops: sort, top-k, scan, scatter, FFT",
        "no switch changes it",
    )
    LOOP = (
        "loop",
        "a loop or branch is between the kernels",
        "move the op out of the loop or branch, or unroll it",
    )
    GROUP_ENDS = (
        "group_ends",
        "one of the kernels is a group of a pass, whose pattern ends there, and neither IREE nor a"
        " pass that generates its code adds an op to it",
        "--must-fuse, or the pass switched off, leaves its ops to IREE, which may fuse the two; or"
        " write a pass that takes both",
    )
    KERNEL_CODE = (
        "kernel_code",
        "mlirfuse generates the code of one of the kernels, for an op that is in no group, and IREE"
        " adds none to it",
        "--must-fuse leaves code and fusion to IREE, and so does --disable-feature=kernels",
    )
    REPEATED_ELEMENTS = (
        "repeated_elements",
        "the second kernel reads each element of the first one's result for several of its own, and"
        " would compute it again for each",
        "no switch changes it; in the model, apply the op before the broadcast as far as it can be",
    )
    DIFFERENT_SPACES = (
        "different_spaces",
        "the kernels iterate over different spaces, and IREE fuses loops of one space only",
        "make the shapes equal, or express the difference as a broadcast",
    )
    NOT_TAKEN_TOGETHER = (
        "not_taken_together",
        "IREE formed two dispatches, and no pass considered ops of both",
        "ask for it with --must-fuse, or write a pass for the pair",
    )

    def __init__(self, code: str, text: str, hint: str) -> None:
        self.code = code
        self.text = text
        self.hint = hint


_REASONS: dict[str, Reason | BoundaryReason] = {
    reason.code: reason for kind in (Reason, BoundaryReason) for reason in kind
}


@dataclasses.dataclass(frozen=True, slots=True)
class Boundary:
    """A tensor that one kernel writes and another one reads.

    Attributes:
      source: index of the first kernel in the list of kernels.
      target: index of the second kernel.
      source_name: name of the first one's entry point.
      target_name: name of the second one's entry point.
      shape: sizes of the tensor; None for a dynamic one.
      dtype: its element type by MLIR's name.
      bytes: its size; None where a dimension is dynamic.
      reason: the refusal of a pass that decided it, or a property of the two kernels.
      detail: the pass that refused, the op, value or size that decided.
      source_ops: locations of the source ops of the first kernel, each once.
      target_ops: locations of the source ops of the second kernel, each once.
    """

    source: int
    target: int
    source_name: str
    target_name: str
    shape: tuple[int | None, ...]
    dtype: str
    bytes: int | None
    reason: Reason | BoundaryReason
    detail: str = ""
    source_ops: tuple[str, ...] = ()
    target_ops: tuple[str, ...] = ()

    @property
    def hint(self) -> str:
        """What would change it."""
        return self.reason.hint

    def to_dict(self) -> dict[str, Any]:
        """The boundary in the shape of the decisions schema."""
        return {
            "source": self.source,
            "target": self.target,
            "source_name": self.source_name,
            "target_name": self.target_name,
            "shape": list(self.shape),
            "dtype": self.dtype,
            "bytes": self.bytes,
            "reason": self.reason.code,
            "hint": self.hint,
            "detail": self.detail,
            "source_ops": list(self.source_ops),
            "target_ops": list(self.target_ops),
        }

    @classmethod
    def from_dict(cls, entry: Mapping[str, Any]) -> Boundary:
        """The boundary that `to_dict` wrote.

        Raises:
          MlirfuseError: its reason is none of this version.
        """
        if entry["reason"] not in _REASONS:
            raise MlirfuseError(f"unknown reason of a boundary: {entry['reason']!r}")
        return cls(
            source=entry["source"],
            target=entry["target"],
            source_name=entry["source_name"],
            target_name=entry["target_name"],
            shape=tuple(entry["shape"]),
            dtype=entry["dtype"],
            bytes=entry["bytes"],
            reason=_REASONS[entry["reason"]],
            detail=entry["detail"],
            source_ops=tuple(entry["source_ops"]),
            target_ops=tuple(entry["target_ops"]),
        )
