"""Features of programs, for counts: types, ranks, sizes, control flow, ops."""

from __future__ import annotations

import re

_TYPES = ("f64", "f32", "f16", "bf16", "i8", "i32", "i64", "i1")

_SHAPES = re.compile(r"tensor<((?:(?:\d+|\?)x)*)[a-z]")

_USED = re.compile(r"%v\d+(?:#\d)?")

_SOFTMAX = re.compile(r"math\.exp %s|stablehlo\.exponential .*\n.*constant dense<0\.0")

_WORDS: dict[str, tuple[str, ...]] = {
    "dynamic size": ("tensor<?x",),
    "several functions": ("_other(",),
    "global": ("util.global.load",),
    "scf.if": ("scf.if",),
    "scf.for": ("scf.for",),
    "scf.while": ("scf.while",),
    "stablehlo.if": ("stablehlo.if",),
    "stablehlo.while": ("stablehlo.while",),
    "call": ("func.call",),
    "elementwise": ('"parallel"', "stablehlo.add", "stablehlo.tanh"),
    "broadcast": ("(d0, d1) -> (d1)>", "(d0, d1, d2) -> (d2)>", "stablehlo.broadcast_in_dim"),
    "select": ("arith.select", "stablehlo.select"),
    "conversion": ("arith.truncf", "arith.extf", "stablehlo.convert"),
    "reduction": ('"reduction"', "stablehlo.reduce"),
    "contraction": ("linalg.matmul", "linalg.batch_matmul", "stablehlo.dot_general"),
    "transpose": ("linalg.transpose", "stablehlo.transpose"),
    "reshape": ("tensor.collapse_shape", "tensor.expand_shape", "stablehlo.reshape"),
    "slice": ("tensor.extract_slice", "stablehlo.slice"),
    "slice at a given place": ("stablehlo.dynamic_slice", "stablehlo.dynamic_update_slice"),
    "concatenation": ("tensor.concat", "stablehlo.concatenate"),
    "padding": ("tensor.pad", "stablehlo.pad"),
    "gather": ("tensor.extract %", "stablehlo.gather"),
    "linalg.softmax": ("linalg.softmax",),
    "norm": ("1.000000e-02",),
    "layers that are alike": ("// layer",),
    "constant data": ("dense<[",),
}
"""Feature -> strings, one of which occurs in a program with it."""

KINDS = (
    *_TYPES,
    *(f"rank {rank}" for rank in range(6)),
    *("size 0", "size 1", "several results", "shared value", "softmax"),
    *_WORDS,
)
"""All features that random programs must have."""


def kinds(text: str) -> set[str]:
    """The features of a program."""
    found = {kind for kind, words in _WORDS.items() if any(word in text for word in words)}
    found |= {kind for kind in _TYPES if f"x{kind}>" in text or f"<{kind}>" in text}
    shapes = {shape for shape in _SHAPES.findall(text)}
    found |= {f"rank {shape.count('x')}" for shape in shapes}
    sizes = {size for shape in shapes for size in shape.split("x")}
    found |= {f"size {n}" for n in (0, 1) if str(n) in sizes}
    found |= {"several results"} if re.search(r"\) -> \([^)]*>, ", text) else set()
    used = _USED.findall(text)
    found |= {"shared value"} if any(used.count(name) > 2 for name in set(used)) else set()
    found |= {"softmax"} if _SOFTMAX.search(text) else set()
    return found & set(KINDS)
