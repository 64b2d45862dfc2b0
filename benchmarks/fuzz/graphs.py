"""Random programs as MLIR text, from a seed and a number of steps.

    graph(seed=7, steps=10)

A program with fewer steps is a prefix of the longer one of the same seed, so that failures can be
reduced. Values stay small and no comparison uses computed floats, since two correct programs may
round differently.
"""

from __future__ import annotations

import random

from benchmarks.fuzz import linalg, stablehlo

DIALECTS = {"linalg": linalg.function, "stablehlo": stablehlo.function}


def graph(seed: int, steps: int, name: str = "main", dialect: str = "linalg") -> str:
    """The text of a module with a public function of a name.

    Texts of one dialect with different names can be concatenated.
    """
    chance, function = random.Random(seed), DIALECTS[dialect]
    dynamic = chance.random() < 0.2
    other = chance.random() < 0.15
    text = function(random.Random(chance.random()), name, steps, dynamic=dynamic)
    if other:
        other_chance = random.Random(chance.random())
        text += function(other_chance, f"{name}_other", steps // 2 + 1, dynamic=False)
    return text
