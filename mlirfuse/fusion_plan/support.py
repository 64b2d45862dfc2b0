"""The support table of fusion plans, from `check`: combinations by target."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from mlirfuse import targets
from mlirfuse.fusion_plan.activations import ACTIVATIONS
from mlirfuse.fusion_plan.codes import Code, Refusal
from mlirfuse.fusion_plan.conditions import FORMS
from mlirfuse.fusion_plan.description import Description
from mlirfuse.fusion_plan.rules import TABLE, TARGETS, Rule, find
from mlirfuse.fusion_plan.tensors import DTYPES, LAYOUTS, TensorSpec
from mlirfuse.fusion_plan.text import parse
from mlirfuse.targets.base import Target

_TAILS = {
    "C": "",
    "CA": " -> leaky_relu",
    "CN": " -> batch_norm",
    "CBA": " -> bias -> relu",
    "CNA": " -> batch_norm -> elu",
    "CBNA": " -> bias -> batch_norm -> tanh",
    "CBNRA": " -> bias -> batch_norm -> residual -> relu",
}

_CONVS = {
    "1x1": "conv 1x1 64",
    "1x1, stride 2": "conv 1x1 s2 64",
    "3x3": "conv 3x3 64",
    "3x3, padding 1": "conv 3x3 p1 64",
    "3x3, stride 2, padding 1": "conv 3x3 s2 p1 64",
    "7x7, stride 2, padding 3": "conv 7x7 s2 p3 64",
    "grouped 3x3": "conv 3x3 64 g4",
    "grouped 3x3, padding 1": "conv 3x3 p1 64 g4",
    "depthwise 3x3": "depthwise 3x3",
    "depthwise 3x3, padding 1": "depthwise 3x3 p1",
    "transposed 3x3": "conv 3x3 64 transpose",
}

_IMAGES = {
    "NA": "batch_norm -> relu",
    "NA, per activation": "batch_norm per_activation -> relu",
    "NA training (NAF)": "batch_norm_training -> relu",
    "NA training, per activation": "batch_norm_training per_activation -> relu",
    "AN backward": "relu_backward -> batch_norm_backward",
    "A": "elu",
    "A backward": "elu_backward",
    "max pooling, A": "maxpool 3x3 s2 p1 -> relu",
    "average pooling, A": "avgpool 2x2 s2 -> relu",
    "average pooling with padding, A": "avgpool 3x3 s2 p1 -> relu",
    "A, C": "relu -> conv 3x3 64",
}

_ROWS = {
    "matmul": "matmul 512",
    "matmul, bias, A": "linear 512 -> bias -> gelu",
    "matmul, bias, residual": "matmul 256 -> bias -> residual",
    "matmul, bias, quantize": "matmul 512 -> bias -> quantize",
    "A, matmul": "relu -> matmul 512",
    "matmul, softmax": "matmul 512 -> softmax",
    "layer norm, A": "layer_norm -> silu",
    "residual, RMS norm, quantize": "add -> rms_norm -> quantize",
    "bias, softmax": "bias -> softmax",
    "A, mean, A": "abs -> mean -> tanh",
}

_ATTENTION = {"attention": "attention", "attention, residual": "attention -> residual"}

_SHAPES: Mapping[str, tuple[int, ...]] = {
    "NCHW": (2, 32, 28, 28),
    "NHWC": (2, 28, 28, 32),
    "": (128, 256),
}
"""Layout -> the shape of which the table is made."""

_HEADS = (2, 8, 128, 64)


def entries() -> Iterator[tuple[str, str, str, tuple[int, ...], str]]:
    """Name, variant, text, shape and layout of each row."""
    for layout in ("NCHW", "NHWC"):
        shape = _SHAPES[layout]
        for tail, rest in _TAILS.items():
            yield tail, f"{layout}, 3x3, padding 1", f"conv 3x3 p1 64{rest}", shape, layout
        for variant, conv in _CONVS.items():
            yield "CBA", f"{layout}, {variant}", f"{conv}{_TAILS['CBA']}", shape, layout
        for name, text in _IMAGES.items():
            yield name, layout, text, shape, layout
    for name, text in _ROWS.items():
        yield name, "row-major", text, _SHAPES[""], ""
    for name, text in _ATTENTION.items():
        yield name, "batch, heads, tokens, size", text, _HEADS, ""


def described(text: str, shape: tuple[int, ...], layout: str, dtype: str) -> Description:
    """The plan of a row for an element type."""
    return parse(text, TensorSpec(shape, dtype, layout))


def _cell(text: str, shape: tuple[int, ...], layout: str, target: Target) -> str:
    """Whether the plan is one kernel: for which element types, or why not."""
    codes = {}
    for dtype in DTYPES:
        try:
            find(described(text, shape, layout, dtype), target)
            codes[dtype] = Code.ONE_KERNEL
        except Refusal as refusal:
            codes[dtype] = refusal.code
    found = set(codes.values())
    if len(found) == 1:
        return "yes" if found == {Code.ONE_KERNEL} else f"`{found.pop().value}`"
    return ", ".join(d for d, code in codes.items() if code is Code.ONE_KERNEL)


def table() -> str:
    """The table in Markdown."""
    machines = {name: targets.parse(name) for name in TARGETS}
    lines = [
        f"| ops | variant | {' | '.join(machines)} |",
        "| --- | --- |" + " --- |" * len(machines),
    ]
    for name, variant, text, shape, layout in entries():
        cells = [_cell(text, shape, layout, machine) for machine in machines.values()]
        lines.append(f"| {name} | {variant} | {' | '.join(cells)} |")
    return "\n".join(lines)


def rules_table() -> str:
    """The rules in Markdown: the root, the conditions, and the source of each."""
    lines = [
        "| targets | root | from | before it | conditions |",
        "| --- | --- | --- | --- | --- |",
    ]
    sharing: dict[int, list[str]] = {}
    for name, rules in TABLE.items():
        for rule in rules:
            sharing.setdefault(id(rule), []).append(name)
    for rules in TABLE.values():
        for rule in rules:
            if names := sharing.pop(id(rule), None):
                lines.append(_rule_row(", ".join(names), rule))
    return "\n".join(lines)


def _rule_row(names: str, rule: Rule) -> str:
    limits = [f"not {condition.detail}" for condition in rule.conditions]
    if rule.modes is not None:
        limits.append(f"modes {', '.join(rule.modes)}")
    if len(rule.forms) < len(FORMS):
        limits.append(f"{', '.join(rule.forms)} convolutions")
    if rule.layouts[0] and len(rule.layouts) < len(LAYOUTS):
        limits.append(f"layouts {', '.join(rule.layouts)}")
    root = ", ".join(kind or "elementwise" for kind in rule.roots)
    before = "elementwise ops" if rule.prologue else ""
    return f"| {names} | {root} | {rule.source} | {before} | {'; '.join(limits)} |"


def activations_table() -> str:
    """The activations in Markdown."""
    lines = ["| mode | definition | scalars |", "| --- | --- | --- |"]
    for mode, entry in ACTIVATIONS.items():
        formula, scalars = entry.formula.replace("|", "\\|"), ", ".join(entry.scalars)
        lines.append(f"| `{mode}` | {formula} | {scalars} |")
    return "\n".join(lines)


def codes_table() -> str:
    """The codes in Markdown."""
    lines = ["| code | value |", "| --- | --- |"]
    lines += [f"| `Code.{code.name}` | `{code.value}` |" for code in Code]
    return "\n".join(lines)
