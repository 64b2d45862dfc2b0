"""The table of forms, and the cases of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from benchmarks.gpu.check.attentions import ATTENTIONS
from benchmarks.gpu.check.case import Case, Chance, Form
from benchmarks.gpu.check.images import CONVOLUTIONS, POOLINGS
from benchmarks.gpu.check.matmuls import MATMULS
from benchmarks.gpu.check.rows import CONCAT, ELEMENTWISE, ROW
from mlirfuse.core import UsageError, nearest

KERNELS: Mapping[str, Mapping[str, Form]] = {
    "row_triton_kernel": ROW,
    "matmul_triton_kernel": MATMULS,
    "conv_triton_kernel": CONVOLUTIONS,
    "pool_triton_kernel": POOLINGS,
    "attention_triton_kernel": ATTENTIONS,
    "concat_triton_kernel": CONCAT,
    "elementwise_triton_kernel": ELEMENTWISE,
}
"""Pass -> its forms."""

FORMS: Mapping[str, tuple[str, Form]] = {
    name: (kernel, form) for kernel, forms in KERNELS.items() for name, form in forms.items()
}

TABLE = "cases.json"
"""File beside programs that says which cases they hold."""


def case(name: str, seed: int, *, small: bool = False) -> Case:
    """The case of a name, `FORM_NUMBER`.

    Raises:
      UsageError: no form is called so.
    """
    form, _, number = name.rpartition("_")
    if form not in FORMS or not number.isdecimal():
        raise UsageError(f"no case is called '{name}'{nearest(form, FORMS)}")
    kernel, make = FORMS[form]
    return Case(form, int(number), kernel, make(Chance(seed, form, int(number), small=small)))


def names(count: int, words: Sequence[str] = ()) -> list[str]:
    """Names of at most so many cases, the forms in turns.

    Args:
      count: of all cases together.
      words: a form, or the pass that it is of, has one of them in its name; all without words.
    """
    low = [word.lower() for word in words]
    chosen = [
        form for form, (kernel, _) in FORMS.items() if not low or _said(f"{form} {kernel}", low)
    ]
    return [f"{chosen[n % len(chosen)]}_{n // len(chosen)}" for n in range(count if chosen else 0)]


def _said(text: str, words: Sequence[str]) -> bool:
    return any(word in text for word in words)
