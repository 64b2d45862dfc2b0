"""Random cases for a device: the same anywhere, right in PyTorch; mistakes in them are found."""

import dataclasses
import json
import math

import pytest
import torch

import mlirfuse
from benchmarks import results
from benchmarks.__main__ import main
from benchmarks.gpu.check import forms, make, page, program, worker
from benchmarks.gpu.check.case import Case, Input, Work, make_arguments, reference
from mlirfuse.core import UsageError
from mlirfuse.patterns import PASSES

CASES = forms.names(len(forms.FORMS))

SMALL = ["masked_softmax_0", "weights_i4_0", "of_i8_0", "dynamic_attention_1"]
"""Whose programs run here, on the CPU and without fusion."""


@pytest.fixture(scope="module")
def image(tmp_path_factory):
    """Programs of some cases, imported and packed like those for a device."""
    cases = [*(forms.case(name, 3, small=True) for name in SMALL), forms.case("softmax_0", 1)]
    text = make.merged_module([make.written(case) for case in cases])
    built = mlirfuse.compile(text, target="cpu", function=SMALL[0], stock=True, cache=False)
    path = tmp_path_factory.mktemp("programs") / "000.vmfb"
    built.save(path)
    return path


def test_every_triton_kernel_has_forms():
    kernels = {name for name in PASSES if name.endswith("_triton_kernel")}
    assert set(forms.KERNELS) == kernels
    assert sum(map(len, forms.KERNELS.values())) == len(forms.FORMS)


@pytest.mark.parametrize("seed", [0, 5])
def test_cases_are_known_by_name_and_seed(seed):
    described = [forms.case(name, seed).work for name in CASES]
    again = [forms.case(name, seed).work for name in CASES]
    others = [forms.case(name, seed + 1).work for name in CASES]
    assert [(w.description, w.inputs, w.sizes) for w in described] == [
        (w.description, w.inputs, w.sizes) for w in again
    ]
    assert [w.description for w in described] != [w.description for w in others]


def test_the_choices_of_a_seed_are_stable():
    """Programs that were compiled elsewhere, or before, are those of the same names."""
    assert forms.case("linear_1", 0).work.description == "255x47x136, residual"
    assert forms.case("weights_i4_2", 0).work.description == "1x1212x128 of 1212x128"


ADDED_IN_HALVES = ("transposed_convolution",)
"""Forms of which PyTorch's CPU code adds the taps in the type of the case."""


@pytest.mark.parametrize("name", [n for n in CASES if not n.startswith(ADDED_IN_HALVES)])
def test_narrow_types_stay_within_the_tolerance(name):
    """PyTorch's own result in the type of the case passes for the program's."""
    case = few_calls(forms.case(name, 0, small=True))
    found = program.check(case, Torch(case), "cpu")
    assert found["said"] == ""
    assert found["calls"] == len(case.work.sizes)


@pytest.mark.parametrize("name", SMALL)
def test_programs_compute_the_reference(image, name):
    case = few_calls(forms.case(name, 3, small=True))
    assert program.check(case, program.load(case, image, "local-task"), "cpu")["said"] == ""


def few_calls(case):
    """The case with its first sizes alone: the others are large."""
    return dataclasses.replace(case, work=dataclasses.replace(case.work, sizes=case.work.sizes[:2]))


class Torch(program.Program):
    """A case as PyTorch runs it, with the same memory for results in every call."""

    def __init__(self, case):
        self.case = case
        self.kept = {}

    def call(self, passed):
        narrow = [self.case.work.program(*passed)] if not self.case.work.text else None
        found = narrow or reference(self.case.work, passed)
        found = found[0] if isinstance(found[0], tuple | list) else found
        results = []
        for number, result in enumerate(found):
            result = result.to(torch.float32) if self.case.work.text else result
            memory = self.kept.setdefault(
                (number, result.shape),
                torch.zeros_like(result, memory_format=torch.contiguous_format),
            )
            self.put(memory, result)
            results.append(memory)
        return results

    def put(self, memory, result):
        memory.copy_(result)

    def write(self, passed, out):
        for memory, result in zip(out, self.call(passed), strict=True):
            self.put(memory, result)
        return True


CASE = Case("sum", 0, "", Work(lambda x, y: x + y, (Input((5, 8)), Input((5, 8))), "f16", ""))


def failure(kind):
    return program.check(CASE, kind(CASE), "cpu")["said"]


def test_a_wrong_element_is_found():
    class Wrong(Torch):
        def put(self, memory, result):
            memory.copy_(result)
            memory[3, 1] += 0.5

    assert failure(Wrong).startswith("result 0 of (5, 8): 1 wrong, element 25 is")


def test_an_element_that_is_not_written_is_found():
    class Missing(Torch):
        def put(self, memory, result):
            keep = memory[4, 7].clone() if self.kept and memory.isnan().any() else result[4, 7]
            memory.copy_(result)
            memory[4, 7] = keep

    assert failure(Missing) == (
        "result 0 of (5, 8): a second call over NaN left 1 other elements, the first at 39"
    )


def test_an_element_that_a_replayed_call_does_not_write_is_found():
    class Missing(Torch):
        def write(self, passed, out):
            out[0][1:] = self.call(passed)[0][1:]
            return True

    assert failure(Missing) == (
        "result 0 of (5, 8): a replayed call over NaN left 8 other elements, the first at 0"
    )


@pytest.mark.parametrize("distance", [-1, 40])
def test_a_write_outside_is_found(distance):
    class Outside(Torch):
        def write(self, passed, out):
            super().write(passed, out)
            place = out[0].storage_offset() + distance
            out[0].as_strided((1,), (1,), place).fill_(1.0)
            return True

    assert failure(Outside) == "result 0: written outside of it"


def test_a_changed_argument_is_found():
    class Changed(Torch):
        def call(self, passed):
            found = super().call(passed)
            passed[1][0, 0] = 7.0
            return found

    assert "argument 1 was written to" in failure(Changed) or "second call" in failure(Changed)


@pytest.mark.parametrize(
    ("ours", "exact", "right"),
    [
        ([1.0, 2.0], [1.0, 2.0], True),
        ([1.0, math.nan], [1.0, 2.0], False),
        ([1.0, math.nan], [1.0, math.nan], True),
        ([1.0, 2.0], [1.0, math.nan], False),
        ([1.0, math.inf], [1.0, math.inf], True),
        ([1.0, math.inf], [1.0, -math.inf], False),
        ([1.0, 65504.0], [1.0, math.inf], False),
        ([100.0, 0.5], [100.0, 0.0], True),
        ([100.0, 1.5], [100.0, 0.0], False),
    ],
)
def test_errors(ours, exact, right):
    error = program.error_of(torch.tensor(ours), torch.tensor(exact).double(), 1e-2)
    assert bool((error <= 1.0).all()) is right


def test_half_of_the_least_f16_may_be_rounded_up():
    exact = torch.tensor([2.98032e-08], dtype=torch.double)
    found = torch.tensor([5.96046e-08], dtype=torch.half)
    assert program.error_of(found, exact, 1e-2) <= 1.0
    assert program.error_of(2 * found, exact, 1e-2) > 1.0


def test_masks_and_special_rows_are_there():
    case = forms.case("boolean_attention_0", 0)
    mask = make_arguments(case, {}, "cpu")[3]
    assert not mask.reshape(-1, mask.shape[-1])[1].any()
    x = program.GuardedBuffer(torch.zeros(3))
    assert x.result.isnan().all()
    assert x.intact()


def test_cases_run_in_processes(image, tmp_path, capsys):
    """One of three cases is right, one is not in its program, and one has none."""
    names = ["softmax_0", "softmax_1", "softmax_2"]
    row = {"kernel": "row_triton_kernel", "program": image.name, "said": ""}
    entries = [{"name": name, **row} for name in names]
    entries[2] |= {"program": "", "said": "no row_triton_kernel"}
    table = {"seed": 1, "target": "cpu", "versions": {}, "cases": entries}
    (image.parent / forms.TABLE).write_text(json.dumps(table))
    asked = ["gpu_check", f"--programs={image.parent}", "--device=cpu", f"--results={tmp_path}"]
    assert main([*asked, "--jobs=1", "softmax"]) == 1
    found = {c["name"]: c for c in json.loads((tmp_path / page.RESULTS).read_text())["cases"]}
    assert found["softmax_0"]["said"] == ""
    assert found["softmax_0"]["calls"] == 1
    assert "no function softmax_1" in found["softmax_1"]["said"]
    assert found["softmax_2"]["said"] == "no row_triton_kernel"
    assert "1 of 3 cases are correct" in capsys.readouterr().out
    assert main([*asked, "--one=softmax_0"]) == 0


def test_usage_errors(tmp_path, capsys):
    with pytest.raises(UsageError, match=r"no case is called 'softmux_1'.*softmax"):
        forms.case("softmux_1", 0)
    assert main(["gpu_check", f"--programs={tmp_path}"]) != 0
    assert "has no cases.json" in capsys.readouterr().err
    assert main(["gpu_check", f"--make={tmp_path}", "pancake"]) != 0
    assert "no form has pancake in its name" in capsys.readouterr().err


def test_a_process_reports_the_failure_of_a_case(tmp_path):
    entry = {"name": "softmax_0", "program": "none.vmfb"}
    assert "No such file" in worker.checked(entry, tmp_path, 0, "cpu")["said"]


def test_recorded_cases_are_correct():
    """Every kernel and form ran, or the page says that it did not; failures are explained."""
    found = json.loads((results.FOLDER / page.RESULTS).read_text(encoding="utf-8"))
    recorded = {case["form"]: case["kernel"] for case in found["cases"]}
    assert not recorded.keys() & page.NOT_RUN.keys()
    assert recorded.keys() | page.NOT_RUN.keys() == forms.FORMS.keys()
    assert {*recorded.values(), *page.NOT_RUN.values()} == forms.KERNELS.keys()
    assert {case["name"] for case in found["cases"] if case["said"]} <= set(page.EXPLAINED)


def test_failures_are_on_the_page():
    case = {"kernel": "row_triton_kernel", "form": "softmax", "dtype": "f16", "work": "3x5"}
    found = {
        "date": "2026-11-22",
        "seed": 4,
        "target": "cuda:sm_90",
        "compiled_with": {"triton": "3.9.0"},
        "run_with": {"device": "NVIDIA X"},
        "seconds": 7,
        "cases": [
            {**case, "name": "softmax_0", "calls": 2, "written": 1, "error": 0.25, "said": ""},
            {**case, "name": "softmax_1", "calls": 0, "said": "its process died or hung"},
        ],
    }
    lines = page.section(found)
    assert "| `row_triton_kernel` | 2 | 2 | 0 | 0 | 0 | 2 | 0.25 | 1 |" in lines
    assert "- `softmax_1`, f16, 3x5: its process died or hung." in lines
