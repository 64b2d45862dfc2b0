"""A kernel that is taken from a region like it is the one that would be written."""

import dataclasses

import pytest

from helpers.models import records
from mlirfuse import compilation, targets
from mlirfuse.backend import grouping
from mlirfuse.kernels.vector import repeated

MODELS = ("bert", "vit", "llama", "whisper")
"""Attention with and without masks, rotary embeddings, and layers that repeat."""


@pytest.mark.parametrize("name", MODELS)
def test_kernels_of_models(name, monkeypatch):
    once, taken, written = repeated.once, [], []

    def both(group, results, about, write):
        def counted():
            written.append(about)
            return write()

        before = len(written)
        found, fresh = once(group, results, about, counted), write()
        taken.append(len(written) == before)
        for field in dataclasses.fields(fresh):
            assert getattr(found, field.name) == getattr(fresh, field.name), field.name
        return found

    monkeypatch.setattr(repeated, "once", both)
    target, options = targets.parse("cpu"), compilation.resolved(None, {})
    path = records.imported(name)[0]
    with compilation.open_model(path, None, target=target, options=options) as work:
        output = work.folder / "grouped.mlirbc"
        grouping.group(work.normalized, output, target=work.compiler.target, options=options)
    assert any(taken)
