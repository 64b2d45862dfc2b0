"""CUDA graphs of programs, on a driver that computes in the host's memory."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import logging
import sys
import types

import pytest
import torch

import mlirfuse
from mlirfuse.core import UsageError
from mlirfuse.runtime import cuda_driver, cupti_trace, graph_nodes, replay
from mlirfuse.runtime.cupti_trace import Busy, Copy, Fill, Launch, NotRecorded, Recorder, Update
from mlirfuse.support import cupti

DOUBLE, ADD = 1, 2
"""Handles of kernels: y = 2 x, and z = x + y + a 32-bit constant; on 8 floats."""


def floats(address):
    return (ctypes.c_float * 8).from_address(address)


def run(function, parameters):
    """Runs a kernel on the host."""
    pointers = [int.from_bytes(p, "little") for p in parameters]
    if function == DOUBLE:
        source, target = map(floats, pointers)
        target[:] = [2 * value for value in source]
    else:
        left, right, target = map(floats, pointers[:3])
        target[:] = [a + b + pointers[3] for a, b in zip(left, right, strict=True)]


def pointer(tensor):
    return tensor.data_ptr().to_bytes(8, "little")


class Driver(types.ModuleType):
    """The part of `cuda.bindings.driver` that replay uses."""

    class CUresult:
        CUDA_SUCCESS = 0

    class CUmemorytype:
        CU_MEMORYTYPE_HOST, CU_MEMORYTYPE_DEVICE = 1, 2

    class CUpointer_attribute:
        CU_POINTER_ATTRIBUTE_MEMORY_TYPE = 2

    CUDA_KERNEL_NODE_PARAMS = types.SimpleNamespace
    CUDA_MEMCPY3D = types.SimpleNamespace
    CUDA_MEMSET_NODE_PARAMS = types.SimpleNamespace
    CUfunction = int

    def __init__(self):
        super().__init__("cuda.bindings.driver")
        self.allocations = {}
        self.updates = 0
        self.launches = 0

    def cuMemGetAddressRange(self, address):
        for start, size in self.allocations.items():
            if start <= address < start + size:
                return 0, start, size
        return 1, 0, 0

    def cuPointerGetAttribute(self, _, address):
        return 0, 2 if self.cuMemGetAddressRange(address)[0] == 0 else 1

    def cuGetErrorName(self, status):
        return 0, b"CUDA_ERROR_%d" % status

    def cuCtxGetCurrent(self):
        return 0, "context"

    def cuGraphCreate(self, _):
        return 0, []

    def _add(self, graph, before, count, run):
        assert count == len(before)
        assert before == ([len(graph) - 1] if graph else [])
        graph.append(run)
        return 0, len(graph) - 1

    def cuGraphAddKernelNode(self, graph, before, count, given):
        return self._add(graph, before, count, self._kernel(given))

    def cuGraphAddMemcpyNode(self, graph, before, count, given, context):
        return self._add(graph, before, count, self._copy(given))

    def cuGraphAddMemsetNode(self, graph, before, count, given, context):
        return self._add(graph, before, count, self._fill(given))

    def cuGraphInstantiate(self, graph, _):
        return 0, list(graph)

    def _update(self, instance, node, run):
        self.updates += 1
        instance[node] = run
        return (0,)

    def cuGraphExecKernelNodeSetParams(self, instance, node, given):
        return self._update(instance, node, self._kernel(given))

    def cuGraphExecMemcpyNodeSetParams(self, instance, node, given, context):
        return self._update(instance, node, self._copy(given))

    def cuGraphExecMemsetNodeSetParams(self, instance, node, given, context):
        return self._update(instance, node, self._fill(given))

    def cuGraphLaunch(self, instance, stream):
        self.launches += 1
        for node in instance:
            node()
        return (0,)

    def cuGraphDestroy(self, graph):
        return (0,)

    def cuGraphExecDestroy(self, instance):
        instance.clear()
        return (0,)

    # The driver copies the parameters of a node; later changes have no effect.

    @staticmethod
    def _kernel(given):
        count = 4 if given.func == ADD else 2
        places = (ctypes.c_void_p * count).from_address(given.kernelParams)
        parameters = [
            ctypes.string_at(place, 4 if position == 3 else 8)
            for position, place in enumerate(places)
        ]
        assert (given.gridDimX, given.blockDimX, given.sharedMemBytes) == (1, 32, 0)
        return lambda: run(given.func, parameters)

    @staticmethod
    def _copy(given):
        source = given.srcDevice if given.srcMemoryType == 2 else given.srcHost
        target, size = given.dstDevice, given.WidthInBytes
        assert (given.Height, given.Depth) == (1, 1)
        return lambda: ctypes.memmove(target, source, size)

    @staticmethod
    def _fill(given):
        data = given.value.to_bytes(given.elementSize, "little") * given.width
        target = given.dst
        return lambda: ctypes.memmove(target, data, len(data))


class Stream:
    def __init__(self, number):
        self.cuda_stream = number
        self.waited = []

    def wait_stream(self, other):
        self.waited.append(other.cuda_stream)

    def synchronize(self):
        self.waited.append("host")


class Program:
    """A program of iree-runtime: its commands go to the recorder, and run."""

    def __init__(self, driver, body):
        self.driver = driver
        self.body = body
        self.recorder = None
        self.calls = 0
        self.memory = []
        self.kept = self.allocate()

    def allocate(self):
        tensor = torch.full((8,), float("nan"))
        self.memory.append(tensor)
        self.driver.allocations[tensor.data_ptr()] = tensor.nbytes
        return tensor

    def issue(self, command):
        if self.recorder is not None:
            self.recorder.commands.append(command)
            self.recorder.streams.add(7)
        node = graph_nodes.make_node(command)
        node.add(graph := [], [])
        graph[0]()

    def double(self, source, target):
        self.issue(Launch(DOUBLE, (1, 1, 1), (32, 1, 1), 0, (pointer(source), pointer(target))))

    def add(self, left, right, target, constant=0):
        given = (*map(pointer, (left, right, target)), constant.to_bytes(4, "little"))
        self.issue(Launch(ADD, (1, 1, 1), (32, 1, 1), 0, given))

    def __call__(self, tensors):
        self.calls += 1
        return self.body(self, *tensors)


@pytest.fixture
def driver(monkeypatch):
    found = Driver()
    package = types.ModuleType("cuda.bindings")
    package.driver = found
    for name, module in [
        ("cuda", types.ModuleType("cuda")),
        ("cuda.bindings", package),
        ("cuda.bindings.driver", found),
    ]:
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda device=None: None)
    found.stream = Stream(1)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device=None: found.stream)
    monkeypatch.setattr(replay, "_last_stream", [])
    cuda_driver.driver.cache_clear()
    yield found
    cuda_driver.driver.cache_clear()


@pytest.fixture
def program(driver, monkeypatch):
    """Makes programs whose calls are recorded while a recording is open."""
    made = []

    def make(body):
        made.append(Program(driver, body))
        return made[-1]

    @contextlib.contextmanager
    def recorded():
        made[-1].recorder = Recorder()
        try:
            yield made[-1].recorder
        finally:
            made[-1].recorder = None

    monkeypatch.setattr(cupti_trace, "recorded", recorded)
    return make


def two_steps(program, x, y):
    """2 x + y + 3, by way of memory of the program's own."""
    middle, result = program.allocate(), program.allocate()
    program.double(x, middle)
    program.add(middle, y, result, 3)
    return [result]


def aligned(values):
    """Floats at an address that is a multiple of 64 bytes."""
    raw = torch.empty(24)
    skipped = -raw.data_ptr() % 64 // 4
    part = raw[skipped : skipped + 8]
    part[:] = torch.as_tensor(values, dtype=torch.float32)
    return part


A, B = torch.arange(8.0), torch.arange(8.0) ** 2


def test_a_graph_computes_with_the_arguments_of_each_call(program, driver):
    made = program(two_steps)
    graph = replay.Graph(made, [aligned(A), aligned(B)])
    assert graph.commands == 2
    results = []
    for x, y in [(A, B), (B, A), (A + 5, A)]:
        (result,) = graph.launch([aligned(x), aligned(y)])
        results.append((result, 2 * x + y + 3))
    assert made.calls == 2  # both before the graph was there
    for result, expected in results:  # each has memory of its own
        assert torch.equal(result, expected)


def test_nodes_change_only_where_addresses_do(program, driver):
    x, y = aligned(A), aligned(B)
    graph = replay.Graph(program(two_steps), [x, y])
    before = driver.updates
    first = graph.launch([x, y])
    assert driver.updates == before + 1  # another result
    other = aligned(A)
    graph.launch([other, y])
    assert driver.updates == before + 3
    del first


def test_one_tensor_twice_when_recorded_and_two_later(program, driver):
    x = aligned(A)
    graph = replay.Graph(program(two_steps), [x, x])
    assert torch.equal(graph.launch([x, aligned(B)])[0], 2 * A + B + 3)
    assert torch.equal(graph.launch([x, x])[0], 3 * A + 3)


def test_arguments_in_another_order_of_memory(program, driver):
    graph = replay.Graph(program(two_steps), [aligned(A), aligned(B)])
    off = torch.empty(32)[1:9]
    off[:] = A
    spread = torch.zeros(16)
    spread[::2] = B
    assert torch.equal(graph.launch([off, spread[::2]])[0], 2 * A + B + 3)


def test_copies_updates_and_fills(program, driver):
    constants = torch.arange(8.0) * 10

    def body(program, x):
        middle, filled, result = (program.allocate() for _ in range(3))
        program.issue(Copy(middle.data_ptr(), x.data_ptr(), 32))
        program.issue(Update(middle.data_ptr(), constants[:4].numpy().tobytes()))
        program.issue(Fill(filled.data_ptr(), 0x3F80, 2, 16))
        program.issue(Fill(filled.data_ptr(), 0, 4, 4))
        program.add(middle, filled, result)
        program.issue(Copy(result.data_ptr() + 16, middle.data_ptr() + 16, 4))
        return [result]

    graph = replay.Graph(program(body), [aligned(A)])
    filled = torch.frombuffer(bytearray(b"\x80\x3f" * 16), dtype=torch.float32).clone()
    filled[:4] = 0
    for x in (A, B):
        expected = torch.cat([constants[:4], x[4:]]) + filled
        expected[4] = x[4]
        assert torch.equal(graph.launch([aligned(x)])[0], expected)


def test_results_in_an_argument_in_each_other_and_in_one_allocation(program, driver):
    def body(program, x):
        result = program.allocate()
        program.double(x, result)
        return [result, x, result, result[:4]]

    graph = replay.Graph(program(body), [aligned(A)])
    x = aligned(B)
    results = graph.launch([x])
    for result, expected in zip(results, (2 * B, B, 2 * B, 2 * B[:4]), strict=True):
        assert torch.equal(result, expected)
    results[0].zero_()
    x.zero_()
    for result, expected in zip(results[1:], (B, 2 * B, 2 * B[:4]), strict=True):
        assert torch.equal(result, expected)


def test_results_are_written_where_the_caller_wants_them(program, driver):
    def body(program, x):
        alone, shared = program.allocate(), program.allocate()
        program.double(x, alone)
        program.add(x, alone, shared)
        return [alone, shared, shared]

    graph = replay.Graph(program(body), [on_gpu(A)])
    x, outs = on_gpu(B), [on_gpu(A) for _ in range(3)]
    results = graph.launch([x], outs)
    assert results[0] is outs[0]
    assert results[1] is not outs[1]
    for result, expected in zip(results, (2 * B, 3 * B, 3 * B), strict=True):
        assert torch.equal(result, expected)
    spread = on_gpu(A).new_zeros(16)[::2]
    for other in (x, spread, aligned(A), on_gpu(A)[:4], on_gpu(A).double(), on_gpu(A)[1:], 3):
        results = graph.launch([x], [other, *outs[1:]])
        assert results[0] is not other
        assert torch.equal(results[0], 2 * B)
        assert torch.equal(x, B)


def empty(program, x):
    result = program.allocate()
    program.double(x, result)
    return [result, torch.empty(0, 3)]


def test_an_empty_result(program, driver):
    graph = replay.Graph(program(empty), [aligned(A)])
    assert graph.launch([aligned(A)])[1].shape == (0, 3)


def keeps(program, x):
    program.double(x, program.kept)
    return [program.kept]


HOST = torch.empty(8)


def reads_host(program, x):
    result = program.allocate()
    program.double(x, result)
    program.issue(Copy(HOST.data_ptr(), x.data_ptr(), 32))
    return [result]


def changes(program, x):
    result = program.allocate()
    program.add(x, x, result, program.calls)
    program.recorder = None if program.calls == 2 else program.recorder
    program.add(x, result, result, program.calls)
    return [result]


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (keeps, "memory that the program keeps"),
        (reads_host, "between host and device"),
        (changes, "another result 0"),
        (lambda program, x: [program.allocate()], "no commands"),
    ],
)
def test_programs_that_cannot_be_replayed(program, driver, body, reason):
    with pytest.raises(NotRecorded, match=reason):
        replay.Graph(program(body), [aligned(A)])


def test_a_driver_that_refuses(program, driver, monkeypatch):
    monkeypatch.setattr(driver, "cuGraphInstantiate", lambda *_: (3, None))
    with pytest.raises(NotRecorded, match="refuses a graph: CUDA_ERROR_3"):
        replay.Graph(program(two_steps), [aligned(A), aligned(B)])


def test_no_bindings_of_the_driver(program, driver, monkeypatch):
    monkeypatch.setitem(sys.modules, "cuda.bindings", None)
    made = program(two_steps)
    with pytest.raises(NotRecorded, match=r"pip install 'mlirfuse\[cuda-graph\]'"):
        replay.Graph(made, [aligned(A), aligned(B)])
    assert made.calls == 0


def test_graphs_follow_each_other_on_whatever_stream(program, driver):
    graph = replay.Graph(program(two_steps), [aligned(A), aligned(B)])
    first, second = driver.stream, Stream(2)
    graph.launch([aligned(A), aligned(B)])
    assert not first.waited
    driver.stream = second
    graph.launch([aligned(A), aligned(B)])
    graph.launch([aligned(A), aligned(B)])
    assert second.waited == [1]
    with replay.exclusive():
        assert second.waited == [1, "host"]


# --- by signature --------------------------------------------------------------------------------


class OnGpu(torch.Tensor):
    """A tensor that says that it is on a GPU."""

    is_cuda = True


def on_gpu(values):
    return aligned(values).as_subclass(OnGpu)


def halves(program, x, y):
    """As `two_steps`, of the first half when there is no more."""
    middle, result = program.allocate(), program.allocate()
    if x.numel() == 4:
        program.double(y, result)
    else:
        program.double(x, middle)
        program.add(middle, y, result)
    return [result]


def test_a_graph_for_each_signature(program, driver, monkeypatch):
    made = program(halves)
    graphs = functools.partial(replay.GraphCache("model"), made)
    x, y = on_gpu(A), on_gpu(B)
    assert torch.equal(graphs([x, y])[0], 2 * A + B)
    assert torch.equal(graphs([x[:4], y])[0], 2 * B)
    assert torch.equal(graphs([y, x])[0], 2 * B + A)
    assert made.calls == 4
    monkeypatch.setattr(replay, "MAX_GRAPHS", 2)
    graphs([x.reshape(2, 4), y])  # in the place of [x[:4], y]
    graphs([x, y])
    assert made.calls == 6
    graphs([x[:4], y])
    assert made.calls == 8


def test_calls_without_a_graph_say_why_once(program, driver, caplog):
    made = program(reads_host)
    graphs = functools.partial(replay.GraphCache("model"), made)
    with caplog.at_level(logging.WARNING, "mlirfuse.runtime"):
        for _ in range(2):
            assert graphs([on_gpu(A)]) is None
            assert graphs([aligned(A)]) is None
            assert graphs([]) is None
    assert [record.getMessage() for record in caplog.records] == [
        "model: called without a CUDA graph: the program passes values between host and device",
        "model: called without a CUDA graph: argument 0 is no tensor of PyTorch on a GPU",
        "model: called without a CUDA graph: it has no arguments",
    ]
    assert made.calls == 2  # recorded once


def test_a_busy_profiler_is_asked_again(program, driver, monkeypatch):
    made = program(two_steps)
    graphs = functools.partial(replay.GraphCache("model"), made)
    given = [on_gpu(A), on_gpu(B)]

    @contextlib.contextmanager
    def busy():
        raise Busy("a profiler")
        yield

    with monkeypatch.context() as patched:
        patched.setattr(cupti_trace, "recorded", busy)
        assert graphs(given) is None
    assert torch.equal(graphs(given)[0], 2 * A + B + 3)


def test_graphs_end_before_their_program_goes(program, driver):
    graphs = replay.GraphCache("model")
    graphs.close()
    assert not driver.stream.waited
    graphs(program(two_steps), [on_gpu(A), on_gpu(B)])
    graphs.close()
    assert driver.stream.waited == ["host"]
    assert not graphs._graphs


# --- CUPTI's reports ----------------------------------------------------------------------------


def report(recorder, name, parameters, site=0):
    data = cupti_trace._Callback(site=site, function=name, parameters=ctypes.addressof(parameters))
    recorder.on_api_call(None, 1, 0, ctypes.pointer(data))


def test_commands_as_cupti_reports_them(monkeypatch):
    monkeypatch.setattr(
        cupti_trace,
        "_parameters",
        lambda function, given: tuple(ctypes.string_at(given[n], 8 - 4 * n) for n in range(2)),
    )
    recorder = Recorder()
    values = [ctypes.c_uint64(0x1234), ctypes.c_uint32(5)]
    places = (ctypes.c_void_p * 2)(*map(ctypes.addressof, values))
    launched = cupti_trace._Launched(
        9, (1, 2, 3), (32, 1, 1), 64, 7, ctypes.cast(places, ctypes.POINTER(ctypes.c_void_p))
    )
    report(recorder, b"cuLaunchKernel", launched)
    report(recorder, b"cuLaunchKernel", launched, site=1)  # on the way out
    report(recorder, b"cuMemcpyAsync", cupti_trace._Copied(1, 2, 3, 7))
    host = ctypes.create_string_buffer(b"abcd", 4)
    report(recorder, b"cuMemcpyHtoDAsync_v2", cupti_trace._Copied(1, ctypes.addressof(host), 4, 7))
    for width in (1, 2, 4):
        width_of, layout = cupti_trace._FILLS[f"cuMemsetD{8 * width}Async"]
        assert width_of == width
        report(recorder, b"cuMemsetD%dAsync" % (8 * width), layout(1, 255, 6, 7))
    report(recorder, b"cuEventRecord", ctypes.c_int())
    recorder.check()
    launch = Launch(9, (1, 2, 3), (32, 1, 1), 64, (b"\x34\x12" + bytes(6), b"\x05\0\0\0"))
    assert recorder.commands == [
        launch,
        Copy(1, 2, 3),
        Update(1, b"abcd"),
        *(Fill(1, 255, width, 6) for width in (1, 2, 4)),
    ]
    assert cupti_trace.addresses(launch) == [(0, 0x1234)]


@pytest.mark.parametrize(
    "name", [b"cuMemcpyDtoHAsync_v2", b"cuLaunchKernelEx", b"cuMemsetD2D8Async", b"cuGraphLaunch"]
)
def test_commands_that_are_not_issued_again(name):
    recorder = Recorder()
    report(recorder, name, cupti_trace._Copied())
    with pytest.raises(NotRecorded, match=f"uses {name.decode().removesuffix('_v2')}"):
        recorder.check()


def test_commands_of_somebody_else():
    recorder = Recorder()
    for stream in (7, 8):
        report(recorder, b"cuMemcpyAsync", cupti_trace._Copied(1, 2, 3, stream))
    with pytest.raises(Busy, match="another thread"):
        recorder.check()


def test_no_cupti(monkeypatch):
    monkeypatch.setattr(cupti, "LIBRARIES", ("libnothere.so.1",))
    with (
        pytest.raises(NotRecorded, match=r"CUPTI is not installed \(libnothere"),
        cupti_trace.recorded(),
    ):
        pass


# --- where it is asked for -----------------------------------------------------------------------


def test_only_on_cuda(tmp_path):
    text = "func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {\n return %x : tensor<4xf32>\n}"
    with pytest.raises(UsageError, match="cuda_graph=True needs a program for CUDA"):
        mlirfuse.compile(text, target="cpu", cuda_graph=True)
    path = tmp_path / "m.vmfb"
    mlirfuse.compile(text, target="cuda:sm_90").save(path)
    assert mlirfuse.load(path, cuda_graph=True).device == "cuda"
    with pytest.raises(UsageError, match="not for device 'local-task'"):
        mlirfuse.load(path, device="local-task", cuda_graph=True)
