"""Modules that run in another interpreter are found where this one finds them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from mlirfuse.support import module_process


def test_a_module_of_an_entry_of_the_path_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "only_here.py").write_text(
        "import sys\nif __name__ == '__main__':\n    print(sys.argv[1:])\n", encoding="utf-8"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    words = module_process.arguments("only_here", "one", "two")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    done = subprocess.run(
        [sys.executable, *words], capture_output=True, text=True, cwd=elsewhere, check=False
    )
    assert done.stdout.strip() == "['one', 'two']", done.stderr


def test_the_current_folder_of_this_process_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "only_there.py").write_text("print('found')\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", ["", *sys.path])
    words = module_process.arguments("only_there")
    done = subprocess.run(
        [sys.executable, *words], capture_output=True, text=True, cwd="/", check=False
    )
    assert done.stdout.strip() == "found", done.stderr
