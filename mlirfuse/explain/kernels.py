"""The kernels of the final program as plain text: the answer to `--kernels`."""

from __future__ import annotations

import collections
import itertools
import re
from collections.abc import Iterable, Iterator, Sequence

from mlirfuse.boundaries import Boundary, BoundaryReason
from mlirfuse.core import Decision, Reason, Report
from mlirfuse.explain.printing import byte_size, layer_name, place, printable
from mlirfuse.final_kernels import IREE, FinalKernel, Operand, moved_bytes

_COLUMNS = ("#", "kernel", "code", "workgroups", "bytes", "flops")
_RIGHT_ALIGNED = frozenset({"#", "workgroups", "bytes", "flops"})
_PACKED_MATMUL = "matmul_vector_kernel"

_PACKS = re.compile(r"_encoding_\d+_encode")

PACKED_IN_EACH_CALL = (
    "hint: each call packs operands of contractions; weights that are constants of the program are"
    ' packed once, when it is loaded (torch.compile on a CPU: options={"pack_weights": True} packs'
    ' them when they change, {"freeze": True} makes them constants)'
)

_NUMBER = re.compile(r"_dispatch_\d+")
_NOT_COMPILED = "no kernels: the program was not compiled, or by an older mlirfuse\n"


def op_runs(item: FinalKernel | Decision) -> list[str]:
    """The ops of a kernel or a candidate as `name at location (layer)`; repetitions are counted."""
    lines = []
    entries = itertools.zip_longest(item.op_names, item.ops, item.layers)
    for (name, location, layer), run in itertools.groupby(entries):
        count, part, at = len(list(run)), layer_name(layer or ""), location or "?"
        where = "" if at == "-" or (part and at.endswith(f":{part}")) else at
        parts = [name or "?", f"at {where}" if where else "", f"({part})" if part else ""]
        times = f" (x{count})" if count > 1 else ""
        lines.append(place(" ".join(filter(None, parts)) + times))
    return lines


def tensor(operand: Operand) -> str:
    """The type of a tensor, as `8x64xf32`."""
    sizes = ("?" if size is None else str(size) for size in operand.shape)
    return "x".join([*sizes, operand.dtype])


def op_kinds(kernel: FinalKernel) -> str:
    """The names of the ops in a kernel, each once, as `linalg.matmul + linalg.generic`."""
    return printable(" + ".join(dict.fromkeys(kernel.op_names)))


def signature(kernel: FinalKernel) -> str:
    """The types of the tensors that a kernel reads and writes."""
    read = ", ".join(tensor(o) for o in kernel.operands if not o.is_result)
    written = ", ".join(tensor(o) for o in kernel.operands if o.is_result)
    return f"({read}) -> {written}"


def _formed(kernel: FinalKernel) -> str:
    if kernel.pass_name is None:
        return "formed by IREE"
    return f"formed by {printable(kernel.pass_name)} match {kernel.match}"


def label_lines(kernel: FinalKernel) -> list[str]:
    """The lines of a kernel in a drawing: its kinds of ops, what formed it, tensors and code."""
    kinds = ": ".join(filter(None, (op_kinds(kernel), _formed(kernel))))
    code = "code of IREE" if kernel.code == IREE else printable(kernel.code)
    return [kinds, signature(kernel), code]


def boundary_lines(boundary: Boundary) -> list[str]:
    """The reason of a boundary with its detail, and the hint."""
    detail = f" ({place(boundary.detail)})" if boundary.detail else ""
    reason = f"{boundary.reason.code}: {boundary.reason.text}{detail}"
    return [reason, f"hint: {boundary.hint}"]


def _count(value: int | None) -> str:
    """A number with a decimal unit, as `1.5 M`; `-` when it is not known."""
    if value is None:
        return "-"
    amount = float(value)
    for unit in ("", " k", " M"):
        if amount < 1000:
            return f"{amount:.0f}" if not unit else f"{amount:.1f}{unit}"
        amount /= 1000
    return f"{amount:.1f} G"


def _row(index: int, kernel: FinalKernel) -> tuple[str, ...]:
    groups = "-" if kernel.workgroups is None else "x".join(map(str, kernel.workgroups))
    return (
        str(index),
        printable(kernel.name),
        printable(kernel.code),
        groups,
        byte_size(kernel.bytes),
        _count(kernel.flops),
    )


def kernels_text(report: Report) -> str:
    """The answer to `--kernels`: each dispatch of the program, with its source ops and tensors."""
    if not report.kernels:
        return _NOT_COMPILED
    return "\n".join([*_table(report.kernels), _totals(report.kernels)]) + "\n"


def stock_text(report: Report) -> str:
    """The answer to `--count-stock`: each dispatch of the program without our passes."""
    count, kernels = report.dispatches["stock"], report.stock_kernels
    if not kernels:
        known = "not known" if count is None else str(count)
        return f"stock IREE's program: dispatches {known}\n"
    moved = byte_size(moved_bytes(kernels))
    noun = "kernel" if len(kernels) == 1 else "kernels"
    head = f"stock IREE's program, without fusion of ours: {len(kernels)} {noun}, {moved}"
    return "\n".join([head, *_table(kernels)]) + "\n"


def _table(kernels: Sequence[FinalKernel]) -> list[str]:
    """The dispatches of a program, with their source ops and tensors."""
    rows = [_row(index, kernel) for index, kernel in enumerate(kernels)]
    widths = [max(map(len, column)) for column in zip(_COLUMNS, *rows, strict=True)]
    lines = [_aligned(_COLUMNS, widths)]
    function = None
    for kernel, row in zip(kernels, rows, strict=True):
        if kernel.function != function:
            function = kernel.function
            lines.append(f"function @{printable(function)}" if function else "made by scheduling")
        lines.append(_aligned(row, widths))
        if kernel.function:
            loop = "" if kernel.calls is not None else "; in a loop or branch"
            lines.append(f"      {_formed(kernel)}{loop}: {signature(kernel)}")
        lines.extend(f"        {line}" for line in op_runs(kernel))
    return lines


def _aligned(row: Iterable[str], widths: Iterable[int]) -> str:
    cells = (
        cell.rjust(width) if name in _RIGHT_ALIGNED else cell.ljust(width)
        for name, cell, width in zip(_COLUMNS, row, widths, strict=True)
    )
    return "  ".join(cells).rstrip()


def _totals(kernels: Sequence[FinalKernel]) -> str:
    ours = sum(kernel.code != IREE for kernel in kernels)
    moved = byte_size(moved_bytes(kernels))
    noun = "kernel" if len(kernels) == 1 else "kernels"
    return f"{len(kernels)} {noun}, {ours} of them generated by mlirfuse; bytes moved: {moved}"


def kernel_lines(report: Report, function: str) -> Iterator[str]:
    """The kernels of a function, and the tensors between them by reason, for `--explain`."""
    numbered = [(i, k) for i, k in enumerate(report.kernels) if k.function == function]
    if not numbered:
        return
    yield f"  kernels ({len(numbered)})"
    for _, run in itertools.groupby(numbered, key=lambda entry: _kind(entry[1])):
        yield from _run_lines(list(run))
    inside = {index for index, _ in numbered}
    boundaries = [b for b in report.boundaries if b.source in inside]
    if boundaries:
        yield f"  tensors between kernels ({len(boundaries)})"
        yield from _boundary_lines(boundaries)


def _kind(kernel: FinalKernel) -> tuple[object, ...]:
    """Equal for kernels that differ by the number of a dispatch, and of a match, alone."""
    return (_unnumbered(kernel.name), kernel.places, kernel.op_names, kernel.pass_name, kernel.code)


def _run_lines(run: Sequence[tuple[int, FinalKernel]]) -> Iterator[str]:
    """The lines of consecutive kernels of one kind, and their indices."""
    (first, kernel), (last, _) = run[0], run[-1]
    indices = f"#{first}" if len(run) == 1 else f"#{first} to #{last}"
    count = len(kernel.ops)
    noun = "op" if count == 1 else "ops"
    each = "" if len(run) == 1 else " each"
    code = "" if kernel.code == IREE else f", code of {printable(kernel.code)}"
    formed = _formed(kernel)
    if kernel.pass_name is not None and len(run) > 1:
        formed = f"formed by {printable(kernel.pass_name)}"
    yield f"    {indices} {printable(kernel.name)}: {count} {noun}{each}, {formed}{code}"
    yield from (f"      {line}" for line in op_runs(kernel))


def scheduled_lines(report: Report) -> Iterator[str]:
    """The kernels that IREE made when it scheduled the program, for `--explain`."""
    names = [kernel.name for kernel in report.kernels if not kernel.function]
    if names:
        yield f"kernels made by IREE's scheduling ({len(names)})"
    for name, count in collections.Counter(names).items():
        times = f" (x{count})" if count > 1 else ""
        yield f"    {printable(name)}{times}"
    if any(map(_PACKS.search, names)) or _packs_arguments(report):
        yield f"  {PACKED_IN_EACH_CALL}"


def _packs_arguments(report: Report) -> bool:
    """Whether a kernel packs a matrix that no other kernel writes, for a matmul of ours."""
    written = {boundary.target for boundary in report.boundaries}
    for boundary in report.boundaries:
        if boundary.source in written or boundary.reason is not BoundaryReason.DATA_MOVEMENT:
            continue
        packing, matmul = report.kernels[boundary.source], report.kernels[boundary.target]
        # Blocks of rows or columns, each of which is contiguous.
        alone = sum(not operand.is_result for operand in packing.operands) == 1
        if matmul.code == _PACKED_MATMUL and alone and len(boundary.shape) > 2:
            return True
    return False


def _boundary_lines(boundaries: Iterable[Boundary]) -> Iterator[str]:
    by_reason: dict[Reason | BoundaryReason, list[Boundary]] = {}
    for boundary in boundaries:
        by_reason.setdefault(boundary.reason, []).append(boundary)
    for reason, found in sorted(by_reason.items(), key=lambda item: -len(item[1])):
        yield f"    {reason.code} ({len(found)}): {reason.text}"
        yield f"      hint: {reason.hint}"
        alike: dict[tuple[str, ...], list[Boundary]] = {}
        for boundary in found:
            names = map(_unnumbered, (boundary.source_name, boundary.target_name, boundary.detail))
            alike.setdefault((*names, exchanged(boundary)), []).append(boundary)
        for (*_, kind), same in alike.items():
            times = f" (x{len(same)})" if len(same) > 1 else ""
            detail = same[0].detail
            reason_detail = f" ({place(detail)})" if detail else ""
            pair = f"#{same[0].source} -> #{same[0].target}"
            yield f"      {pair}{times}: {kind}{reason_detail}"


def _unnumbered(name: str) -> str:
    """A name without the number that IREE gives each dispatch of a function."""
    return _NUMBER.sub("_dispatch_", name)


def exchanged(boundary: Boundary) -> str:
    """Type and size of the tensor of a boundary."""
    kind = tensor(Operand(boundary.shape, boundary.dtype, boundary.bytes))
    return f"{kind}, {byte_size(boundary.bytes)}"
