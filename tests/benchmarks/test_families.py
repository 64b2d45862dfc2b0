"""Model families on a GPU: the models, and the table."""

import json

import pytest
import torch

from benchmarks.families import prepare, report, run, zoo
from mlirfuse.core import UsageError


def test_families_have_names_of_their_own():
    assert len(zoo.BY_NAME) == len(zoo.FAMILIES) >= 24
    assert {f.kind for f in zoo.FAMILIES} >= {"mixture", "state space", "vision", "audio"}


@pytest.mark.parametrize("name", ["GPT-2", "Whisper", "ConvNeXt"])
def test_a_family_runs(name):
    pytest.importorskip("transformers")
    module, inputs = prepare.in_half(*zoo.BY_NAME[name].made())
    with torch.no_grad():
        result = module.float()(*(x.float() if x.is_floating_point() else x for x in inputs))
    assert torch.isfinite(result).all()
    assert all(p.dtype == torch.float32 for p in module.parameters())


def test_only_takes_known_families():
    assert run._names("bert, Llama") == ["BERT", "Llama"]
    assert run._names("") == [*zoo.BY_NAME]
    with pytest.raises(UsageError, match="did you mean"):
        run._names("lama")


def entry(name, **fields):
    return {"name": name, "kind": "decoder", **fields}


def test_table_and_summary(tmp_path):
    times = {"ours": 1.0, "eager": 2.0, "compile": 1.5, "reduce_overhead": 1.2}
    models = [
        entry("A", ms=times, coverage=[3, 4], kernel_share=0.98),
        entry("B", ms=times, wrong="error 1"),
        entry("C", said="it refused"),
        entry("D", ms={**times, "ours": 2.0}),
    ]
    record = {"device": "X", "versions": {"torch": "2"}, "models": models}
    assert [report.ratio(m) for m in models] == [1.2, None, None, 0.6]
    assert "2 of 4 models: 0.85 over the fastest peer" in report.summary(record)
    assert "1 under 0.9" in report.summary(record)
    text = report.markdown(record)
    assert "| A | decoder | 1.000 | 2.000 | 1.500 | 1.200 | 1.20 | 3 of 4 | 98% |" in text
    assert "it refused" in text
    assert report.text(record).count("\n") == 5
    report.save(record, tmp_path)
    assert (tmp_path / report.FILE).exists()


def test_a_run_of_some_models_keeps_the_others(tmp_path):
    def saved(versions, *models):
        record = {"device": "X", "versions": versions, "models": [*models]}
        report.save(record, tmp_path)
        found = json.loads((tmp_path / report.FILE).read_text("utf-8"))["models"]
        return [(m["name"], m.get("ms", {}).get("ours")) for m in found]

    first = [entry("A", ms={"ours": 1.0}), entry("B", ms={"ours": 2.0}), entry("C")]
    assert saved({"torch": "2"}, *first) == [("A", 1.0), ("B", 2.0)]
    assert saved({"torch": "2"}, entry("B", ms={"ours": 3.0})) == [("A", 1.0), ("B", 3.0)]
    assert saved({"torch": "3"}, entry("B", ms={"ours": 4.0})) == [("B", 4.0)]
