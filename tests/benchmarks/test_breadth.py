"""Programs of a seed, the comparison of their results, and the summary."""

import argparse
import functools
import random

import pytest
import torch

from benchmarks.breadth import comparison, on_cpu, prepare, report, run
from benchmarks.breadth.classes import CLASSES, draw, named
from benchmarks.breadth.drawing import DTYPES, Draw
from benchmarks.conformance.compare import flat
from mlirfuse.core import MlirfuseError

MAX_BYTES, MAX_CPU_BYTES = 8 << 30, 1 << 30


def meta(program):
    return [
        torch.empty(
            a.shape,
            dtype=torch.int64 if a.kind == "index" else DTYPES[program.dtype],
            device="meta",
        )
        for a in program.drawn.arguments
    ]


def test_a_seed_gives_the_same_programs():
    state = random.getstate()
    texts = [draw(5, n).text for n in range(40)]
    assert random.getstate() == state
    assert texts == [draw(5, n).text for n in range(40)]
    assert texts != [draw(6, n).text for n in range(40)]
    assert len(set(texts)) == 40


@functools.cache
def drawn(cpu):
    """Some programs of a seed, for a CPU or a GPU."""
    return [draw(2, n, cpu=cpu) for n in range(150)]


@pytest.mark.parametrize(("cpu", "most"), [(False, MAX_BYTES), (True, MAX_CPU_BYTES)])
@pytest.mark.parametrize("family", [name for name, _, _ in CLASSES])
def test_programs_of_each_class_run(family, cpu, most):
    """PyTorch takes them, and they are of sizes that a GPU, or the cores of a CPU, hold."""
    found = [program for program in drawn(cpu) if program.family == family]
    assert found
    for program in found:
        tensors = meta(program)
        results = flat(program.call(*tensors))
        assert all(isinstance(result, torch.Tensor) for result in results), program.text
        assert sum(t.nbytes for t in (*tensors, *results)) < most, program.text


def test_arguments_in_another_order_in_memory():
    programs = [draw(1, n) for n in range(60)]
    permuted = [p for p in programs for a in p.drawn.arguments if a.order and len(a.shape) == 2]
    assert permuted
    sizes = Draw("sizes")
    assert all(16 <= sizes.size(16, 4096) <= 4096 for _ in range(200))


def check(ours, eager, exact, dtype="f32"):
    return comparison.compared([ours], [eager], [exact.double()], dtype)


def test_results_are_compared_with_float64():
    exact = torch.linspace(-1, 1, 100)
    assert "wrong" not in check(exact + 1e-6, exact, exact)
    assert "wrong" in check(exact + 1e-3, exact, exact)
    assert "wrong" not in check(exact + 1e-3, exact + 5e-4, exact), "eager is as far off"
    assert "wrong" in check(exact[:50], exact, exact)
    assert "wrong" in check(exact.half(), exact, exact)
    ours, huge = exact.clone(), exact.clone()
    ours[3] = torch.nan
    assert "wrong" in check(ours, exact, exact)
    huge[3] = torch.inf
    assert "wrong" not in check(ours, huge, exact), "an element that eager cannot represent"


def test_products_of_many_factors_have_the_error_of_their_roundings():
    exact = torch.linspace(-1, 1, 100)
    for factors, wrong in ((0, True), (100 * 1000, True), (100 * 1000000, False)):
        found = comparison.compared(
            [exact + 1e-4], [exact], [exact.double()], "f32", factors=factors
        )
        assert ("wrong" in found) == wrong
    programs = [draw(1, n) for n in range(300)]
    assert {p.factors > 0 for p in programs if ".prod(" in p.text} == {True}
    assert not any(p.factors for p in programs if ".prod(" not in p.text)


def test_indices_may_differ_where_few_do():
    eager = torch.arange(1000)
    ours = eager.clone()
    ours[:5] += 1
    assert "wrong" not in check(ours, eager, eager)
    ours[:50] += 1
    assert "wrong" in check(ours, eager, eager)
    exact = eager + 1
    exact[:900] -= 1
    assert "wrong" not in check(ours, eager, exact), "a tenth of eager's indices are others"
    ours[:200] += 1
    assert "wrong" in check(ours, eager, exact)


def entry(name, ours, others, **more):
    times = {"ours": ours, "eager": others[0], "compile": others[1]}
    common = {"class": "norm", "dtype": "f16", "text": "softmax(x)", "flops": 0.0, "bytes": 1e6}
    return {"name": name, **common, "ms": times, **more}


def test_summary(tmp_path):
    programs = [
        entry("1-0", 1.0, (2.0, 4.0), coverage=[1, 2]),
        entry("1-1", 4.0, (2.0, 8.0), coverage=[3, 3]),
        entry("1-2", 1.0, (9.0, 9.0), wrong="error 1"),
        {**entry("1-3", 1.0, (1.0, 1.0)), "ms": {"eager": 1.0}, "said": "it refused"},
    ]
    record = {"seed": 1, "device": "X", "rates": {"copy": 1e12}, "programs": programs}
    text = report.text(record)
    assert "1.00 of 2, 50% at 0.9 or more, 0 under 0.5" in text
    assert "Kernels: 4 of 5 dispatches." in text
    assert "Wrong: 1." in text
    assert "it refused" in text
    assert report.ratio(programs[1]) == 0.5
    for seed in (1, 2):
        report.save({**record, "seed": seed}, tmp_path)
    assert (tmp_path / report.FILE).read_text().count('"seed"') == 2


def test_programs_of_the_record_again(tmp_path):
    programs = [
        entry("1-0", 1.0, (2.0, 4.0)),
        entry("1-1", 4.0, (2.0, 8.0)),
        entry("1-2", 1.0, (9.0, 9.0), wrong="error 1"),
    ]
    report.save({"seed": 1, "programs": programs}, tmp_path)
    given = argparse.Namespace(
        again=0.9, results=tmp_path, only="", programs=2, target="cuda:sm_90"
    )
    assert run.chosen(3, given) == ["1-1", "1-2"]
    given.again = None
    assert run.chosen(3, given) == ["3-0", "3-1"]
    assert named("3-1").text == draw(3, 1).text
    given.only = "nothing"
    with pytest.raises(MlirfuseError, match="no program to run: --only=nothing"):
        run.chosen(3, given)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_program_on_a_cpu(tmp_path):
    """It is compiled with its weights as parameters, by IREE too, and all systems are timed."""
    index = next(n for n in range(99) if "linear(x, w" in draw(4, n, cpu=True).text)
    program = named(f"4-{index}-cpu")
    assert program.text == draw(4, index, cpu=True).text != draw(4, index).text
    fields = prepare.both(program, tmp_path, "cpu")
    assert "said" not in fields
    module = prepare.Module(program, program.tensors("cpu"))
    kinds = [argument.kind for argument in program.drawn.arguments]
    assert len(module.inputs(kinds)) == kinds.count("normal")
    found = on_cpu.measure(program, tmp_path)
    assert found["ms"].keys() == {"eager", "compile", "ours", "stock"}
    assert "wrong" not in found
    entry = {**fields, **found, "name": program.name, "class": "matmul", "dtype": "f32"}
    entry |= {"text": program.text, "flops": program.drawn.flops}
    record = {
        "seed": 4,
        "device": "X",
        "rates": {"copy": 1e10},
        "versions": {},
        "programs": [entry],
    }
    assert "Over IREE without our passes" in report.text(record)
    page = report.markdown(report.load(report.save(record, tmp_path)))
    assert "## Random programs on a CPU" in page
    assert "| over IREE without our passes | 1 |" in page
