"""Profiles from recorded launches: calls, kernels told apart, rates, traces, CUPTI's records."""

import ctypes
import dataclasses
import html
import json

import pytest

from helpers import trace_events
from mlirfuse import targets
from mlirfuse.final_kernels import FinalKernel, Operand
from mlirfuse.profiling import against, copy_rate, cuda_capture, rates, summary
from mlirfuse.profiling.capture import Call, Capture, Launch, ProfileError, split
from mlirfuse.profiling.rates import Rates
from mlirfuse.support import cupti
from mlirfuse.targets.base import GpuDevice

RATES = Rates(
    copy=1e9,
    copy_source="invented",
    matmul={"f32": 1e11},
    vector=1e10,
    launch_us=1.0,
    source="invented",
)


def launch(name, start, end, **more):
    return Launch(name, start, end, **more)


def capture(*calls, device="local-task"):
    made = tuple(Call(wall, tuple(launch(*entry) for entry in found)) for wall, found in calls)
    return Capture(device, 2, "a clock", made)


def kernel(name, ops=(), *, shape=(1000,), flops=1000, calls=1, function="main", code="iree"):
    size = 4
    for n in shape:
        size *= n
    operands = (Operand(shape, "f32", size), Operand(shape, "f32", size, is_result=True))
    return FinalKernel(
        name=name,
        function=function,
        ops=tuple(ops),
        op_names=("linalg.generic",),
        operands=operands,
        bytes=2 * size,
        flops=flops,
        code=code,
        pass_name="elementwise_fusion" if ops else None,
        calls=calls,
    )


def profile(found, kernels=(), used=RATES):
    return summary.profile("m.mlir", "main", found, kernels, used)


def test_calls_are_split_and_the_first_ones_left_out():
    launches = [launch("b", 30, 35), launch("a", 0, 10), launch("b", 10, 15), launch("a", 20, 30)]
    (call,) = split(launches, [20, 17], warmup=1)
    assert call.wall_ns == 17
    assert [(found.name, found.start_ns) for found in call.launches] == [("a", 20), ("b", 30)]


@pytest.mark.parametrize("names", ["aab", "aabb"])
def test_calls_that_differ_are_refused(names):
    launches = [launch(name, n, n + 1) for n, name in enumerate(names)]
    with pytest.raises(ProfileError, match="not the same ones in each"):
        split(launches, [1, 1], warmup=0)


def test_kernels_at_the_same_time_are_busy_once():
    call = Call(
        100, (launch("a", 0, 10), launch("b", 5, 20), launch("c", 8, 9), launch("d", 30, 31))
    )
    assert call.busy_ns == 21


def test_times_are_medians_and_shares_sum_to_one():
    found = capture(
        (100_000, [("a", 0, 10_000), ("b", 10_000, 40_000)]),
        (90_000, [("a", 0, 20_000), ("b", 20_000, 40_000)]),
        (110_000, [("a", 0, 30_000), ("b", 30_000, 70_000)]),
    )
    made = profile(found)
    assert [k.name for k in made.kernels] == ["b", "a"]
    assert made.slowest is made.kernels[0]
    assert [(k.min_us, k.median_us, k.calls) for k in made.kernels] == [(20, 30, 1), (10, 20, 1)]
    assert sum(k.share for k in made.kernels) == pytest.approx(1)
    assert (made.wall_us, made.busy_us, made.between_us) == (100, 40, 60), "of one call"
    assert (made.min_wall_us, made.min_busy_us) == (90, 40)


def test_rates_of_a_kernel_and_its_bound():
    found = capture((20_000, [("k", 0, 16_000)]))
    (made,) = profile(found, [kernel("k", ["m.py:1"])]).kernels
    assert (made.bytes, made.flops) == (8000, 1000)
    assert made.bytes_per_second == pytest.approx(0.5e9)
    assert made.copy_share == pytest.approx(0.5)
    assert made.flops_per_second == pytest.approx(1000 / 16e-6)
    assert made.peak_share == pytest.approx(1000 / 16e-6 / 1e10)
    assert made.bound == "memory"


@pytest.mark.parametrize(
    ("shape", "flops", "bound"),
    [((1000,), 1000, "memory"), ((1000,), 10_000_000, "compute"), ((10,), 10, "launch")],
)
def test_bounds(shape, flops, bound):
    found = capture((20_000, [("k", 0, 16_000)]))
    assert profile(found, [kernel("k", shape=shape, flops=flops)]).kernels[0].bound == bound


def test_the_peak_of_a_contraction_is_that_of_matmuls():
    found = capture((20_000, [("k", 0, 1_000_000)]))
    (made,) = profile(found, [kernel("k", flops=10_000_000)]).kernels
    assert made.peak_share == pytest.approx(1e10 / 1e11)


@pytest.mark.parametrize(
    ("name", "op", "code", "share"),
    [
        ("main_dispatch_0", "linalg.matmul", "iree", 0.01),
        ("matmul_0123", "linalg.generic", "matmul_vector_kernel", 0.01),
        ("main_dispatch_3_matvec_like_16x4_f32", "linalg.generic", "iree", 0.01),
        ("main_dispatch_0_conv_8x8x2x2_f32", "linalg.generic", "iree", 0.1),  # pooling
        ("rows_0123", "linalg.generic", "row_vector_kernel", 0.1),
    ],
)
def test_a_contraction_of_few_rows_is_one_by_its_names(name, op, code, share):
    """Eight rows have few operations for an element: their peak was that of elementwise ops."""
    found = capture((20_000, [(name, 0, 10_000)]))
    fact = dataclasses.replace(kernel(name, flops=10_000, code=code), op_names=(op,))
    (made,) = profile(found, [fact]).kernels
    assert made.peak_share == pytest.approx(share)


def test_shares_above_the_rates_are_explained():
    found = capture((20_000, [("k", 0, 1_000)]))
    (fact,) = [kernel("k", flops=20_000)]
    shown = profile(found, [fact]).text()
    assert "a cache held the operands" in shown
    assert "the device is faster than these rates say" in shown


def test_a_kernel_without_facts_has_a_name_and_times():
    (made,) = profile(capture((20_000, [("k", 0, 16_000)]))).kernels
    assert (made.bytes, made.flops, made.bound, made.code, made.ops) == (None, None, None, None, ())


def test_facts_of_a_dynamic_size_are_not_known():
    dynamic = dataclasses.replace(kernel("k"), bytes=None, flops=None)
    (made,) = profile(capture((20_000, [("k", 0, 16_000)])), [dynamic]).kernels
    assert (made.bytes, made.flops, made.bound) == (None, None, None)


LAYERS = [kernel("k", [f"m.py:{n}"], shape=(1000 * n,)) for n in (1, 2)]


def test_launches_of_one_function_are_told_apart_by_their_order():
    """Two layers are one function of IREE's; the second layer is the slower one."""
    found = capture((20_000, [("k", 0, 1_000), ("x", 1_000, 1_500), ("k", 2_000, 5_000)]))
    made = profile(found, LAYERS)
    assert [(k.name, k.ops, k.bytes, k.calls) for k in made.kernels] == [
        ("k", ("m.py:2",), 16000, 1),
        ("k", ("m.py:1",), 8000, 1),
        ("x", (), None, 1),
    ]


def test_equal_kernels_are_told_apart_too():
    found = capture((20_000, [("k", 0, 1_000), ("k", 2_000, 5_000)]))
    assert [k.calls for k in profile(found, [LAYERS[0], LAYERS[0]]).kernels] == [1, 1]


def test_launches_in_a_loop_are_one_kernel():
    found = capture((20_000, [("k", n, n + 1_000) for n in range(0, 3_000, 1_000)]))
    (made,) = profile(found, [kernel("k", ["m.py:1"], calls=None)]).kernels
    assert (made.calls, made.bytes, made.flops) == (3, 24000, 3000)
    (made,) = profile(found, LAYERS).kernels  # three launches of two kernels: which is which?
    assert (made.calls, made.bytes, made.ops) == (3, None, ("m.py:1", "m.py:2"))


def test_kernels_of_another_function_are_none_of_this_one():
    found = capture((20_000, [("k", 0, 16_000)]))
    other = kernel("k", ["other.py:1"], function="other")
    mine = kernel("k", ["m.py:1"], function="main$async")
    assert profile(found, [other, mine]).kernels[0].ops == ("m.py:1",)
    assert profile(found, [other]).kernels[0].ops == ("other.py:1",)  # which it may call


def test_stock_kernels_are_matched_by_their_ops():
    """One kernel of ours against two of stock's, one against one, and one of stock's alone."""
    ours = profile(
        capture((10_000, [("fused", 0, 2_000), ("same", 2_000, 3_000)])),
        [kernel("fused", ["m.py:1", "m.py:2"]), kernel("same", ["m.py:3"])],
    )
    launches = [("a", 0, 3_000), ("b", 3_000, 6_000), ("c", 6_000, 7_000), ("d", 7_000, 8_000)]
    stock = profile(
        capture((20_000, launches)),
        [
            kernel("a", ["m.py:1"]),
            kernel("b", ["m.py:2"]),
            kernel("c", ["m.py:3"]),
            kernel("d", ["m.py:4"]),
        ],
    )  # fmt: skip
    made = against.compare(ours, stock)
    assert made.comparison.ratio == 2
    assert made.comparison.kernel_ratio == pytest.approx(8 / 3)
    found = [entry | {} for entry in made.to_dict()["stock"]["sets"]]
    assert [(s["ours"], s["stock"], s["ratio"]) for s in found] == [
        (["fused"], ["a", "b"], 3.0),
        (["same"], ["c"], 1.0),
        ([], ["d"], None),
    ]
    assert "6.0   3.00" in made.text()
    assert "of the fastest calls 2.00, of the kernels, each in its fastest, 2.67" in made.text()


def test_one_line_in_two_layers_is_two_ops():
    def layer(name, number):
        found = kernel(name, ["m.py:1"])
        return dataclasses.replace(found, layers=(f"blocks/{number}",))

    calls = capture((10_000, [("a", 0, 2_000), ("b", 2_000, 3_000)]))
    ours = profile(calls, [layer("a", 0), layer("b", 1)])
    stock = profile(calls, [layer("a", 1), layer("b", 0)])
    made = against.compare(ours, stock)
    assert [(s.ours[0].name, s.stock[0].name) for s in made.comparison.sets] == [
        ("a", "b"),
        ("b", "a"),
    ]
    assert "blocks.0" in made.text()
    assert "origins" not in made.kernels[0].to_dict()


def test_without_ops_only_totals_are_compared():
    ours = profile(capture((10_000, [("a", 0, 2_000)])))
    made = against.compare(ours, ours)
    assert (made.comparison.sets, made.comparison.ratio) == ((), 1)


def test_overlapping_launches_have_lanes_of_their_own_in_a_trace():
    made = profile(
        capture((20_000, [("a", 0, 10_000), ("b", 5_000, 12_000), ("c", 11_000, 12_000)]))
    )
    trace_events.check(made.trace())
    events = json.loads(json.dumps(made.trace()))["traceEvents"]
    drawn = {e["name"]: (e["tid"], e["ts"], e["dur"]) for e in events if e["ph"] == "X"}
    assert drawn == {
        "call 0": (0, 0, 12),
        "a": (1, 0, 10),
        "b": (2, 5, 7),
        "c": (1, 11, 1),
    }


def test_the_trace_has_stock_as_a_process_of_its_own():
    ours = profile(capture((10_000, [("a", 0, 2_000)])))
    made = against.compare(ours, ours).trace()
    trace_events.check(made)
    events = made["traceEvents"]
    assert {e["args"]["name"]: e["pid"] for e in events if e["name"] == "process_name"} == {
        "m.mlir": 1,
        "m.mlir, stock IREE": 2,
    }


@pytest.mark.parametrize(
    "change",
    [
        {"ts": -1.0},
        {"dur": None},
        {"ph": "Z"},
        {"tid": "kernels"},
        {"args": None},
        {"dur": float("nan")},
        {"dur": 11.0},
    ],
    ids=str,
)
def test_a_trace_that_perfetto_would_not_show_is_found(change):
    """The last one ends inside the next kernel of its lane."""
    made = profile(capture((20_000, [("a", 0, 10_000), ("b", 10_000, 12_000)]))).trace()
    (event,) = (e for e in made["traceEvents"] if e["name"] == "a")
    event |= change
    with pytest.raises((AssertionError, KeyError, ValueError)):
        trace_events.check(made)


def test_top_shows_the_slowest_and_counts_the_rest():
    made = profile(
        capture((20_000, [("a", 0, 10_000), ("b", 10_000, 11_000), ("c", 11_000, 12_000)]))
    )
    text = made.text(top=1)
    assert "\na " in text
    assert "\nb " not in text
    assert "2 more kernels, 16.7% of the time" in text


def test_a_terminal_gets_styles_and_no_narrower_columns():
    made = profile(
        capture((20_000, [("a_long_name_" * 5, 0, 10_000)])), [kernel("a_long_name_" * 5)]
    )
    text = made.text(color=True)
    assert "\x1b[" in text
    assert "a_long_name_" * 5 in text


def test_names_of_a_model_cannot_move_the_cursor():
    text = profile(capture((20_000, [("k\x1b[2J", 0, 10_000)]))).text()
    assert "\x1b" not in text


def test_rates_of_a_cpu_are_those_of_the_threads_used(monkeypatch):
    monkeypatch.setattr(copy_rate, "measure", lambda threads: threads * 1e9)
    monkeypatch.setattr(rates.cpu_host, "cores", lambda: 4)
    target = targets.parse("cpu")
    target = dataclasses.replace(target, cpu=dataclasses.replace(target.cpu, cores=4))
    one, three = (rates.of(target, "local-task", n) for n in (1, 3))
    assert (one.copy, three.copy) == (1e9, 3e9)
    assert three.copy_source == "measured here, 3 threads"
    assert one.vector == pytest.approx(target.vector_rate / 4)
    assert three.matmul["f32"] == pytest.approx(target.matmul_rate["f32"] * 3 / 4)
    assert rates.of(target, "local-sync", None).copy == 1e9
    assert rates.of(target, "local-task", 8).vector == target.vector_rate


def test_rates_of_a_gpu_are_its_targets():
    target = targets.parse("cuda:sm_90")
    found = rates.of(target, "cuda", None)
    assert found.copy == target.bandwidth
    assert str(target) in found.copy_source
    assert rates.of(None, "vulkan", None).copy is None


def test_the_copy_rate_counts_bytes_read_and_written(monkeypatch):
    ticks = iter(range(100))
    monkeypatch.setattr(copy_rate.time, "perf_counter", lambda: next(ticks))
    monkeypatch.setattr(copy_rate, "BYTES", 1 << 12)
    assert copy_rate.measure(3) == 2 << 12


GPU = GpuDevice(
    num_sms=132,
    shared_memory_per_sm=233472,
    shared_memory_per_cta=232448,
    registers_per_sm=65536,
    max_threads_per_sm=2048,
    warp_size=32,
    l2_bytes=50 << 20,
)


@pytest.mark.parametrize(
    ("threads", "registers", "shared", "expected"),
    [
        (256, 32, 0, 1.0),
        (256, 128, 0, 0.25),  # registers
        (128, 32, 100_000, 0.125),  # shared memory
        (96, 32, 0, 21 * 96 / 2048),  # warps
    ],
)
def test_occupancy(threads, registers, shared, expected):
    """The values of NVIDIA's occupancy calculator for compute capability 9.0."""
    found = launch(
        "k", 0, 1, workgroup_size=(threads, 1, 1), registers=registers, shared_memory=shared
    )
    assert summary.occupancy(found, GPU) == pytest.approx(expected)
    assert summary.occupancy(launch("k", 0, 1), GPU) is None


class StandIn:
    """CUPTI's activity API: each call of the program leaves records in a buffer."""

    def __init__(self, refuses=""):
        self.refuses = refuses
        self.enabled = []
        self.records = []

    def cuptiActivityRegisterCallbacks(self, requested, completed):
        self.requested, self.completed = requested, completed
        return 0

    def cuptiActivityEnable(self, kind):
        self.enabled.append(kind)
        return 35 if self.refuses == "enable" else 0

    def cuptiActivityDisable(self, kind):
        self.enabled.remove(kind)
        return 0

    def cuptiGetResultString(self, status, text):
        ctypes.cast(text, ctypes.POINTER(ctypes.c_char_p))[0] = (
            b"CUPTI_ERROR_" + str(status).encode()
        )
        return 0

    def run(self):
        """A call: a fill, then a kernel, as records of their sizes in CUDA 12.9."""
        if self.enabled:
            start = 1000 * (len(self.records) + 1)
            fill = cuda_capture.TransferRecord(2, 0, 64, start, start + 10)
            kernel = cuda_capture.KernelRecord(
                kind=10,
                registers=64,
                start=start + 20,
                end=start + 120,
                grid=(4, 2, 1),
                block=(128, 1, 1),
                static_shared_memory=16,
                dynamic_shared_memory=1024,
                local_memory_per_thread=8,
                name=b"matmul_kernel",
            )
            self.records += [(fill, 88), (kernel, 208)]

    def cuptiActivityFlushAll(self, _flag):
        address, size, limit = ctypes.c_void_p(), ctypes.c_size_t(), ctypes.c_size_t()
        self.requested(ctypes.byref(address), ctypes.byref(size), ctypes.byref(limit))
        assert address.value % 8 == 0
        self.places, end = [], address.value
        for record, held in self.records:
            ctypes.memmove(end, ctypes.byref(record), ctypes.sizeof(record))
            self.places.append(end)
            end += held
        assert end - address.value <= size.value
        self.completed(None, 0, address.value, size.value, end - address.value)
        return 0

    def cuptiActivityGetNextRecord(self, _buffer, _valid, record):
        if self.refuses == "read":
            return 3
        if not self.places:
            return 12
        ctypes.cast(record, ctypes.POINTER(ctypes.c_void_p))[0] = self.places.pop(0)
        return 0


def test_cupti_times_the_kernels_of_calls(monkeypatch):
    library = StandIn()
    monkeypatch.setattr(cupti, "library", lambda: library)
    found = cuda_capture.capture(library.run, "cuda", calls=3, warmup=2)
    assert library.enabled == []
    assert len(found.calls) == 3
    fill, kernel = found.calls[0].launches
    assert (fill.name, fill.ns, fill.workgroups) == ("fill", 10, None)
    assert kernel == Launch(
        "matmul_kernel",
        kernel.start_ns,
        kernel.start_ns + 100,
        workgroups=(4, 2, 1),
        workgroup_size=(128, 1, 1),
        registers=64,
        shared_memory=1040,
        local_memory=8,
    )
    whole = profile(found, used=dataclasses.replace(RATES, gpu=GPU))
    made = whole.kernels[0]
    assert (made.name, made.registers, made.occupancy) == ("matmul_kernel", 64, 0.5)
    header, row = (line.split() for line in whole.text().splitlines()[2:4])
    assert header[-6:] == [
        *("workgroups", "threads", "registers", "shared", "spilled", "occupancy"),
    ]
    assert row[-8:] == ["4x2x1", "128x1x1", "64", "1.0", "KiB", "8", "B", "50%"]


def test_records_have_the_layout_of_cuptis_header():
    """Offsets of `CUpti_ActivityKernel9` in cupti_activity.h of CUDA 12.9, by a C compiler."""
    fields = ("registers", "start", "end", "grid", "block", "static_shared_memory")
    offsets = [getattr(cuda_capture.KernelRecord, name).offset for name in fields]
    assert offsets == [6, 16, 24, 52, 64, 76]
    assert cuda_capture.KernelRecord.local_memory_per_thread.offset == 84
    assert cuda_capture.KernelRecord.name.offset == 104
    assert cuda_capture.TransferRecord.start.offset == 16


@pytest.mark.parametrize(
    ("refuses", "message"),
    [("enable", "cuptiActivityEnable failed: CUPTI_ERROR_35"), ("read", "records: error 3")],
)
def test_cuptis_refusals(monkeypatch, refuses, message):
    library = StandIn(refuses)
    monkeypatch.setattr(cupti, "library", lambda: library)
    with pytest.raises(ProfileError, match=message):
        cuda_capture.capture(library.run, "cuda", calls=1, warmup=0)


def test_cupti_without_kernels_or_without_itself(monkeypatch):
    library = StandIn()
    monkeypatch.setattr(cupti, "library", lambda: library)
    with pytest.raises(ProfileError, match="recorded no kernel"):
        cuda_capture.capture(lambda: None, "cuda", calls=1, warmup=0)
    monkeypatch.undo()
    monkeypatch.setattr(cupti, "LIBRARIES", ("libnothere.so.1",))
    with pytest.raises(ProfileError, match="CUPTI is not installed"):
        cuda_capture.capture(lambda: None, "cuda", calls=1, warmup=0)


def test_notebooks_show_the_table():
    found = profile(capture((10_000, [("a<b>", 0, 2_000)])))
    shown = found._repr_html_()
    assert "a&lt;b&gt;" in shown
    assert html.unescape(shown).endswith(f"{found}</pre>")
