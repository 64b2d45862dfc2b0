"""Names of version 0.1 are found, with a warning that says the new one."""

import dataclasses
import importlib
import subprocess
import sys

import pytest

from mlirfuse import targets
from mlirfuse.support import renamed
from mlirfuse.targets.base import RENAMED_FIELDS


@pytest.mark.parametrize("old", renamed.MODULES)
def test_an_old_module_is_the_new_one(old):
    new = renamed.MODULES[old]
    sys.modules.pop(f"mlirfuse.{old}", None)
    with pytest.warns(DeprecationWarning, match=rf"^mlirfuse\.{old} is mlirfuse\.{new} now"):
        found = importlib.import_module(f"mlirfuse.{old}")
    assert found is importlib.import_module(f"mlirfuse.{new}")
    assert found.__name__ == f"mlirfuse.{new}"
    assert found.__spec__.name == f"mlirfuse.{new}"


def test_the_warning_is_about_the_line_that_imports(tmp_path):
    script = tmp_path / "old.py"
    script.write_text("import sys\nfrom mlirfuse.structured import ops\nprint(ops.REGION)\n")
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True)
    assert done.stdout == "flow.dispatch.region\n"
    assert f"{script}:2: DeprecationWarning" in done.stderr


def test_other_names_are_not_found():
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("mlirfuse.structured.nothing")


@pytest.mark.parametrize(("old", "new"), RENAMED_FIELDS.items())
def test_an_old_field_of_a_target_is_the_new_one(old, new):
    target = targets.parse("cuda:sm_90")
    message = rf"^Target\.{old} is Target\.{new} now"
    value = object()
    with pytest.warns(DeprecationWarning, match=message):
        changed = dataclasses.replace(target, **{old: value})
    assert getattr(changed, new) is value
    with pytest.warns(DeprecationWarning, match=message):
        assert getattr(changed, old) is value
    fields = {f.name: getattr(target, f.name) for f in dataclasses.fields(target)}
    del fields[new]
    with pytest.warns(DeprecationWarning, match=message):
        assert type(target)(**fields, **{old: value}) == changed


def test_a_target_has_no_other_fields():
    target = targets.parse("cpu")
    with pytest.raises(AttributeError, match="'Target' object has no attribute 'registers'"):
        _ = target.registers
    with pytest.raises(TypeError, match="registers"):
        dataclasses.replace(target, registers=1)
