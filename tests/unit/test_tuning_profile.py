"""Profiles: the file, its checks, the entries that apply, merging, and `--explain`."""

import dataclasses
import logging
import tomllib
from pathlib import Path

import numpy as np
import pytest

import mlirfuse
from mlirfuse import targets
from mlirfuse.core import UsageError
from mlirfuse.options import FusionOptions
from mlirfuse.tools.compile import main as compile_main
from mlirfuse.tools.opt import main as opt_main
from mlirfuse.tools.tune import main as tune_main
from mlirfuse.tuning_profile import application, file, fingerprint, toml_text
from mlirfuse.tuning_profile.entry import Entry, Setting, settable
from mlirfuse.tuning_profile.file import Profile, Section

MODEL = """
func.func @main(%x: tensor<16x64xf32>) -> tensor<16x64xf32> {
  %e = tensor.empty() : tensor<16x64xf32>
  %r = linalg.generic {
      indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>],
      iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<16x64xf32>) outs(%e : tensor<16x64xf32>) {
   ^bb0(%a: f32, %b: f32):
    %1 = arith.addf %a, %a : f32
    linalg.yield %1 : f32
  } -> tensor<16x64xf32>
  %s = linalg.softmax dimension(1) ins(%r : tensor<16x64xf32>) outs(%e : tensor<16x64xf32>)
      -> tensor<16x64xf32>
  return %s : tensor<16x64xf32>
}
"""
SOFTMAX = Setting("disable_pass", "softmax_fusion")
KERNEL = Setting(
    "kernel",
    {"family": "matmul", "problem": {"m": 16, "n": 32, "k": 64}, "config": {"block_m": 16}},
)


@pytest.fixture(autouse=True)
def workplace(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MLIRFUSE_FLAGS", raising=False)
    Path("model.mlir").write_text(MODEL)


def graph():
    return fingerprint.of_file(Path("model.mlir"))


def section(*settings, **fields):
    target = targets.parse("cpu")
    entries = tuple(
        Entry(s, "main: model.mlir:2:3", 1.1, (1.05, 1.2), 1.02, 24, "rounds", {}) for s in settings
    )
    given = {
        "model": "model.mlir",
        "graph": graph(),
        "target": "cpu",
        "device": application.device_name(target),
        "versions": application.versions(),
        "objective": "latency",
        "shapes": ("of the model",),
        "result": {"speedup": 1.1, "interval": [1.05, 1.2]},
        "entries": entries,
    }
    return Section(**{**given, **fields})


def written(*sections, name="p.toml"):
    Profile(sections).write(name)
    return name


def applied(path, options=None, target="cpu", found=None):
    return application.apply(
        file.read(path), found or graph(), targets.parse(target), options or FusionOptions()
    )


def test_a_profile_is_read_as_it_was_written():
    sections = (
        section(SOFTMAX, KERNEL, Setting("target.cpu.l2_bytes", 1024)),
        section(Setting("horizontal", False), target="cuda:sm_90", device="sm_90"),
    )
    found = file.read(written(*sections))
    assert found.sections == sections
    lines = Path("p.toml").read_text().splitlines()
    (line,) = [line for line in lines if "softmax_fusion" in line]
    for word in ("where", "speedup", "interval", "noise", "rounds", "how", "versions"):
        assert f"{word} = " in line


@pytest.mark.parametrize(
    "value",
    ['a "b" \\ \n\t\x7f é 語 😀', "", True, 1.5, -3, [1, [2, "x"]], {"a b": {"c": [True]}, "d": 1}],
)
def test_toml_gives_values_back(value):
    assert tomllib.loads(f"v = {toml_text.value(value)}")["v"] == value


def test_nothing_is_written_for_null():
    assert tomllib.loads(toml_text.pairs({"a": None, "b": {"c": None, "d": 1}})) == {"b": {"d": 1}}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("schema = 2\n", "schema is 2, not 1"),
        ("a = [", "not valid TOML"),
        ("schema = 1\nmodel = 3\n", "no list of tables"),
        ("schema = 1\n[[model]]\n", "model 1: 'model' is missing"),
        ("schema = 1\n[[model]]\nx = 1\n", "model 1: unknown field 'x'"),
    ],
)
def test_a_damaged_file_is_refused(text, message):
    Path("bad.toml").write_text(text)
    with pytest.raises(UsageError, match=r"^bad.toml: ") as caught:
        file.read("bad.toml")
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{ set = "load_pass", value = "evil:PASS" }', "does not set 'load_pass'"),
        ('{ set = "disable_pass", value = 3 }', "takes the name of a pass"),
        ('{ set = "disable_pass" }', "'value' is missing"),
        ('{ set = "kernel", value = 1 }', "a kernel has a family"),
        ('{ set = "numerics", value = "any", speed = 2 }', "unknown field 'speed'"),
        ('{ set = "numerics", value = "any", interval = [1] }', "a number is malformed"),
    ],
)
def test_a_damaged_entry_is_refused(line, message):
    text = Profile((section(),)).text().replace("entries = []", f"entries = [{line}]")
    Path("bad.toml").write_text(text)
    with pytest.raises(UsageError) as caught:
        file.read("bad.toml")
    assert "model 1: entry 1: " in str(caught.value)
    assert message in str(caught.value)


def test_switches_that_load_code_are_not_settable():
    assert not any(map(settable, ("load_pass", "profile", "must_fuse", "nonsense")))
    assert all(map(settable, ("disable_pass", "kernel", "iree_option", "target.cpu.cores")))


def test_settings_have_hashes_whatever_their_values_are():
    assert len({SOFTMAX, KERNEL, Setting("disable_pass", "softmax_fusion")}) == 2


def test_settings_of_the_model_apply():
    found = applied(
        written(
            section(
                SOFTMAX,
                Setting("numerics", "exact"),
                Setting("target.cpu_tiles.softmax_rows", 4),
                Setting("iree_option", "--iree-llvmcpu-loop-unrolling"),
                Setting("channel_order", "as_written"),
                Setting("attention", "whole"),
                KERNEL,
            )
        )
    )
    assert [reason for _, reason in found.entries] == [""] * 7
    settled = found.settled
    assert settled.options.disable_pass == ("softmax_fusion",)
    assert settled.options.numerics == "exact"
    assert settled.target.cpu_tiles.softmax_rows == 4
    assert settled.target.codegen_flags[-1] == "--iree-llvmcpu-loop-unrolling"
    assert (settled.keeps_layout, settled.attention) == (True, "whole")
    assert settled.target.measured[0].config == {"block_m": 16}
    assert found.notes == ()


def test_switches_of_the_user_win():
    path = written(section(SOFTMAX, Setting("numerics", "exact"), Setting("horizontal", False)))
    options = FusionOptions.resolve(
        enable_pass="softmax_fusion", numerics="reassociating", profile=path
    )
    found = applied(path, options)
    reasons = [reason for _, reason in found.entries]
    assert reasons == ["overridden by arguments", "overridden by arguments", ""]
    assert found.settled.options.enable_pass == ("softmax_fusion",)
    assert found.settled.options.disable_pass == ()
    assert found.settled.options.numerics == "reassociating"
    assert found.settled.options.horizontal is False
    assert found.settled.options.profile is None


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        (Setting("disable_pass", "no_such_fusion"), "unknown pass 'no_such_fusion'"),
        (Setting("numerics", "any"), "looser than --numerics=reassociating"),
        (Setting("target.gpu.num_sms", 3), "cpu has no number gpu.num_sms"),
        (Setting("target.cpu.l2_bytes", -1), "takes a whole number above 0"),
        (Setting("target.cpu.has_fma", 1), "cpu has no number cpu.has_fma"),
        (Setting("iree_option", "--iree-hal-dump-executable-files-to=x"), "does not give"),
        (Setting("attention", "half"), "attention is whole or decomposed"),
        (Setting("disable_feature", "speed"), "unknown feature 'speed'"),
    ],
)
def test_a_setting_that_does_not_hold_is_named(setting, message):
    found = applied(written(section(setting, SOFTMAX)))
    (bad, good) = (reason for _, reason in found.entries)
    assert message in bad
    assert good == ""
    assert any("does not apply" in note for note in found.notes)
    assert found.settled.options.disable_pass == ("softmax_fusion",)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"versions": {"iree": "1.0"}}, "measured with iree 1.0, this is"),
        ({"device": "another"}, "measured on another, this is"),
    ],
)
def test_measurements_of_other_versions_and_devices_do_not_apply(fields, message):
    found = applied(written(section(SOFTMAX, **fields)))
    assert message in found.entries[0][1]
    assert found.settled.options.disable_pass == ()


def test_kernels_need_the_version_of_triton():
    versions = {**application.versions(), "triton": "0.1"}
    found = applied(written(section(SOFTMAX, KERNEL, versions=versions)))
    assert found.entries[0][0].setting == KERNEL
    assert found.entries[0][1].startswith("measured with triton 0.1")
    assert found.entries[1][1] == ""


def test_another_model_gets_kernels_alone():
    found = applied(written(section(SOFTMAX, KERNEL)), found="0" * 64)
    assert [entry.setting for entry, _ in found.entries] == [KERNEL]
    assert found.section is None
    assert "no section is for this model (00000000) on cpu" in found.notes[0]


def test_weights_and_places_do_not_count_and_shapes_do():
    one = MODEL.replace("\nfunc", "\n\n\nfunc")
    Path("other.mlir").write_text(one)
    Path("wider.mlir").write_text(MODEL.replace("64x", "128x").replace("x64", "x128"))
    assert fingerprint.of_file(Path("other.mlir")) == graph()
    assert fingerprint.of_file(Path("wider.mlir")) != graph()
    weight = 'util.global private @w = dense<"0x{}"> : tensor<32xf32>\n'
    digests = set()
    for values in (range(128), range(1, 129)):
        Path("weights.mlir").write_text(weight.format(bytes(values).hex()) + MODEL)
        digests.add(fingerprint.of_file(Path("weights.mlir")))
    assert len(digests) == 1


def test_merging_takes_the_section_whose_gain_is_surer():
    better = section(SOFTMAX, result={"interval": [1.3, 1.4]})
    worse = section(Setting("horizontal", False), result={"interval": [1.1, 2.0]})
    other = section(target="cuda:sm_90", device="sm_90")
    for order in ((better, worse), (worse, better)):
        merged, notes = file.merge(
            [Profile((order[0], other), "a.toml"), Profile((order[1],), "b.toml")]
        )
        assert sorted(merged.sections, key=lambda s: s.target) == [better, other]
        assert len(notes) == 1
        assert f"{'a' if order[0] is better else 'b'}.toml kept" in notes[0]


def test_merging_takes_the_section_of_the_later_iree():
    """The other one would not apply with it, whatever it gained."""
    old = section(SOFTMAX, versions={"iree": "3.9"}, result={"interval": [1.3, 1.4]})
    new = section(versions={"iree": "3.13"})
    for order in ((old, new), (new, old)):
        given = [Profile((one,), f"{number}.toml") for number, one in enumerate(order)]
        merged, (note,) = file.merge(given)
        assert merged.sections == (new,)
        assert note.endswith(f"{order.index(new)}.toml kept, measured with iree 3.13")


def test_an_unknown_name_is_a_short_reason():
    found = applied(written(section(Setting("disable_pass", "softmax_fusio"))))
    (reason,) = (reason for _, reason in found.entries)
    assert reason.startswith("--disable-pass: unknown pass 'softmax_fusio'")
    assert "known:" not in reason


def test_merging_on_the_command_line(capsys):
    written(section(SOFTMAX), name="a.toml")
    written(section(target="cuda:sm_90", device="sm_90"), name="b.toml")
    assert tune_main(["--merge", "a.toml", "b.toml", "-o", "c.toml"]) == 0
    assert capsys.readouterr().out == "c.toml: 2 models, 1 setting\n"
    assert len(file.read("c.toml").sections) == 2
    assert tune_main(["--merge", "a.toml", "-o", "c.toml"]) == 2
    assert tune_main(["--merge", "a.toml", "b.toml", "-o", "a.toml"]) == 2
    assert tune_main(["--calibrate", "--shapes=1x2"]) == 2


def test_the_tools_and_the_api_use_the_profile(capsys, caplog):
    written(section(SOFTMAX))
    x = np.random.default_rng(0).standard_normal((16, 64)).astype(np.float32)
    with caplog.at_level(logging.WARNING):
        default = mlirfuse.compile("model.mlir")
        tuned = mlirfuse.compile("model.mlir", profile="p.toml")
        cached = mlirfuse.compile("model.mlir", profile="p.toml")
    # The imported module is another text than the file's; the section has to know both.
    assert "no section is for this model" in caplog.text
    assert tuned.report.counts() == default.report.counts()
    del cached
    imported = dataclasses.replace(section(SOFTMAX), further_graphs=(imported_graph(),))
    written(imported)
    for _ in range(2):
        tuned = mlirfuse.compile("model.mlir", profile="p.toml")
        assert "softmax_fusion" in default.report.counts()
        assert "softmax_fusion" not in tuned.report.counts()
        assert tuned.report.options["disable_pass"] == ["softmax_fusion"]
        assert tuned.report.options["profile"] is None
        assert tuned.report.profile["entries"][0]["applied"] is True
    np.testing.assert_allclose(tuned(x), default(x), rtol=1e-5)
    words = ["model.mlir", "-o", "out.vmfb", "--profile=p.toml", "--explain"]
    assert compile_main(words) == 0
    said = capsys.readouterr().err
    assert "profile p.toml: model.mlir" in said
    assert "disable_pass=softmax_fusion: 1.100 times as fast (1.050 to 1.200)" in said
    assert opt_main(["model.mlir", "-o", "out.mlir", "--profile=p.toml", "--explain"]) == 0
    assert "disable_pass=softmax_fusion: 1.100 times" in capsys.readouterr().err
    _, report = mlirfuse.fuse("model.mlir", profile="p.toml")
    assert report.profile["entries"][0]["applied"] is True
    assert mlirfuse.compile("model.mlir", profile="p.toml", stock=True).report.profile is None


def imported_graph():
    from mlirfuse.compilation import open_model

    with open_model("model.mlir", target="cpu", options=FusionOptions()) as work:
        return fingerprint.of_file(work.imported.path)


def test_a_missing_profile_is_wrong_usage(capsys):
    assert compile_main(["model.mlir", "-o", "out.vmfb", "--profile=none.toml"]) == 2
    assert "cannot read none.toml" in capsys.readouterr().err
    assert FusionOptions.resolve(profile="none").profile is None
    with pytest.raises(UsageError, match="takes the path of a file"):
        FusionOptions.resolve(profile=3)


def test_the_layout_of_channels_is_part_of_the_cache(monkeypatch):
    written(
        dataclasses.replace(
            section(Setting("channel_order", "as_written")), further_graphs=(imported_graph(),)
        )
    )
    keys = []
    from mlirfuse.backend import cache

    plain = cache.key
    monkeypatch.setattr(cache, "key", lambda *a, **k: keys.append(plain(*a, **k)) or keys[-1])
    mlirfuse.compile("model.mlir")
    mlirfuse.compile("model.mlir", profile="p.toml")
    assert len(set(keys)) == 2
