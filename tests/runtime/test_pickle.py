"""Programs are pickled and copied; in notebooks they show a small table."""

import copy
import html.parser
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import mlirfuse
from helpers import planted
from mlirfuse.core import CallError

X = np.linspace(-1, 1, 8 * 16, dtype=np.float32).reshape(8, 16)
MASK = X > 0


@pytest.fixture(scope="module")
def program():
    return mlirfuse.compile(planted.model(1))


def test_a_pickled_program_computes_the_same(program):
    again = pickle.loads(pickle.dumps(program))
    np.testing.assert_array_equal(again(X, MASK), program(X, MASK))
    assert repr(again) == repr(program)
    assert again.report.to_dict() == program.report.to_dict()
    assert pickle.loads(pickle.dumps(again)).inputs == program.inputs


def test_a_program_goes_to_another_process(program, tmp_path):
    code = """
import pickle, sys
program = pickle.load(open("program.pickle", "rb"))
assert program._sessions.current is None, "the device is opened at the first call"
assert "iree.runtime" not in sys.modules
import numpy as np
x = np.load("x.npy")
np.save("y.npy", program(x, x > 0))
"""
    (tmp_path / "program.pickle").write_bytes(pickle.dumps(program))
    np.save(tmp_path / "x.npy", X)
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True, timeout=120)
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), program(X, MASK))


def test_a_pickled_program_is_saved_like_any_other(program, tmp_path):
    again = pickle.loads(pickle.dumps(program))
    path = tmp_path / "again.vmfb"
    again.save(path)
    loaded = mlirfuse.load(path)
    path_of_copy = Path(tmp_path, "copy.vmfb")
    pickle.loads(pickle.dumps(loaded)).save(path_of_copy)
    assert path_of_copy.read_bytes() == path.read_bytes(), "the manifest is not appended twice"
    np.testing.assert_array_equal(loaded(X, MASK), program(X, MASK))


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy])
def test_a_copy_is_a_program_of_its_own(program, copied):
    program(X, MASK)
    again = copied(program)
    assert again is not program
    assert again._sessions.current is None
    assert again._image is program._image
    np.testing.assert_array_equal(again(X, MASK), program(X, MASK))


def test_a_guard_with_a_model_is_kept_by_a_copy_alone():
    torch = pytest.importorskip("torch", reason="torch is in the extra 'torch'")
    module = torch.nn.ReLU().eval()
    program = mlirfuse.compile(module, (torch.ones(3),), guard="fallback")
    other = torch.ones(5)
    assert copy.deepcopy(program)(other).shape == (5,)
    with pytest.raises(CallError):
        pickle.loads(pickle.dumps(program))(other)
    off = pickle.loads(pickle.dumps(mlirfuse.compile(module, (torch.ones(3),), guard="off")))
    assert off._guard.policy == "off"


class Page(html.parser.HTMLParser):
    """The tags that are open, and all text."""

    def __init__(self):
        super().__init__()
        self.open, self.names, self.text = [], set(), ""

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)
        self.names |= {tag, *(name for name, _ in attrs)}

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += f"{data}\n"


@pytest.mark.parametrize("part", [lambda p: p, lambda p: p.report], ids=["program", "report"])
def test_notebooks_show_a_table(program, part):
    text = part(program)._repr_html_()
    page = Page()
    page.feed(text)
    assert not page.open
    assert not page.names & {"script", "link", "img", "src", "href", "onclick"}
    assert len(text) < 10_000
    assert f"{planted.GROUPS}: 1" in page.text
    assert "cpu" in page.text.splitlines()
    if part(program) is program:
        assert "8x16xf32" in page.text


def test_names_of_a_model_are_escaped():
    from mlirfuse.core import Report

    report = Report(target="<b>cpu</b>", iree="3", options={}, notes=["<script>alert(1)</script>"])
    text = report._repr_html_()
    assert "<script>" not in text
    assert "&lt;b&gt;cpu" in text
    assert "refusals by reason" not in text
