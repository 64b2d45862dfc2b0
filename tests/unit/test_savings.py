"""How savings are shown: against stock IREE, as estimates with their error or as ranks."""

import dataclasses
import json

import pytest

from helpers.explained import REFUSED, decision, report
from mlirfuse import cost, explain, targets
from mlirfuse.explain import documents
from mlirfuse.explain.savings import Savings
from mlirfuse.explain.traffic import against
from mlirfuse.final_kernels import FinalKernel, Operand
from mlirfuse.targets import model_errors, rates
from mlirfuse.targets.model_errors import SAVING, TIME, ModelError

SMALL = ModelError(device="a card", of=SAVING, groups=50, scale=0.5, median=0.12, p90=0.4)
LARGE = dataclasses.replace(SMALL, median=0.31)
OF_TIMES = dataclasses.replace(SMALL, of=TIME)


@pytest.fixture
def error(monkeypatch):
    def use(found):
        monkeypatch.setattr(model_errors, "known", lambda target: found)

    return use


def test_a_small_error_is_shown_beside_calibrated_times(error):
    error(SMALL)
    shown = explain.text(report(decision()))
    assert "3 ops; saves 3.0 MiB of traffic, 21.0 us\n" in shown
    assert (
        "savings: against stock IREE by a model of its fusion; times are estimates: the error"
        " of the modelled saving of 50 groups on a card is 12% in the median, 40% at the 90th"
        " percentile"
    ) in shown


@pytest.mark.parametrize("found", [LARGE, OF_TIMES, None], ids=["large", "of times", "unknown"])
def test_other_times_are_ranks(error, found):
    error(found)
    entry = report(decision(), REFUSED)
    shown = explain.text(entry)
    assert "saves 3.0 MiB of traffic, rank 2 of 2 by time" in shown
    assert " us\n" not in shown
    assert "ranks only" in shown
    assert ("31%" in shown) == (found is LARGE)
    assert ("not measured on cpu" in shown) == (found is None)
    table = explain.candidates_text(entry)
    assert " us " not in table
    assert "gain" not in table.splitlines()[0]
    assert table.splitlines()[-1].startswith("savings: ")


@pytest.mark.parametrize("found", [SMALL, LARGE, None], ids=["small", "large", "unknown"])
def test_json_has_the_error_of_the_model_beside_its_numbers(error, found):
    error(found)
    entry = report(decision(), REFUSED)
    document = json.loads(json.dumps(documents.report_document(entry)))
    (candidate, _) = documents.candidates_document(entry)
    entries = (document["savings"]["model_error"], candidate["model_error"])
    assert entries == (None if found is None else dataclasses.asdict(found),) * 2
    assert document["savings"]["times"] == ("estimate" if found is SMALL else "rank")
    shown = [e["saving"]["time"] for e in document["decisions"] if e["taken"]]
    assert shown == (["21.0 us"] if found is SMALL else ["rank 2 of 2"])
    assert type(entry).from_dict(document).to_dict() == entry.to_dict()


def test_details_of_refusals_have_no_modelled_times():
    """Their error is not beside them."""
    assert cost.no_gain(-0.004) == "as fast in the model"
    assert cost.no_gain(-3.2) == "slower in the model"


def test_time_alone_is_said(error):
    error(LARGE)
    kept = decision(bytes_saved=0, gain_us=2.0)
    shown = explain.text(report(kept))
    assert "3 ops; saves no traffic, rank 1 of 1 by time\n" in shown
    error(SMALL)
    assert "3 ops; saves 1.0 us\n" in explain.text(report(kept))


def test_no_saving_is_said():
    none = decision(bytes_saved=0, gain_us=0.0)
    assert "3 ops; saves nothing: stock IREE fuses it\n" in explain.text(report(none))
    slower = decision(bytes_saved=0, gain_us=-2.0)
    assert Savings(report(slower)).time(slower) == ""


def kernel(name, bytes_moved, *places, of=None, function="main"):
    operands = (Operand((8,), "f32", bytes_moved, True),)
    names = ("linalg.generic",) * len(places)
    pass_name, match = of or (None, None)
    return FinalKernel(
        name, function, places, names, operands, bytes_moved, 1, "iree", pass_name, match
    )


def test_a_compiled_program_of_stock_counts_for_more_than_the_model():
    first, *others = decision().ops
    entry = report(
        decision(),
        kernels=[kernel("ours", 1024, first, *others, of=("add_rms_norm_fusion", 0))],
        stock_kernels=[kernel("a", 2048, first), kernel("b", 1024, *others), kernel("c", 8, "m:9")],
    )
    shown = explain.text(entry)
    assert "this kernel instead of 2 kernels of stock IREE: 1.0 KiB here, 3.0 KiB there" in shown
    assert "savings: against stock IREE by its program;" in shown
    savings = Savings(entry)
    assert savings.size(decision()) == 2048
    assert savings.total() == 2048 + 8
    assert savings.entry(decision())["bytes"] == 2048
    again = type(entry).from_dict(json.loads(json.dumps(entry.to_dict())))
    assert again.stock_kernels == entry.stock_kernels


def test_kernels_of_two_functions_are_not_matched():
    ours, stock = kernel("a", 8, "m:1"), kernel("b", 8, "m:1", function="other")
    assert against([ours], [stock]) == []
    (found,) = against([ours], [dataclasses.replace(stock, function="main$async")])
    assert found.bytes_saved == 0
    dynamic = dataclasses.replace(ours, bytes=None)
    assert against([dynamic], [ours])[0].bytes_saved is None


def test_rates_of_another_machine_are_called_so():
    assert "of another machine: H100" in rates.described(targets.parse("cuda:sm_90"))
    assert rates.described(targets.parse("cpu")).startswith("of this machine, modelled")
    assert "another machine" in rates.described(targets.parse("cpu:x86-64-v4"))
    own = rates.with_rates(targets.parse("cuda:sm_90"), {"launch_us": 3.0}, "a file")
    assert rates.described(own) == "measured on this machine (a file)"
    shown = explain.text(report(decision(), rates="of another machine: a card"))
    assert "rates: of another machine: a card\n" in shown
