"""Type checkers know the switches: a misspelled one is an error before anything runs."""

import typing

import pytest

import mlirfuse
from mlirfuse import api
from mlirfuse.debug import verify
from mlirfuse.options import FusionOptions, scoped, switch_names, switches
from mlirfuse.options.typed import SwitchArguments

TAKES_SWITCHES = (
    *(api.compile, api.fuse, api.candidates, verify.verify),
    *(FusionOptions.resolve, scoped.__wrapped__),
)


def test_the_typed_switches_are_those_of_the_options():
    assert tuple(typing.get_type_hints(SwitchArguments)) == switch_names()


@pytest.mark.parametrize("switch", switches(), ids=lambda s: s.name)
def test_defaults_are_of_the_type_of_the_field(switch):
    hint = typing.get_type_hints(SwitchArguments)[switch.name]
    kinds = {typing.get_origin(part) or part for part in typing.get_args(hint)}
    assert type(None) in kinds
    assert isinstance(switch.default, tuple(kinds))
    assert str in kinds, "the command line's spelling is accepted everywhere"


@pytest.mark.parametrize("function", TAKES_SWITCHES, ids=lambda f: f.__qualname__)
def test_functions_take_the_typed_switches(function):
    code = function.__code__
    last = code.co_varnames[code.co_argcount + code.co_kwonlyargcount]
    assert function.__annotations__[last] == "Unpack[SwitchArguments]"


PROGRAM = """
import mlirfuse
from mlirfuse.debug.verify import verify

mlirfuse.compile("m.mlir", disable_pass=["softmax_fusion"], fusion_limit=3, horizontal=False)
mlirfuse.fuse("m.mlir", must_fuse=[("a:1", "b:2")], numerics=None)
mlirfuse.compile("m.mlir", disabel_pass=["softmax_fusion"])
mlirfuse.fuse("m.mlir", disabel_pass=["softmax_fusion"])
mlirfuse.candidates("m.mlir", fusion_limt=3)
verify("m.mlir", pipelines="none")
mlirfuse.compile("m.mlir", disable_pass=3)
with mlirfuse.options(disabel_pass="softmax_fusion"):
    pass
"""


def test_mypy_refuses_a_misspelled_switch(tmp_path):
    mypy = pytest.importorskip("mypy.api", reason="mypy is in the extra 'dev'")
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    found, trouble, _ = mypy.run(
        [
            *("--strict", "--hide-error-context", "--no-error-summary", "--follow-imports=silent"),
            *("--ignore-missing-imports", f"--cache-dir={tmp_path}", str(program)),
        ]
    )
    assert not trouble
    wrong = [line.partition("program.py:")[2] for line in found.splitlines() if ": error: " in line]
    lines = PROGRAM.splitlines()
    expected = [n for n, line in enumerate(lines, 1) if "_pass=3" in line or "disabel" in line]
    expected += [n for n, line in enumerate(lines, 1) if "limt" in line or "pipelines=" in line]
    assert sorted(int(line.partition(":")[0]) for line in wrong) == sorted(expected)
    assert 'Unexpected keyword argument "disabel_pass" for "compile"' in found


def test_a_misspelled_switch_is_an_error_when_it_runs():
    with pytest.raises(mlirfuse.UsageError, match="did you mean 'disable_pass'"):
        mlirfuse.compile("m.mlir", disabel_pass=["softmax_fusion"])
