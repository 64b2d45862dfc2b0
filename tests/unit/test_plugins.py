"""Passes that are not ours: entry points, `--load-pass`, PDL patterns, and the worked example."""

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import mlirfuse
from mlirfuse.core import FusionPass, Kind, Numerics, Reason, UsageError
from mlirfuse.options import FusionOptions
from mlirfuse.patterns import PASSES
from mlirfuse.plugins import registry

EXAMPLE = Path(__file__).parents[2] / "examples" / "custom_pass"
SPEC = "squared_relu.squared_relu_fusion:PASS"
PATTERNS = str(EXAMPLE / "reshapes.pdl.mlir")
SQUARED = (EXAMPLE / "lit_tests" / "squared_relu_fusion.mlir").read_text()
RESHAPES = (EXAMPLE / "lit_tests" / "reshapes.mlir").read_text()


@pytest.fixture(autouse=True)
def importable(monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(str(EXAMPLE))
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("MLIRFUSE_CONFIG", "")
    monkeypatch.delenv("MLIRFUSE_FLAGS", raising=False)
    yield
    for name in [n for n in sys.modules if n.startswith(("squared_relu", "mine"))]:
        del sys.modules[name]


def refusal(**switches):
    with pytest.raises(UsageError) as caught:
        FusionOptions.resolve(**switches)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def module(tmp_path, name, text):
    (tmp_path / f"{name}.py").write_text(textwrap.dedent(text))
    return f"{name}:PASS"


ENTRY = """
from mlirfuse.core import FusionPass
PASS = FusionPass(
    name={name!r}, summary="", roots=(), match=lambda op, ctx: None,
    rewrite=lambda match, ctx: match.root, aliases={aliases!r},
)
"""


# --- known passes -------------------------------------------------------------------------------


def test_a_loaded_pass_is_known_inside_its_scope_only():
    before = dict(PASSES)
    with registry.scope([SPEC]):
        assert list(registry.loaded()) == ["squared_relu_fusion"]
        assert list(registry.passes()) == [*before, "squared_relu_fusion"]
    assert dict(registry.passes()) == before == PASSES


def test_a_loaded_pass_has_its_switches():
    options = FusionOptions.resolve(load_pass=SPEC, disable_pass="Squared-ReLU-Fusion@match=2")
    assert options.disable_pass == ("squared_relu_fusion@match=2",)
    assert options.allows("squared_relu_fusion", "main", 1)
    assert not options.allows("squared_relu_fusion", "main", 2)
    assert FusionOptions(**options.to_dict()) == options


def test_an_unknown_pass_lists_loaded_ones():
    message = refusal(load_pass=SPEC, disable_pass="squared_rel_fusion")
    assert "did you mean 'squared_relu_fusion'?" in message


def test_a_pass_loaded_in_one_place_is_switched_in_another(tmp_path, monkeypatch):
    config = tmp_path / "mlirfuse.toml"
    config.write_text(f'[tool.mlirfuse]\nload-pass = ["{SPEC}"]\n')
    monkeypatch.setenv("MLIRFUSE_CONFIG", str(config))
    monkeypatch.setenv("MLIRFUSE_FLAGS", "--disable-pass=collapse_of_expand_rewrite")
    with mlirfuse.options(disable_pass="squared_relu_fusion"):
        options = FusionOptions.resolve(load_pass=[PATTERNS])
    assert options.load_pass == (SPEC, PATTERNS)
    assert options.disable_pass == ("collapse_of_expand_rewrite", "squared_relu_fusion")
    assert options.origins["load_pass"] == f"{config}: {SPEC}; arguments: {PATTERNS}"


def test_loaded_passes_run_first_in_presets_and_where_they_are_named_in_a_pipeline():
    def order(**switches):
        report = mlirfuse.fuse(SQUARED, load_pass=SPEC, **switches)[1]
        return [done.name for done in report.passes]

    assert order()[0] == "squared_relu_fusion"
    assert order(pipeline="none") == []
    assert order(pipeline="cse,squared_relu_fusion") == ["cse", "squared_relu_fusion"]
    assert order(pipeline="cse") == ["cse"]


def test_a_loaded_pass_is_explained():
    report = mlirfuse.fuse(SQUARED, load_pass=SPEC)[1]
    found = [d for d in report.decisions if d.pass_name == "squared_relu_fusion"]
    assert [(d.function, d.taken, d.reason) for d in found] == [
        ("squared", True, None),
        ("no_fusion_other_bound", False, Reason.CONSTANT_UNVERIFIED),
        ("no_fusion_transposed", False, Reason.INDEXING_MAP),
    ]
    assert report.options["load_pass"] == [SPEC]


def test_a_loaded_pass_is_part_of_the_key_of_a_program(tmp_path):
    from mlirfuse import targets
    from mlirfuse.backend import cache

    program = tmp_path / "program.mlir"
    program.write_text("module {}")
    pattern = tmp_path / "p.pdl.mlir"
    keys = set()
    for change in ("", "// another text\n"):
        pattern.write_text(Path(PATTERNS).read_text() + change)
        options = FusionOptions(load_pass=str(pattern)).to_dict()
        keys.add(cache.key(program, target=targets.parse("cpu"), options=options))
    assert len(keys) == 2
    with registry.scope([SPEC]):
        assert registry.fingerprint()
    assert not registry.fingerprint()


# --- objects -------------------------------------------------------------------------------------


def test_a_class_is_a_pass(tmp_path):
    spec = module(
        tmp_path,
        "mine_class",
        '''
        from mlirfuse.builders import form_region
        from mlirfuse.core import Match
        from mlirfuse.structured.ir import ops

        class PASS:
            """A square in a group of its own.

            More about it.
            """

            name = "square_alone_fusion"
            roots = ("linalg.generic",)
            takes_single_op = True

            def match(self, root, ctx):
                names = [view.operation.name for view in ops.body(root).operations]
                return Match(root, (root,)) if "arith.mulf" in names else None

            def rewrite(self, match, ctx):
                return form_region(list(match.ops))
        ''',
    )
    with registry.scope([spec, spec]):
        entry = registry.passes()["square_alone_fusion"]
    assert isinstance(entry, FusionPass)
    assert entry.summary == "A square in a group of its own."
    assert entry.numerics is Numerics.EXACT
    report = mlirfuse.fuse(SQUARED, load_pass=spec, pipeline="square_alone_fusion")[1]
    assert report.counts() == {"square_alone_fusion": 3}


@pytest.mark.parametrize(
    ("name", "aliases", "what"),
    [
        ("softmax_fusion", (), "the name 'softmax_fusion' is taken by the pass 'softmax_fusion'"),
        ("Softmax_fusion", (), "'Softmax_fusion' is no name of a pass"),
        ("cse", (), "'cse' is no name of a pass"),
        ("norms_only", (), "is taken by the preset 'norms_only'"),
        ("my_fusion", ("SoftMaxFusion",), "'SoftMaxFusion' is taken by the pass 'softmax_fusion'"),
        ("squared_relu_fusion", (), "is taken by the pass 'squared_relu_fusion'; rename it"),
    ],
)
def test_a_name_that_is_taken_is_refused(tmp_path, name, aliases, what):
    spec = module(tmp_path, "mine_clash", ENTRY.format(name=name, aliases=aliases))
    assert what in refusal(load_pass=[SPEC, spec])


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("PASS = 3", "is of type int; a mlirfuse.core.FusionPass, or a class"),
        ("class PASS:\n    name='a_b'; roots=(); match=len", "the class PASS has no 'rewrite'"),
        ("import nothing_like_it", "ModuleNotFoundError: No module named 'nothing_like_it'"),
        ("1 / 0", "ZeroDivisionError: division by zero"),
        ("OTHER = 1", "the module has no 'PASS'"),
        (
            "class PASS:\n    name='a_b'; roots=(); match=rewrite=len; kind='group'",
            "its kind is not",
        ),
        (
            "class PASS:\n    name='a_b'; roots=(); match=rewrite=len; options=int",
            "not a dataclass",
        ),
        (
            "class PASS:\n    name='a_b'; roots=(); rewrite=len; rules=3",
            "its rules are not a mlirfuse.core.GroupRules",
        ),
        ("class PASS:\n    name='a_b'; roots=(); rewrite=len", "has neither a match nor rules"),
        ("class PASS:\n    name='a_b'; roots=(); match=rewrite=3", "its match cannot be called"),
        (
            "class PASS:\n    def __init__(self, x): 0\n    name='a_b'; roots=(); match=rewrite=3",
            "cannot be made without arguments",
        ),
    ],
)
def test_an_object_that_is_no_pass_is_refused(tmp_path, text, what):
    message = refusal(load_pass=module(tmp_path, "mine_wrong", text))
    assert message.startswith("--load-pass=mine_wrong:PASS: ")
    assert what in message


@pytest.mark.parametrize(
    ("spec", "what"),
    [
        ("softmax", "takes package.module:PASS or the path of a .pdl.mlir file"),
        ("a b:PASS", "takes package.module:PASS"),
        ("missing.pdl.mlir", "cannot read missing.pdl.mlir: No such file"),
    ],
)
def test_a_spec_that_names_nothing_is_refused(spec, what):
    assert what in refusal(load_pass=spec)


# --- entry points --------------------------------------------------------------------------------


def installed(folder, name, value):
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[{registry.GROUP}]\n{name}_point = {value}\n")


def listed(folder):
    path = os.pathsep.join([str(EXAMPLE), str(folder)])
    return subprocess.run(
        [sys.executable, "-c", LIST],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
    )


LIST = "from mlirfuse.tools.opt import main; raise SystemExit(main(['--list-passes=json']))"


def test_an_installed_pass_is_listed(tmp_path):
    installed(tmp_path, "relu", SPEC)
    done = listed(tmp_path)
    assert done.returncode == 0, done.stderr
    names = [entry["name"] for entry in json.loads(done.stdout)]
    assert names == [*PASSES, "squared_relu_fusion"]


def test_an_installed_pass_that_cannot_be_loaded_is_named(tmp_path):
    installed(tmp_path, "broken", "not_there:PASS")
    done = listed(tmp_path)
    assert done.returncode == 2
    assert "pass 'broken_point' of the installed package 'broken' cannot be loaded" in done.stderr


# --- patterns ------------------------------------------------------------------------------------


def pattern(body, name="a_rewrite", attributes=""):
    return f"pdl.pattern @{name} : benefit(1) {attributes} {{\n{body}\n}}\n"


ROOT = '%x = pdl.operand %root = pdl.operation "math.exp"(%x : !pdl.value)'
REPLACE = "pdl.rewrite %root { pdl.replace %root with (%x : !pdl.value) }"


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("module {", "expected"),
        ("", "holds no pdl.pattern"),
        ("func.func private @f()", "holds a func.func; pdl.pattern would be accepted"),
        (pattern(f"{ROOT} {REPLACE}", name="cse"), "'cse' is no name of a pass"),
        (pattern(f"{ROOT} {REPLACE}", name="softmax_fusion"), "is taken by the pass"),
        (
            pattern(f"{ROOT} {REPLACE}", attributes='attributes {mlirfuse.numerics = "fine"}'),
            "mlirfuse.numerics is 'fine' (known: exact, reassociating, precision_changing)",
        ),
        (
            pattern(f'{ROOT} pdl.rewrite %root with "mine.native"(%root : !pdl.operation)'),
            'unknown native rewrite "mine.native" (known: "mlirfuse.group")',
        ),
        (
            pattern(
                f'{ROOT} pdl.apply_native_constraint "C"(%x : !pdl.value) {REPLACE}',
            ),
            "pdl.apply_native_constraint is not supported here",
        ),
        (pattern(f"{ROOT} pdl.rewrite %root {{ pdl.erase %root }}"), "has to replace the root"),
        (
            pattern(
                '%x = pdl.operand %in = pdl.operation "math.log"(%x : !pdl.value)'
                ' %v = pdl.result 0 of %in %root = pdl.operation "math.exp"(%v : !pdl.value)'
                ' pdl.rewrite %root with "mlirfuse.group"(%in : !pdl.operation)'
            ),
            "the group has to hold the root",
        ),
        (
            pattern(
                "%x = pdl.operand %root = pdl.operation(%x : !pdl.value)"
                " pdl.rewrite %root { pdl.replace %root with (%x : !pdl.value) }"
            ),
            "its root has no op name",
        ),
    ],
)
def test_a_file_of_patterns_that_is_wrong_is_refused(tmp_path, text, what):
    path = tmp_path / "p.pdl.mlir"
    path.write_text(text)
    assert what in refusal(load_pass=str(path))


TENSORS = """
func.func @f(%a: tensor<4xf32>, %b: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %0 = arith.addf %a, %b : tensor<4xf32>
  %1 = arith.addf %a, %a : tensor<4xf32>
  %2 = arith.mulf %0, %1 fastmath<fast> : tensor<4xf32>
  return %0, %1, %2 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}
"""  # noqa: E501


def rewritten(tmp_path, text):
    path = tmp_path / "p.pdl.mlir"
    path.write_text(text)
    with registry.scope([str(path)]):
        (name,) = registry.loaded()
        assert registry.passes()[name].kind is Kind.REWRITE
    module, report = mlirfuse.fuse(TENSORS, load_pass=str(path), pipeline=name)
    return str(module), report.counts().get(name, 0)


def test_a_pattern_that_names_a_value_twice_matches_one_value(tmp_path):
    body = (
        '%x = pdl.operand %root = pdl.operation "arith.addf"(%x, %x : !pdl.value, !pdl.value)'
        " pdl.rewrite %root { pdl.replace %root with (%x : !pdl.value) }"
    )
    text, count = rewritten(tmp_path, pattern(body))
    assert count == 1
    assert "arith.mulf %0, %arg0" in text


@pytest.mark.parametrize(
    ("constant", "count"),
    [("#arith.fastmath<fast>", 1), ("#arith.fastmath<none>", 0), (None, 1)],
)
def test_a_pattern_compares_attributes_and_makes_ops_with_them(tmp_path, constant, count):
    given = "" if constant is None else f" = {constant}"
    body = f"""
      %x = pdl.operands
      %t = pdl.type : tensor<4xf32>
      %fast = pdl.attribute{given}
      %root = pdl.operation "arith.mulf"(%x : !pdl.range<value>) {{"fastmath" = %fast}} -> (%t : !pdl.type)
      pdl.rewrite %root {{
        %none = pdl.attribute = #arith.fastmath<nnan>
        %new = pdl.operation "arith.divf"(%x : !pdl.range<value>) {{"fastmath" = %none}} -> (%t : !pdl.type)
        pdl.replace %root with %new
      }}
    """  # noqa: E501
    text, found = rewritten(tmp_path, pattern(body))
    assert found == count
    assert ("arith.divf %0, %1 fastmath<nnan>" in text) is bool(count)


def test_a_pattern_compares_types(tmp_path):
    body = (
        '%t = pdl.type : tensor<5xf32> %x = pdl.operand : %t %root = pdl.operation "arith.addf"'
        "(%x, %x : !pdl.value, !pdl.value) {replace}"
    ).replace("{replace}", REPLACE)
    assert rewritten(tmp_path, pattern(body))[1] == 0
    assert rewritten(tmp_path, pattern(body.replace("5xf32", "4xf32")))[1] == 1


def test_patterns_are_counted_limited_and_switched():
    def counts(**switches):
        return mlirfuse.fuse(RESHAPES, load_pass=PATTERNS, **switches)[1].counts()

    both = {"collapse_of_expand_rewrite": 2, "scores_softmax_fusion": 1}
    pipeline = ",".join(both)
    assert counts(pipeline=pipeline) == both
    assert counts(pipeline=pipeline, fusion_limit=1) == {"collapse_of_expand_rewrite": 1}
    off = "collapse_of_expand_rewrite@match=0,scores_softmax_fusion"
    assert counts(pipeline=pipeline, disable_pass=off) == {"collapse_of_expand_rewrite": 1}


# --- the worked example ---------------------------------------------------------------------------


def test_the_example_passes_its_own_tests(tmp_path):
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "from lit.main import main; main()",
            "-v",
            "--param",
            f"scratch={tmp_path}",
            str(EXAMPLE / "lit_tests"),
        ],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout
    assert "Passed: 2" in done.stdout


def test_the_example_registers_its_pass():
    import tomllib

    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]
    assert project["entry-points"][registry.GROUP] == {"squared_relu_fusion": SPEC}
