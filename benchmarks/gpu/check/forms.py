"""The table of forms, and the cases of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from benchmarks.gpu.check.attention import ATTENTIONS
from benchmarks.gpu.check.case import Case, Chance, Form
from benchmarks.gpu.check.convolutions import CONVOLUTIONS, POOLINGS
from benchmarks.gpu.check.matmuls import MATMULS
from benchmarks.gpu.check.movements import MOVEMENTS, SCANS
from benchmarks.gpu.check.recurrences import RECURRENCES
from benchmarks.gpu.check.reductions import REDUCTIONS
from benchmarks.gpu.check.rows import CONCAT, ELEMENTWISE, ROW
from benchmarks.gpu.check.scatters import SCATTERS
from benchmarks.gpu.check.sorts import SORTS
from mlirfuse.core import UsageError, nearest

KERNELS: Mapping[str, Mapping[str, Form]] = {
    "row_triton_kernel": {**ROW, **REDUCTIONS},
    "matmul_triton_kernel": MATMULS,
    "conv_triton_kernel": CONVOLUTIONS,
    "pool_triton_kernel": POOLINGS,
    "attention_triton_kernel": ATTENTIONS,
    "concat_triton_kernel": CONCAT,
    "elementwise_triton_kernel": {**ELEMENTWISE, **MOVEMENTS},
    "scan_triton_kernel": SCANS,
    "scatter_triton_kernel": SCATTERS,
    "sort_triton_kernel": SORTS,
    "recurrence_triton_kernel": RECURRENCES,
}
"""Pass -> its forms."""

FORMS: Mapping[str, tuple[str, Form]] = {
    name: (kernel, form) for kernel, forms in KERNELS.items() for name, form in forms.items()
}

TABLE = "cases.json"
"""File next to the programs that lists their cases."""


def case(name: str, seed: int, *, small: bool = False) -> Case:
    """The case of a name, `FORM_ORDINAL`.

    Raises:
      UsageError: there is no such form.
    """
    form, _, ordinal = name.rpartition("_")
    if form not in FORMS or not ordinal.isdecimal():
        raise UsageError(f"no case is called '{name}'{nearest(form, FORMS)}")
    kernel, make = FORMS[form]
    return Case(form, int(ordinal), kernel, make(Chance(seed, form, int(ordinal), small=small)))


def names(count: int, words: Sequence[str] = ()) -> list[str]:
    """Names of cases, with the forms in rotation.

    Args:
      count: number of cases.
      words: selects forms with one of them in the name of the form or its pass; all if empty.
    """
    low = [word.lower() for word in words]
    chosen = [
        form
        for form, (kernel, _) in FORMS.items()
        if not low or _has_one_of(f"{form} {kernel}", low)
    ]
    return [f"{chosen[n % len(chosen)]}_{n // len(chosen)}" for n in range(count if chosen else 0)]


def _has_one_of(text: str, words: Sequence[str]) -> bool:
    return any(word in text for word in words)
