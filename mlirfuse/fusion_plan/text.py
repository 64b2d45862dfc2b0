"""Reads plans from text: `conv 3x3 s1 p1 64 -> bias -> relu`.

An op is a name and words: sizes (`3x3`), `sN` stride, `pN` padding, `dN` dilation, `gN` groups,
`opN` output padding, a number of filters or columns, a mode, or `parameter=value`, as the texts of
`check` have them.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from typing import Any

from mlirfuse.core import UsageError, nearest
from mlirfuse.fusion_plan.activations import ACTIVATIONS
from mlirfuse.fusion_plan.description import Description
from mlirfuse.fusion_plan.ops import OPS, Op
from mlirfuse.fusion_plan.tensors import TensorSpec

_BACKWARD = "_backward"

ALIASES: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "conv": ("conv_forward", {}),
    "conv_transpose": ("conv_forward", {"mode": "transpose"}),
    "depthwise": ("conv_forward", {"filters": None, "groups": None}),
    "batch_norm": ("batch_norm_inference", {}),
    "batch_norm_training": ("batch_norm_forward_training", {}),
    "add": ("residual", {}),
    "linear": ("matmul", {"transposed": True}),
    "layer_norm": ("norm", {"mode": "layer"}),
    "rms_norm": ("norm", {"mode": "rms"}),
    "maxpool": ("pool", {"mode": "max"}),
    "avgpool": ("pool", {"mode": "average"}),
    **{mode: ("reduce", {"mode": mode}) for mode in ("sum", "mean", "max", "min")},
    **{mode: ("activation", {"mode": mode}) for mode in ACTIVATIONS},
    **{f"{mode}{_BACKWARD}": (f"activation{_BACKWARD}", {"mode": mode}) for mode in ACTIVATIONS},
}
"""Name in a text -> op and parameters; names of ops are accepted too. None stands for the number of
channels."""

_LETTERS = {
    "k": "kernel",
    "s": "stride",
    "p": "padding",
    "d": "dilation",
    "g": "groups",
    "op": "output_padding",
}
_LETTER = re.compile(r"(op|[kspdg])(\d+(?:x\d+)*)")
_SIZES = re.compile(r"\d+(?:x\d+)+")
_NUMBER = {"conv_forward": "filters", "matmul": "n", "attention": "keys"}


def parse(text: str, given: TensorSpec) -> Description:
    """The plan of a text.

    Args:
      text: the ops, separated by `->`.
      given: the first op's input.

    Raises:
      UsageError: an op or a word of it is unknown.
    """
    ops: list[Op] = []
    for part in filter(None, (part.strip() for part in text.split("->"))):
        channels = _channels(given, ops)
        ops.append(_op(part.split(), channels))
    return Description(given, tuple(ops))


def _channels(given: TensorSpec, ops: list[Op]) -> int:
    found = [op.filters for op in ops if hasattr(op, "filters")]
    return found[-1] if found else given.channels


def _op(words: list[str], channels: int) -> Op:
    name = words[0].lower().replace("-", "_")
    if name not in ALIASES and name not in OPS:
        raise UsageError(f"unknown op '{words[0]}'{nearest(name, {*ALIASES, *OPS})}")
    kind, fixed = ALIASES.get(name, (name, {}))
    values = {key: channels if value is None else value for key, value in fixed.items()}
    fields = {field.name: field for field in dataclasses.fields(OPS[kind])}
    for word in words[1:]:
        key, value = _word(word, kind)
        if key not in fields:
            raise UsageError(f"{words[0]}: '{word}' is no parameter{nearest(key, fields)}")
        values[key] = value
    for key, field in fields.items():
        if field.default is dataclasses.MISSING and key not in values:
            raise UsageError(f"{words[0]} needs a number, its {key}: '{words[0]} 64'")
    return OPS[kind](**values)


def _word(word: str, kind: str) -> tuple[str, Any]:
    """The parameter that a word of an op sets, and its value."""
    key, equals, text = word.partition("=")
    if equals:
        return key, _value(key, text, word)
    if found := _LETTER.fullmatch(word):
        return _LETTERS[found[1]], _sizes(found[2])
    if _SIZES.fullmatch(word):
        return "kernel", _sizes(word)
    if word.lstrip("-").isdigit() and kind in _NUMBER:
        return _NUMBER[kind], int(word)
    if re.fullmatch(r"-?\d+(,-?\d+)*", word):
        return "axes", tuple(map(int, word.split(",")))
    if word == "transposed":
        return word, True
    return "mode", word


def _value(key: str, text: str, word: str) -> Any:
    if key == "mode":
        return text
    if key == "transposed":
        return text == "True"
    if key == "axes":
        return tuple(map(int, re.split("[x,]", text)))
    if not re.fullmatch(r"\d+(x\d+)*", text):
        raise UsageError(f"'{word}' is no number; expected {key}=3 or {key}=3x3")
    return _sizes(text)


def _sizes(text: str) -> int | tuple[int, ...]:
    sizes = tuple(map(int, text.split("x")))
    return sizes[0] if len(sizes) == 1 else sizes
