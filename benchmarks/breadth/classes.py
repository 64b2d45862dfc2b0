"""The classes of programs, each with its share of the programs."""

from __future__ import annotations

from benchmarks.breadth import (
    contractions,
    drawing,
    elementwise,
    joined,
    movement,
    narrow,
    recurrent,
)
from benchmarks.breadth.drawing import Program

CLASSES = (
    ("pointwise", 2.0, elementwise.pointwise),
    ("reduction", 2.5, elementwise.reduction),
    ("norm", 2.0, elementwise.norm),
    ("loss", 1.0, elementwise.loss),
    ("scan", 1.0, elementwise.scan),
    ("matmul", 3.0, contractions.matmul),
    ("convolution", 3.0, contractions.convolution),
    ("attention", 2.0, contractions.attention),
    ("movement", 2.0, movement.movement),
    ("image", 1.0, movement.image),
    ("block", 1.5, movement.block),
    ("recurrent", 1.0, recurrent.recurrent),
    ("narrow", 1.5, narrow.narrow),
    ("sampled", 0.5, narrow.sampled),
    ("joined", 2.0, joined.joined),
)
"""Name, weight and function of each class."""


def draw(seed: int, index: int, *, cpu: bool = False) -> Program:
    """The program of a seed and an index."""
    return drawing.draw(seed, index, CLASSES, cpu=cpu)


def named(name: str) -> Program:
    """The program of a name, `SEED-INDEX` or `SEED-INDEX-cpu`."""
    seed, index = name.removesuffix(drawing.CPU_SUFFIX).split("-")
    return draw(int(seed), int(index), cpu=name.endswith(drawing.CPU_SUFFIX))
