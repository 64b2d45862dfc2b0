"""`mlirfuse-plan "conv 3x3 -> bias -> relu" --input=...`: whether ops in a row are one kernel."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlirfuse.explain.profile_lines import profile_lines
from mlirfuse.support.atomic_file import replacing
from mlirfuse.tools import arguments
from mlirfuse.tools.diagnostics import guard, required

if TYPE_CHECKING:
    from mlirfuse.fusion_plan import Check, FusionPlan

PROG = "mlirfuse-plan"

MLIR = ".mlir"
"""Suffix of `-o` by which it writes the program as text."""

_EXAMPLES = (
    'mlirfuse-plan "conv 3x3 s1 p1 64 -> bias -> relu" --input=1x32x56x56xf32 --target=cpu',
    'mlirfuse-plan "conv 3x3 64 -> relu" --input=8x56x56x64xf16 --layout=NHWC -o plan.vmfb',
    'mlirfuse-plan "linear 512 -> bias -> gelu" --input=128x256xf16 --tensors',
    'mlirfuse-plan "batch_norm_training -> relu" --input=16x64x28x28xf32 --json',
)


def parser() -> arguments.Parser:
    """The parser of the command."""
    made = arguments.Parser(
        f'{PROG} "OP -> OP -> ..." --input=TENSOR [switches]',
        "Say whether ops in a row are one kernel, and else why not and which plan is the nearest\n"
        "that is. Exit code 0: one kernel; 1: not.",
        _EXAMPLES,
    )
    group = made.add_argument_group("plan")
    group.add_argument(
        "plan", nargs="?", metavar="PLAN", help='the ops: "conv 3x3 s1 p1 64 -> bias -> relu"'
    )
    group.add_argument("--input", metavar="TENSOR", help="the first op's input, as 1x32x56x56xf32")
    group.add_argument(
        "--layout",
        default="",
        metavar="LAYOUT",
        help="order of its dimensions: NCHW (default for rank 4), NHWC, NCW, NDHWC, ...",
    )
    arguments.add_target(group)
    group = made.add_argument_group("answer")
    group.add_argument("--json", action="store_true", help="print the answer as JSON")
    group.add_argument("--tensors", action="store_true", help="print the tensors of each op, too")
    group.add_argument(
        "--compile", action="store_true", help="compile the plan, and name its kernel"
    )
    group.add_argument(
        "--find",
        action="store_true",
        help="compile it in all ways, measure them on this machine's device, keep the fastest",
    )
    group.add_argument(
        "--profile",
        metavar="FILE",
        help="compile it with the settings of a file of mlirfuse-tune, and say which apply",
    )
    group.add_argument(
        *("-o", "--output"),
        metavar="OUT",
        help="compile the plan, and write the program: OUT.vmfb, or OUT.mlir for mlirfuse-tune",
    )
    arguments.add_general(made, verbose="log each step on stderr")
    return made


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point; returns the exit code."""
    return guard(PROG, _work, argv)


def _work(argv: Sequence[str]) -> int:
    args = parser().read(argv)
    text = required(args.plan, "PLAN", PROG)
    given = required(args.input, "--input=TENSOR", PROG)
    from mlirfuse.fusion_plan import FusionPlan, TensorSpec
    from mlirfuse.fusion_plan.text import parse

    plan = FusionPlan.of(parse(text, TensorSpec.parse(given, args.layout)), args.target)
    answer = plan.check()
    compiles = args.compile or args.find or args.profile or args.output is not None
    if answer and compiles:
        plan.compile(find=args.find, profile=args.profile)
    if answer and args.output is not None:
        _write(plan, Path(args.output))
    show = _json if args.json else _text
    sys.stdout.write(show(plan, answer, tensors=args.tensors and _derives(answer)))
    return 0 if answer else 1


def _write(plan: FusionPlan, output: Path) -> None:
    """Writes the program of a compiled plan, or with `.mlir` what it was compiled from."""
    if output.suffix != MLIR:
        plan.save(output)
        return
    with replacing(output) as staged:
        staged.write_text(plan.to_mlir(), encoding="utf-8")


def _derives(answer: Check) -> bool:
    """Whether the tensors of a plan with this answer follow from its input."""
    from mlirfuse.fusion_plan import Code

    return answer.code in (Code.ONE_KERNEL, Code.ORDER, Code.TARGET)


def _text(plan: FusionPlan, answer: Check, *, tensors: bool) -> str:
    lines = [f"{plan.description} on {plan.target}", str(answer)]
    if plan.is_compiled:
        lines.append(f"kernel {plan.kernel.name}, {plan.strategy}")
        lines += profile_lines(plan.report.profile)
    if tensors:
        for op in plan.ops:
            listed = ", ".join(f"{name} {spec}" for name, spec in op.tensors.items())
            lines.append(f"{op.index} {op.op.kind}: {listed}")
    return "\n".join(lines) + "\n"


def _json(plan: FusionPlan, answer: Check, *, tensors: bool) -> str:
    entry: dict[str, Any] = {
        "plan": plan.description.to_dict(),
        "target": str(plan.target),
        "code": answer.code.value,
        "detail": answer.detail,
        "op": answer.op,
        "nearest": answer.nearest,
        "edits": list(answer.edits),
    }
    if plan.is_compiled:
        entry |= {"kernel": plan.kernel.name, "strategy": plan.strategy}
        entry |= {"profile": plan.report.profile}
    if tensors:
        entry["tensors"] = [
            {name: str(spec) for name, spec in op.tensors.items()} for op in plan.ops
        ]
    return json.dumps(entry, indent=2) + "\n"


if __name__ == "__main__":
    sys.exit(main())
