"""docs/reliability.md agrees with the recorded counts, in which nothing failed."""

import json

from benchmarks import results
from benchmarks.fuzz import page
from benchmarks.fuzz.check import Outcome
from benchmarks.fuzz.kinds import KINDS


def test_the_page_is_up_to_date():
    assert page.PAGE.read_text(encoding="utf-8") == page.text(), (
        "run python -m benchmarks.reliability --docs"
    )


def test_every_outcome_is_on_the_page():
    assert set(page._OUTCOMES) == {str(outcome) for outcome in Outcome}


def test_nothing_failed():
    for run in json.loads((results.FOLDER / "fuzz.json").read_text(encoding="utf-8")):
        assert all(Outcome(name).ok for name in run["outcomes"])
    counted = json.loads((results.FOLDER / "reliability.json").read_text(encoding="utf-8"))
    assert all(n["injected"] == n["survived"] for n in counted["faults"].values())
    assert all(run["found"] for run in counted["bisect"])
    assert all(Outcome(run["outcome"]).ok for run in counted["models"])
    for run in json.loads((results.FOLDER / "damaged.json").read_text(encoding="utf-8")):
        assert all(not kind["failed"] for kind in run["inputs"].values())


def test_every_kind_was_tried():
    runs = json.loads((results.FOLDER / "fuzz.json").read_text(encoding="utf-8"))
    assert all(sum(run.get("kinds", {}).get(kind, 0) for run in runs) for kind in KINDS)
