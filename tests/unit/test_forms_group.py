"""Whether a pass forms groups: a fact of its own, which `Kind` only gives a default for."""

import dataclasses

import pytest

from mlirfuse.core import Decision, FusionPass, Kind

GROUPING = FusionPass(name="a_fusion", summary="", roots=(), rewrite=lambda match, ctx: match.root)
DECISION = Decision("a_fusion", 0, Kind.EPILOGUE, "main", (), (), True)


@pytest.mark.parametrize("kind", Kind)
def test_every_kind_but_a_rewrite_forms_groups_by_default(kind):
    assert dataclasses.replace(GROUPING, kind=kind).groups == (kind is not Kind.REWRITE)
    assert dataclasses.replace(DECISION, kind=kind).made_group == (kind is not Kind.REWRITE)


@pytest.mark.parametrize("given", [True, False])
@pytest.mark.parametrize("kind", Kind)
def test_forms_group_decides_where_it_is_given(kind, given):
    assert dataclasses.replace(GROUPING, kind=kind, forms_group=given).groups == given
    decision = dataclasses.replace(DECISION, kind=kind, forms_group=given)
    assert decision.made_group == given
    assert Decision.from_dict(decision.to_dict()) == decision
    assert not dataclasses.replace(decision, taken=False).made_group


def test_a_report_without_the_key_is_read():
    entry = DECISION.to_dict()
    del entry["forms_group"]
    assert Decision.from_dict(entry).made_group
