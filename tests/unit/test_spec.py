"""The pipeline string: reads, prints, round trips, and names the column of an error."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlirfuse.core import UsageError
from mlirfuse.pipelines.spec import PipelineItem, parse, write

NAMES = st.from_regex(r"[a-z_][a-z0-9_.-]{0,12}", fullmatch=True)
VALUES = st.text(st.characters(codec="utf-8", exclude_characters="\"'"), max_size=12) | st.text(
    st.characters(codec="utf-8", exclude_characters='"'), max_size=12
)
BRACED = st.text("ab, =\"'", max_size=6).map(lambda t: "{" + t + "}")


def items(children):
    return st.builds(
        PipelineItem,
        NAMES,
        st.dictionaries(NAMES, VALUES | BRACED, max_size=3),
        st.none() | st.lists(children, max_size=3).map(tuple),
    )


PIPELINES = st.lists(
    st.recursive(st.builds(PipelineItem, NAMES), items, max_leaves=6), max_size=4
).map(tuple)


@settings(max_examples=100, deadline=None)
@given(PIPELINES)
def test_a_pipeline_survives_a_round_trip(pipeline):
    assert parse(write(pipeline)) == pipeline


def test_names_options_and_anchors():
    first, second, third = parse("a{opt=2 flag},cse, util.func( canonicalize{x='a b'} , cse )")
    assert first == PipelineItem("a", {"opt": "2", "flag": "true"})
    assert not first.anchor
    assert second == PipelineItem("cse")
    assert third.anchor
    assert third.children == (PipelineItem("canonicalize", {"x": "a b"}), PipelineItem("cse"))
    assert list(first.options) == ["opt", "flag"]


@pytest.mark.parametrize(
    "text",
    [
        "a",
        "a,b-c,iree-codegen.x_1",
        "a{opt=2 flag=true},b,cse,util.func(canonicalize,cse)",
        'a{x="b c" y={p=1 q={2}} z=1,2}',
        "builtin.module(func.func())",
        "a{x='say \"no\"'}",
        'a{x=""}',
        "",
    ],
)
def test_canonical_text_is_kept(text):
    assert write(parse(text)) == text


@pytest.mark.parametrize(
    ("text", "column", "expected"),
    [
        (",a", 1, "the name of a pass"),
        ("a,", 3, "the name of a pass"),
        ("a,,b", 3, "the name of a pass"),
        ("a b", 3, "',' or the end"),
        ("a{opt=2", 8, "an option or the '}' of 'a{'"),
        ("a{=2}", 3, "an option or the '}' of 'a{'"),
        ("a{opt=}", 7, "a value after '='"),
        ("a{x='b}", 8, "the closing '"),
        ("a{x={b", 7, "the closing }"),
        ("a,\nb c", 6, "',' or the end"),
        ("a{x=1 x=2}", 7, "given twice"),
        ("f(a,b", 6, "',' or the ')' of 'f('"),
        ("f(a))", 5, "',' or the end"),
    ],
)
def test_errors_name_the_column(text, column, expected):
    with pytest.raises(UsageError) as caught:
        parse(text)
    message = str(caught.value)
    assert f"column {column}: " in message
    assert expected in message
    assert "\n" not in message


def test_a_value_that_cannot_be_written_is_refused():
    with pytest.raises(UsageError, match="'x' of 'a' holds both"):
        PipelineItem("a", {"x": 'it\'s "so"'})
