"""CUDA graphs of programs, on a driver that computes in the host's memory."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import gc
import logging
import sys
import types
import weakref

import pytest
import torch

import mlirfuse
from mlirfuse.core import Report, UsageError
from mlirfuse.detached_kernels import DetachedKernels
from mlirfuse.frontends.mlir import import_bytes
from mlirfuse.runtime import cuda_driver, cupti_trace, graph_nodes, replay, replay_policy
from mlirfuse.runtime.cupti_trace import Busy, Copy, Fill, Launch, NotRecorded, Recorder, Update
from mlirfuse.runtime.manifest import Manifest
from mlirfuse.runtime.memory_pressure import with_room
from mlirfuse.runtime.workspace import Workspace
from mlirfuse.support import cupti
from mlirfuse.support.signature import TensorSpec
from mlirfuse.tuning.model import portable

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
        self.lone_launches = []
        self.freed = []
        self.dependencies = []

    def cuPointerGetAttribute(self, _, address):
        known = any(start <= address < start + n for start, n in self.allocations.items())
        return 0, 2 if known else 1

    def cuGetErrorName(self, status):
        return 0, b"CUDA_ERROR_%d" % status

    def cuCtxGetCurrent(self):
        return 0, "context"

    def cuGraphCreate(self, _):
        self.dependencies.clear()
        return 0, []

    def _add(self, graph, before, count, run):
        assert count == len(before)
        self.dependencies.append(before)
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

    def cuLaunchKernel(self, *given):
        function, grid, _, _, block, _, _, shared, stream, parameters, extra = given
        assert extra == 0
        sizes = {"gridDimX": grid, "blockDimX": block, "sharedMemBytes": shared}
        self.lone_launches.append(stream)
        found = types.SimpleNamespace(func=function, kernelParams=parameters, **sizes)
        self._kernel(found)()
        return (0,)

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
        self.kept = torch.full((8,), float("nan"))
        self.driver.allocations[self.kept.data_ptr()] = self.kept.nbytes
        self.pool = []
        self.allocator = self

    def allocate(self):
        """Memory of a call, with nothing to read in it."""
        tensor = torch.full((8,), float("nan"))
        self.pool.append(tensor)
        self.driver.allocations[tensor.data_ptr()] = tensor.nbytes
        if self.recorder is not None:
            self.recorder.allocations.append((tensor.data_ptr(), tensor.nbytes))
        return tensor

    def trim(self):
        """Frees the memory of calls: a graph that still wrote there would change `freed`."""
        for tensor in self.pool:
            self.driver.allocations.pop(tensor.data_ptr(), None)
        self.driver.freed += [(tensor, tensor.clone()) for tensor in self.pool]
        self.pool.clear()

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


def one_step(program, x):
    """2 x."""
    result = program.allocate()
    program.double(x, result)
    return [result]


def aligned(values):
    """Floats at an address that is a multiple of 64 bytes."""
    raw = torch.empty(24)
    skipped = -raw.data_ptr() % 64 // 4
    part = raw[skipped : skipped + 8]
    part[:] = torch.as_tensor(values, dtype=torch.float32)
    return part


def recorded_graph(made, arguments):
    """The graph of a program whose device gives the memory of its calls back."""
    return replay.Graph(made, arguments, made)


A, B = torch.arange(8.0), torch.arange(8.0) ** 2


def test_a_graph_computes_with_the_arguments_of_each_call(program, driver):
    made = program(two_steps)
    graph = recorded_graph(made, [aligned(A), aligned(B)])
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
    graph = recorded_graph(program(two_steps), [x, y])
    before = driver.updates
    first = graph.launch([x, y])
    assert driver.updates == before + 1  # another result
    other = aligned(A)
    graph.launch([other, y])
    assert driver.updates == before + 3
    del first


def test_a_single_kernel_is_launched_without_a_graph(program, driver):
    made = program(one_step)
    graph = recorded_graph(made, [aligned(A)])
    (result,) = graph.launch([aligned(B)])
    assert torch.equal(result, 2 * B)
    assert driver.lone_launches
    assert driver.launches == 0


def test_one_tensor_twice_when_recorded_and_two_later(program, driver):
    x = aligned(A)
    graph = recorded_graph(program(two_steps), [x, x])
    assert torch.equal(graph.launch([x, aligned(B)])[0], 2 * A + B + 3)
    assert torch.equal(graph.launch([x, x])[0], 3 * A + 3)


def test_arguments_in_another_order_of_memory(program, driver):
    graph = recorded_graph(program(two_steps), [aligned(A), aligned(B)])
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

    graph = recorded_graph(program(body), [aligned(A)])
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

    graph = recorded_graph(program(body), [aligned(A)])
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

    graph = recorded_graph(program(body), [on_gpu(A)])
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
    graph = recorded_graph(program(empty), [aligned(A)])
    assert graph.launch([aligned(A)])[1].shape == (0, 3)


def keeps(program, x):
    program.double(x, program.kept)
    return [program.kept]


def test_a_result_in_memory_that_the_program_keeps_is_copied(program, driver):
    graph = recorded_graph(program(keeps), [aligned(A)])
    first = graph.launch([aligned(A)])
    second = graph.launch([aligned(B)])
    assert torch.equal(first[0], 2 * A)
    assert torch.equal(second[0], 2 * B)


def longer(program, x):
    """8 x, by way of two intermediate values."""
    first, second, result = (program.allocate() for _ in range(3))
    program.double(x, first)
    program.double(first, second)
    program.double(second, result)
    return [result]


def test_intermediate_values_are_in_memory_of_pytorch(program, driver):
    graph = recorded_graph(program(two_steps), [aligned(A), aligned(B)])
    workspace = Workspace.of(torch.device("cpu"))
    assert workspace.size == 512
    (result,) = graph.launch([aligned(A), aligned(B)])
    assert torch.equal(result, 2 * A + B + 3)
    assert driver.freed
    for now, then in driver.freed:
        assert same(now, then)


def same(one, other):
    return torch.equal(one.view(torch.int32), other.view(torch.int32))


def test_a_larger_graph_moves_the_workspace_of_all(program, driver):
    small = recorded_graph(program(two_steps), [aligned(A), aligned(B)])
    workspace = Workspace.of(torch.device("cpu"))
    before = workspace.address
    large = recorded_graph(program(longer), [aligned(A)])
    assert workspace.size == 1024
    updates = driver.updates
    for graph, given, expected in [
        (small, [aligned(B), aligned(A)], 2 * B + A + 3),
        (large, [aligned(B)], 8 * B),
        (small, [aligned(A), aligned(A)], 3 * A + 3),
    ]:
        assert torch.equal(graph.launch(given)[0], expected)
    assert workspace.address != before
    assert driver.updates > updates
    last = weakref.ref(workspace)
    del small, large, graph, workspace
    gc.collect()
    assert last() is None


def test_a_workspace_that_cannot_grow(program, driver, monkeypatch):
    graph = recorded_graph(program(two_steps), [aligned(A), aligned(B)])
    made, given = program(longer), [aligned(A)]
    with monkeypatch.context() as patched:
        patched.setattr(torch, "empty", no_memory)
        with pytest.raises(torch.OutOfMemoryError):
            recorded_graph(made, given)
    assert Workspace.of(torch.device("cpu")).size == 0
    assert torch.equal(graph.launch([aligned(A), aligned(B)])[0], 2 * A + B + 3)


def no_memory(*_, **__):
    raise torch.OutOfMemoryError("CUDA out of memory")


def uses_what_is_given_back(program, x):
    """An intermediate value in memory that CUPTI did not see and that the device frees."""
    recorder, program.recorder = program.recorder, None
    middle = program.allocate()
    program.recorder = recorder
    result = program.allocate()
    program.double(x, middle)
    program.double(middle, result)
    return [result]


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
        (reads_host, "between host and device"),
        (uses_what_is_given_back, "between host and device"),
        (changes, "another result 0"),
        (lambda program, x: [program.allocate()], "no commands"),
    ],
)
def test_programs_that_cannot_be_replayed(program, driver, body, reason):
    with pytest.raises(NotRecorded, match=reason):
        recorded_graph(program(body), [aligned(A)])


def test_a_driver_that_refuses(program, driver, monkeypatch):
    monkeypatch.setattr(driver, "cuGraphInstantiate", lambda *_: (3, None))
    with pytest.raises(NotRecorded, match="refuses a graph: CUDA_ERROR_3"):
        recorded_graph(program(two_steps), [aligned(A), aligned(B)])


def test_no_bindings_of_the_driver(program, driver, monkeypatch):
    monkeypatch.setitem(sys.modules, "cuda.bindings", None)
    made = program(two_steps)
    with pytest.raises(NotRecorded, match=r"pip install 'mlirfuse\[cuda\]'"):
        recorded_graph(made, [aligned(A), aligned(B)])
    assert made.calls == 0


def test_graphs_follow_each_other_on_whatever_stream(program, driver):
    graph = recorded_graph(program(two_steps), [aligned(A), aligned(B)])
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
    graphs = functools.partial(replay.GraphCache("model", made), made)
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


def doubles_two(program, x, y):
    """2 x + 2 y."""
    first, second, result = program.allocate(), program.allocate(), program.allocate()
    program.double(x, first)
    program.double(y, second)
    program.add(first, second, result)
    return [result]


@pytest.mark.parametrize(
    ("detached", "expected"),
    [
        (DetachedKernels(3, {0: (2,)}), [[], [], [0, 1]]),
        (DetachedKernels(4, {0: (2,)}), [[], [0], [1]]),  # recorded with other commands
        (None, [[], [0], [1]]),
    ],
)
def test_detached_kernels_are_branches(program, driver, detached, expected):
    made = program(doubles_two)
    graphs = replay.GraphCache("model", made, detached=detached)
    arguments = [on_gpu(A), on_gpu(B)]
    (found,) = graphs(made, arguments)
    assert torch.equal(found, 2 * A + 2 * B)
    assert driver.dependencies == expected


def test_calls_without_a_graph_say_why_once(program, driver, caplog):
    made = program(reads_host)
    graphs = functools.partial(replay.GraphCache("model", made), made)
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
    graphs = functools.partial(replay.GraphCache("model", made), made)
    given = [on_gpu(A), on_gpu(B)]

    @contextlib.contextmanager
    def busy():
        raise Busy("a profiler")
        yield

    with monkeypatch.context() as patched:
        patched.setattr(cupti_trace, "recorded", busy)
        for _ in range(replay.MAX_ATTEMPTS - 1):
            assert graphs(given) is None
    assert torch.equal(graphs(given)[0], 2 * A + B + 3)
    other = [on_gpu(A).reshape(2, 4), on_gpu(B)]
    with monkeypatch.context() as patched:
        patched.setattr(cupti_trace, "recorded", busy)
        for _ in range(replay.MAX_ATTEMPTS):
            assert graphs(other) is None
    calls = made.calls
    assert graphs(other) is None  # it is not asked for ever
    assert made.calls == calls


def test_a_failure_of_ours_leaves_the_graph_out(program, driver, monkeypatch, caplog):
    made = program(two_steps)
    graphs = replay.GraphCache("model", made, level=logging.INFO)
    monkeypatch.setattr(replay, "locate_results", lambda *_: 1 / 0)
    with caplog.at_level(logging.INFO, "mlirfuse.runtime"):
        assert graphs(made, [on_gpu(A), on_gpu(B)]) is None
    assert [(r.levelname, r.getMessage()) for r in caplog.records] == [
        ("INFO", "model: called without a CUDA graph: ZeroDivisionError: division by zero")
    ]


def test_graphs_end_before_their_program_goes(program, driver):
    made = program(two_steps)
    graphs = replay.GraphCache("model", made)
    graphs.close()
    assert not driver.stream.waited
    graphs(made, [on_gpu(A), on_gpu(B)])
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
    address = ctypes.c_uint64(4096)
    allocated = cupti_trace._Allocated(ctypes.pointer(address), 64)
    report(recorder, b"cuMemAlloc_v2", allocated)
    assert not recorder.allocations  # no address yet
    report(recorder, b"cuMemAlloc_v2", allocated, site=1)
    assert recorder.allocations == [(4096, 64)]
    recorder.check()
    launch = Launch(9, (1, 2, 3), (32, 1, 1), 64, (b"\x34\x12" + bytes(6), b"\x05\0\0\0"))
    assert recorder.commands == [
        launch,
        Copy(1, 2, 3),
        Update(1, b"abcd"),
        *(Fill(1, 255, width, 6) for width in (1, 2, 4)),
    ]
    assert cupti_trace.addresses(launch) == [(0, 0x1234)]
    recorder.restart()
    with pytest.raises(NotRecorded, match="no commands"):
        recorder.check()
    assert recorder.allocations


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


def manifest(**fields):
    """Of a program that is replayed unless a field says otherwise."""
    found = {
        "device": "cuda",
        "function": "main",
        "inputs": (TensorSpec((8,), "f32"),),
        "outputs": (TensorSpec((8,), "f32"),),
        "structure": None,
        "source": "model",
        "report": Report(target="cuda:sm_90", iree="3.13", options={}),
        "has_state": False,
    }
    return Manifest(**{**found, **fields})


def without(feature):
    return Report(target="cuda:sm_90", iree="3.13", options={"disable_feature": [feature]})


@pytest.mark.parametrize(
    ("fields", "alone", "asked"),
    [
        ({}, True, True),
        ({"device": "cuda://1"}, True, True),
        ({"device": "local-task"}, False, False),
        ({"device": "hip"}, False, False),
        ({"inputs": (TensorSpec((None,), "f32"),)}, False, True),
        ({"has_state": True}, False, False),
        ({"has_state": None}, False, True),  # a program of `iree-compile`
        ({"report": without("cuda_graph")}, False, True),
        ({"report": without("fma")}, True, True),
    ],
)
def test_programs_that_are_replayed_by_themselves(fields, alone, asked, monkeypatch):
    found = manifest(**fields)
    monkeypatch.setattr(replay_policy, "has_bindings", lambda: True)
    assert replay_policy.replays(found, None) is alone
    assert replay_policy.replays(found, True) is asked
    assert replay_policy.replays(found, False) is False
    monkeypatch.setattr(replay_policy, "has_bindings", lambda: False)
    assert replay_policy.replays(found, None) is False
    assert Manifest.from_dict(found.to_dict()).has_state is found.has_state


@pytest.mark.parametrize("dialect", ["util", "ml_program"])
@pytest.mark.parametrize("mutable", [True, False])
def test_variables_are_state(dialect, mutable):
    word = "mutable " if mutable else ""
    initial = "(dense<1.0> : tensor<8xf32>)" if dialect == "ml_program" else "= dense<1.0>"
    load = f"{dialect}.global{'.' if dialect == 'util' else '_'}load @c : tensor<8xf32>"
    kind = ": tensor<8xf32>"
    text = f"""
    {dialect}.global private {word}@c{initial} {kind}
    func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {{
      %0 = {load}
      %1 = arith.addf %x, %0 {kind}
      {_stored(dialect) if mutable else ""}
      return %1 {kind}
    }}"""
    imported = import_bytes(text.encode())
    assert imported.has_state is mutable
    assert portable.restored(portable.described(imported), imported.path).has_state is mutable


def _stored(dialect):
    kind = ": tensor<8xf32>"
    return (
        f"util.global.store %1, @c {kind}"
        if dialect == "util"
        else f"ml_program.global_store @c = %1 {kind}"
    )


def test_memory_that_other_allocators_keep_is_asked_for(monkeypatch):
    emptied, trimmed, calls = [], [], []
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: emptied.append(1))
    device = types.SimpleNamespace(allocator=types.SimpleNamespace(trim=lambda: trimmed.append(1)))

    def call(message, times):
        calls.append(1)
        if len(calls) <= times:
            raise RuntimeError(message)
        return "result"

    exhausted = "RESOURCE_EXHAUSTED; CUDA driver error 'CUDA_ERROR_OUT_OF_MEMORY'"
    assert with_room(device, lambda: call(exhausted, 1)) == "result"
    assert (emptied, trimmed) == ([1], [1])
    for message, times in [("INVALID_ARGUMENT", 1), (exhausted, 2)]:
        calls.clear()
        with pytest.raises(RuntimeError, match=message.partition(";")[0]):
            with_room(device, functools.partial(call, message, times))
        assert len(calls) == times


def test_only_on_cuda(tmp_path):
    text = "func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {\n return %x : tensor<4xf32>\n}"
    with pytest.raises(UsageError, match="cuda_graph=True needs a program for CUDA"):
        mlirfuse.compile(text, target="cpu", cuda_graph=True)
    path = tmp_path / "m.vmfb"
    mlirfuse.compile(text, target="cuda:sm_90").save(path)
    assert mlirfuse.load(path, cuda_graph=True).device == "cuda"
    with pytest.raises(UsageError, match="not for device 'local-task'"):
        mlirfuse.load(path, device="local-task", cuda_graph=True)
