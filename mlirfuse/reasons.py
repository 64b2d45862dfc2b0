"""Why a fusion was not made: the closed list of reasons, and a refusal."""

from __future__ import annotations

import dataclasses
import enum


class Reason(enum.Enum):
    """Why a fusion was not made. Closed: every refusal uses one of these.

    Each member carries its code (stable, used in JSON), a text, and a hint on how to get the
    fusion.
    """

    ALREADY_GROUPED = (
        "already_grouped",
        "an op of the match is in another group already",
        "disable the pass that formed that group, or put this pass before it in the pipeline",
    )
    DISABLED = (
        "disabled",
        "the pass, or this match of it, is switched off",
        "remove the name from --disable-pass or add it to --enable-pass",
    )
    TARGET_UNSUPPORTED = (
        "target_unsupported",
        "the target's code generator cannot lower this form",
        "choose another target, or a kernel provider for this one",
    )
    TARGET_OFF = (
        "target_off",
        "the pass is off by default on this target because it was measured not to pay there",
        "switch it on with --enable-pass, and where it still does not pay force it with"
        " --must-fuse",
    )
    NUMERICS_LIMIT = (
        "numerics_limit",
        "the pass changes results more than --numerics allows",
        "allow it with --numerics=reassociating or --numerics=any",
    )
    FUSION_LIMIT = (
        "fusion_limit",
        "the number of applied rewrites reached --fusion-limit",
        "raise or remove --fusion-limit",
    )
    SKIPPED_OP_KIND = (
        "skipped_op_kind",
        "an op of the match is of a kind that --skip-op-kind keeps out of groups",
        "remove that op kind from --skip-op-kind",
    )
    NEVER_FUSE = (
        "never_fuse",
        "an op of the match is marked never-fuse",
        "remove its location from --never-fuse or its region mark from the model",
    )
    MUST_FUSE = (
        "must_fuse",
        "the match would separate ops that must be in one group",
        "ask for fewer ops in --must-fuse or in the model's region mark",
    )
    SINGLE_OP = (
        "single_op",
        "the group would hold one op, which IREE dispatches alone anyway",
        "allow it with --single-op-groups",
    )
    EXTRA_USERS = (
        "extra_users",
        "an intermediate value has users outside the match and cannot become a result here",
        "remove the other user, or use a pass that returns the intermediate value too",
    )
    WOULD_CYCLE = (
        "would_cycle",
        "an op outside the group is both a consumer and a producer of it",
        "include that op in the group, or remove one of the dependences",
    )
    SIDE_EFFECTS = (
        "side_effects",
        "an op that would have to move has side effects or must stay in order",
        "move the side effect before or after the ops in the model",
    )
    DIFFERENT_BLOCKS = (
        "different_blocks",
        "the ops are in different blocks of control flow",
        "hoist or sink them into one block",
    )
    TOO_MANY_OPERANDS = (
        "too_many_operands",
        "the dispatch would have more operands and results than IREE allows (16; 32 on CPUs)",
        "fuse fewer ops: switch off a later fusion into the same group",
    )
    TOO_MANY_OPS = (
        "too_many_ops",
        "the group would hold more ops than the limit of one dispatch (64)",
        "no action is needed: the rest becomes a group of its own",
    )
    SHAPE_MISMATCH = (
        "shape_mismatch",
        "the iteration spaces of the ops do not agree",
        "make the shapes equal, or express the difference as a broadcast",
    )
    DYNAMIC_SHAPE = (
        "dynamic_shape",
        "a dimension that the pass needs to know is dynamic",
        "export the model with that dimension static",
    )
    ELEMENT_TYPE = (
        "element_type",
        "the pass does not support this element type",
        "cast the operands to f16, bf16 or f32",
    )
    INDEXING_MAP = (
        "indexing_map",
        "an op reads or writes a value in an order, or at indices, that the pass does not support",
        "keep one order of the axes from the first op to the last, or move the transpose, slice or"
        " gather before or after them",
    )
    CONSTANT_UNVERIFIED = (
        "constant_unverified",
        "a value that the pattern relies on is not the required constant",
        "make it a compile-time constant of the value in the detail",
    )
    STRUCTURE = (
        "structure",
        "the graph starts like the pattern but differs from it in one op",
        "see the detail for the op that differs",
    )
    WRONG_AXIS = (
        "wrong_axis",
        "the reduced or broadcast axes are not the ones of the pattern",
        "reduce over the trailing axis, and transpose nothing between the first op and the last",
    )
    NOT_PROFITABLE = (
        "not_profitable",
        "the modelled time of the fused form is not lower",
        "force it with --must-fuse",
    )
    LEFT_TO_PRODUCER = (
        "left_to_producer",
        "the op is next to a contraction, convolution, pooling or reduction, and IREE fuses the two"
        " where it can",
        "use a pass that forms a group of both, or skip the op kind of the producer",
    )
    STACK_LIMIT = (
        "stack_limit",
        "the group would need more stack of a CPU thread than the target allows",
        "make the innermost dimension smaller or the group shorter",
    )
    REGISTER_LIMIT = (
        "register_limit",
        "the rows that the group keeps and writes exceed the target's limit",
        "make the rows shorter, or remove the other users of the intermediate value",
    )
    FELL_BACK = (
        "fell_back",
        "IREE's code generation failed on the program with this rewrite, or our own code raised, so"
        " it was left out",
        "see the message in the detail; --disable-feature=fallback makes it an error",
    )

    def __init__(self, code: str, text: str, hint: str) -> None:
        self.code = code
        self.text = text
        self.hint = hint


@dataclasses.dataclass(frozen=True, slots=True)
class NoMatch:
    """A refusal. `detail` names the op, value or size that made the difference."""

    reason: Reason
    detail: str = ""
