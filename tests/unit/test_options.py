"""The option object: values, places, their order, contradictions, and selectors."""

import json
import threading
import tomllib

import pytest

from mlirfuse.core import FusionPass, Kind, UsageError
from mlirfuse.options import (
    FEATURES,
    FusionOptions,
    Selector,
    scoped,
    spelled,
    switch_names,
    switches,
)
from mlirfuse.patterns import PASSES


def entry(name, *aliases, kind=Kind.PRODUCER_CONSUMER):
    return FusionPass(
        name=name,
        summary=name,
        roots=(),
        match=lambda op, ctx: None,
        rewrite=lambda match, ctx: match.root,
        aliases=aliases,
        kind=kind,
    )


TABLE = {
    "softmax_fusion": entry("softmax_fusion", "softmax_tail"),
    "layer_norm_fusion": entry("layer_norm_fusion"),
    "rms_norm_fusion": entry("rms_norm_fusion"),
}
SIBLING = {"horizontal_fusion": entry("horizontal_fusion", kind=Kind.SIBLING)}


@pytest.fixture(autouse=True)
def places(monkeypatch, tmp_path):
    monkeypatch.setattr("mlirfuse.patterns.PASSES", dict(TABLE), raising=False)
    monkeypatch.delenv("MLIRFUSE_FLAGS", raising=False)
    monkeypatch.delenv("MLIRFUSE_CONFIG", raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def refusal(**switches):
    with pytest.raises(UsageError) as caught:
        FusionOptions.resolve(**switches)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_defaults():
    options = FusionOptions.resolve()
    assert options == FusionOptions()
    assert options.pipeline == "default"
    assert options.numerics == "reassociating"
    assert options.fusion_limit is None
    assert options.pass_switch("softmax_fusion") is None
    assert options.allows("softmax_fusion", "main", 0)
    assert options.origins == {}


@pytest.mark.parametrize(
    "name", ["softmax_fusion", "SoftMax-Fusion", "SOFTMAXFUSION", "Softmax_Tail"]
)
def test_names_are_matched_without_case_and_separators_and_aliases_resolve(name):
    assert FusionOptions.resolve(disable_pass=name).disable_pass == ("softmax_fusion",)


def test_an_unknown_pass_suggests_the_nearest_and_lists_all():
    message = refusal(disable_pass=["softmx_fusion"])
    assert message.startswith("--disable-pass: unknown pass 'softmx_fusion'")
    assert "did you mean 'softmax_fusion'?" in message
    assert all(name in message for name in TABLE)


@pytest.mark.parametrize(
    ("text", "selector"),
    [
        ("softmax_fusion", Selector("softmax_fusion")),
        ("softmax_fusion@match=3", Selector("softmax_fusion", match=3)),
        ("softmax-tail@func=main", Selector("softmax_fusion", func="main")),
        ("softmax_fusion@match=0@func=f", Selector("softmax_fusion", match=0, func="f")),
    ],
)
def test_selectors(text, selector):
    assert Selector.parse(text) == selector
    assert Selector.parse(str(selector)) == selector


@pytest.mark.parametrize(
    "qualifier", ["@match=x", "@match=-1", "@m=1", "@func=", "@match=1@match=2"]
)
def test_a_bad_qualifier_lists_the_accepted_ones(qualifier):
    assert "@match=NUMBER, @func=NAME" in refusal(enable_pass=f"softmax_fusion{qualifier}")


def test_disable_beats_enable_in_one_place_and_leaves_a_note():
    options = FusionOptions.resolve(
        disable_pass="softmax_fusion", enable_pass="softmax_fusion,layer_norm_fusion"
    )
    assert options.pass_switch("softmax_fusion") is False
    assert options.enable_pass == ("layer_norm_fusion",)
    assert options.notes == (
        "arguments: softmax_fusion is both disabled and enabled; disabled wins",
    )


def test_disabled_matches_of_a_pass():
    options = FusionOptions.resolve(
        disable_pass=["softmax_fusion@match=3", "softmax_fusion@func=other"]
    )
    assert options.pass_switch("softmax_fusion") is None
    assert not options.allows("softmax_fusion", "main", 3)
    assert options.allows("softmax_fusion", "main", 2)
    assert not options.allows("softmax_fusion", "other", 2)
    assert options.allows("layer_norm_fusion", "main", 3)


def test_enabled_matches_alone_run():
    options = FusionOptions.resolve(enable_pass="softmax_fusion@match=3@func=main")
    assert options.pass_switch("softmax_fusion") is True
    assert options.allows("softmax_fusion", "main", 3)
    assert not options.allows("softmax_fusion", "main", 2)
    assert not options.allows("softmax_fusion", "other", 3)


def test_the_whole_pass_disabled_beats_one_match_enabled():
    options = FusionOptions.resolve(
        disable_pass="softmax_fusion", enable_pass="softmax_fusion@match=3"
    )
    assert options.pass_switch("softmax_fusion") is False
    assert not options.allows("softmax_fusion", "main", 3)


def test_places_in_order(monkeypatch, places):
    (places / "mlirfuse.toml").write_text(
        "[tool.mlirfuse]\n"
        'disable_pass = ["softmax_fusion", "layer_norm_fusion", "rms_norm_fusion"]\n'
        'numerics = "exact"\nfusion-limit = 1\npipeline = "norms_only"\n'
        'skip_op_kind = ["linalg.matmul"]\n'
    )
    monkeypatch.setenv(
        "MLIRFUSE_FLAGS",
        "--enable_pass=softmax_fusion,layer_norm_fusion --fusion_limit=2 --numerics=any",
    )
    with scoped(disable_pass=["layer_norm_fusion"], fusion_limit=3):
        options = FusionOptions.resolve(fusion_limit=4)
    assert options.fusion_limit == 4
    assert options.numerics == "any"
    assert options.pipeline == "norms_only"
    assert options.skip_op_kind == ("linalg.matmul",)
    assert options.pass_switch("softmax_fusion") is True
    assert options.pass_switch("layer_norm_fusion") is False
    assert options.pass_switch("rms_norm_fusion") is False
    assert options.origins["fusion_limit"] == "arguments"
    assert options.origins["numerics"] == "MLIRFUSE_FLAGS"
    assert options.origins["pipeline"] == "mlirfuse.toml"
    assert options.origins["enable_pass"] == "MLIRFUSE_FLAGS"
    assert options.origins["disable_pass"] == (
        "with options(...): layer_norm_fusion; mlirfuse.toml: rms_norm_fusion"
    )
    assert FusionOptions.resolve().fusion_limit == 2


def test_scopes_nest_end_and_stay_in_their_thread():
    seen = []
    with scoped(disable_pass="softmax_fusion", numerics="exact"):
        with scoped(enable_pass="softmax_fusion"):
            inner = FusionOptions.resolve()
        outer = FusionOptions.resolve()
        thread = threading.Thread(target=lambda: seen.append(FusionOptions.resolve()))
        thread.start()
        thread.join()
    assert inner.pass_switch("softmax_fusion") is True
    assert inner.numerics == "exact"
    assert outer.pass_switch("softmax_fusion") is False
    assert seen == [FusionOptions()]
    assert FusionOptions.resolve() == FusionOptions()


def test_a_scope_refuses_at_once():
    with (
        pytest.raises(UsageError, match="unknown switch 'disable_passes'"),
        scoped(disable_passes=[]),
    ):
        pass


@pytest.mark.parametrize(
    ("flags", "field", "value"),
    [
        ("--disable_pass=softmax_fusion,layer_norm_fusion", "disable_pass", None),
        ("--disable-pass=softmax_fusion --disable-pass=layer_norm_fusion", "disable_pass", None),
        ("--Disable_Pass='softmax_fusion, layer_norm_fusion'", "disable_pass", None),
        ("--single_op_groups", "single_op_groups", True),
        ("--single-op-groups=off", "single_op_groups", False),
        ("--horizontal=off", "horizontal", False),
        ("--never-fuse=m.mlir:3:1", "never_fuse", ("m.mlir:3:1",)),
        ("--pipeline='softmax_fusion{a=1 b=2},cse'", "pipeline", "softmax_fusion{a=1 b=2},cse"),
        ("", "pipeline", "default"),
    ],
)
def test_environment_spellings(monkeypatch, flags, field, value):
    monkeypatch.setenv("MLIRFUSE_FLAGS", flags)
    expected = ("softmax_fusion", "layer_norm_fusion") if value is None else value
    assert getattr(FusionOptions.resolve(), field) == expected


@pytest.mark.parametrize(
    ("flags", "fragment"),
    [
        ("disable_pass=a", "'disable_pass=a' is not a switch"),
        ("--disable_pas=a", "unknown switch '--disable_pas'; did you mean '--disable-pass'?"),
        ("--disable-pass", "--disable-pass takes a value"),
        ("--pipeline='a", "no closing quotation"),
        ("--numerics=loose", "--numerics: unknown class 'loose'"),
    ],
)
def test_environment_errors_name_the_variable(monkeypatch, flags, fragment):
    monkeypatch.setenv("MLIRFUSE_FLAGS", flags)
    message = refusal()
    assert message.startswith("MLIRFUSE_FLAGS: ")
    assert fragment in message


def test_the_config_file_can_be_elsewhere_or_nowhere(monkeypatch, places):
    other = places / "other.toml"
    other.write_text("[tool.mlirfuse]\nsingle_op_groups = true\n")
    (places / "mlirfuse.toml").write_text('[tool.mlirfuse]\nnumerics = "exact"\n')
    monkeypatch.setenv("MLIRFUSE_CONFIG", str(other))
    options = FusionOptions.resolve()
    assert options.single_op_groups
    assert options.numerics == "reassociating"
    monkeypatch.setenv("MLIRFUSE_CONFIG", "")
    assert FusionOptions.resolve() == FusionOptions()
    monkeypatch.setenv("MLIRFUSE_CONFIG", str(places / "absent.toml"))
    assert "MLIRFUSE_CONFIG: cannot read" in refusal()


@pytest.mark.parametrize(
    ("text", "fragment"),
    [
        ("[tool.mlirfuse\n", "not valid TOML"),
        ("[tool]\nmlirfuse = 3\n", "must be a table"),
        ("[tool.mlirfuse]\npipelines = 'a'\n", "unknown switch 'pipelines'"),
        ("[tool.mlirfuse]\ndisable_pass = 3\n", "--disable-pass: takes names"),
        ("[tool.mlirfuse]\ndisable_pass = [3]\n", "--disable-pass: takes names"),
        ("[tool.mlirfuse]\nsingle_op_groups = 1\n", "--single-op-groups: takes on or off"),
        ("[tool.mlirfuse]\nmust_fuse = 3\n", "--must-fuse: takes"),
    ],
)
def test_config_errors_name_the_file(places, text, fragment):
    (places / "mlirfuse.toml").write_text(text)
    message = refusal()
    assert message.startswith("mlirfuse.toml: ")
    assert fragment in message


@pytest.mark.parametrize(
    ("switches", "fragment"),
    [
        ({"fusion_limit": -1}, "--fusion-limit: takes a number"),
        ({"fusion_limit": "two"}, "--fusion-limit: takes a number"),
        ({"fusion_limit": True}, "--fusion-limit: takes a number"),
        ({"numerics": "loose"}, "known: exact, reassociating, any"),
        ({"skip_op_kind": "matmul"}, "'matmul' is not an op name"),
        ({"skip_op_kind": "softmax"}, "write it with its dialect, as linalg.softmax"),
        ({"pipeline": " "}, "--pipeline: takes"),
        ({"pipeline": 3}, "--pipeline: takes"),
        ({"horizontal": "maybe"}, "--horizontal: takes on or off"),
        ({"must_fuse": "a:1:1"}, "at least two locations"),
        ({"disable_feature": "fmaa"}, "unknown feature 'fmaa'; did you mean 'fma'?"),
        ({"disable_pas": "x"}, "unknown switch 'disable_pas'; did you mean 'disable_pass'?"),
        (
            {"must_fuse": "m.mlir:1:1,m.mlir:2:1", "never_fuse": "m.mlir:2:1"},
            "--never-fuse and --must-fuse both name m.mlir:2:1",
        ),
    ],
)
def test_bad_values_and_contradictions(switches, fragment):
    assert fragment in refusal(**switches)


def test_horizontal_decides_for_sibling_passes_and_contradicts_their_switches(monkeypatch):
    monkeypatch.setattr("mlirfuse.patterns.PASSES", TABLE | SIBLING, raising=False)
    on = FusionOptions.resolve(horizontal="on")
    off = FusionOptions.resolve(horizontal="off")
    assert on.pass_switch("horizontal_fusion") is True
    assert off.pass_switch("horizontal_fusion") is False
    assert off.pass_switch("softmax_fusion") is None
    assert FusionOptions.resolve().pass_switch("horizontal_fusion") is None
    assert "--horizontal=off contradicts --enable-pass=horizontal_fusion" in refusal(
        horizontal="off", enable_pass="horizontal_fusion"
    )
    assert "--horizontal=on contradicts --disable-pass=horizontal_fusion" in refusal(
        horizontal="on", disable_pass="horizontal_fusion"
    )
    assert "--horizontal=off contradicts" in refusal(
        horizontal="off", enable_pass="horizontal_fusion@match=3"
    )
    most = FusionOptions.resolve(horizontal="on", disable_pass="horizontal_fusion@match=3")
    assert most.pass_switch("horizontal_fusion") is True
    assert not most.allows("horizontal_fusion", "main", 3)


def test_features():
    options = FusionOptions.resolve(disable_feature="FMA", enable_feature="data-tiling")
    assert not options.feature("fma")
    assert options.feature("data_tiling")
    assert FusionOptions().feature("fma")
    assert not FusionOptions(disable_feature=("kernels",)).feature("kernels")
    with pytest.raises(UsageError, match="unknown feature 'fmas'"):
        options.feature("fmas")
    assert all(default for default, _ in FEATURES.values())


def test_the_dictionary_is_json_and_gives_the_options_back():
    options = FusionOptions.resolve(
        disable_pass="softmax_fusion@match=3",
        enable_pass="layer_norm_fusion",
        skip_op_kind="linalg.matmul",
        never_fuse="a:1:1,b",
        fusion_limit="7",
        single_op_groups="on",
        disable_feature="fma",
    )
    text = json.dumps(options.to_dict())
    assert FusionOptions(**json.loads(text)) == options
    assert set(options.to_dict()) == set(switch_names())
    assert hash(options) == hash(FusionOptions(**json.loads(text)))


def test_the_description_is_a_config_file_with_origins(places):
    options = FusionOptions.resolve(
        disable_pass="softmax_fusion", enable_pass="softmax_fusion", numerics="exact"
    )
    text = options.describe()
    (places / "mlirfuse.toml").write_text(text)
    assert FusionOptions.resolve() == options
    assert tomllib.loads(text)["tool"]["mlirfuse"]["numerics"] == "exact"
    assert "# arguments" in text
    assert "# default" in text
    assert "# note: arguments: softmax_fusion is both disabled and enabled" in text


def test_of_takes_options_mappings_and_nothing():
    options = FusionOptions(fusion_limit=2)
    assert FusionOptions.of(options) is options
    assert FusionOptions.of({"fusion_limit": 2}) == options
    assert FusionOptions.of(None) == FusionOptions()


def test_switches_give_the_options_back():
    options = FusionOptions(
        pipeline="norms_only",
        disable_pass=("softmax_fusion", "rms_norm_fusion@match=2"),
        single_op_groups=True,
        numerics="any",
        fusion_limit=0,
    )
    words = options.to_switches()
    assert "--disable-pass=softmax_fusion,rms_norm_fusion@match=2" in words
    assert "--single-op-groups=on" in words
    given = dict(word.removeprefix("--").split("=", 1) for word in words)
    assert (
        FusionOptions(**{name.replace("-", "_"): text for name, text in given.items()}) == options
    )
    assert FusionOptions().to_switches() == []


# The texts.


def test_every_switch_has_a_text():
    assert [switch.name for switch in switches()] == list(switch_names())
    for switch in switches():
        assert switch.metavar, switch.name
        assert switch.example, switch.name
        assert len(switch.summary) > 10, switch.name
        assert switch.summary.count("`") % 2 == 0, switch.name
        assert switch.summary[-1] not in ".;,", switch.name


@pytest.mark.parametrize("switch", switches(), ids=lambda switch: switch.name)
def test_the_example_of_a_switch_is_a_value_of_it(switch, monkeypatch):
    monkeypatch.setattr("mlirfuse.patterns.PASSES", PASSES)
    field = FusionOptions.__dataclass_fields__[switch.name]
    given = [switch.example] if isinstance(switch.default, tuple) else switch.example
    assert field.metadata["read"](given) != switch.default


def test_values_are_spelled_as_they_are_read():
    assert [spelled(value) for value in (True, False, ("a", "b"), 3)] == ["on", "off", "a,b", "3"]
