"""Programs on CUDA as CUDA graphs: the commands of a call, issued again by one launch.

A call of iree-runtime 3.13 wakes two threads and issues its commands one by one, which costs 0.2 to
0.5 ms beside the kernels. The commands of a program of static shapes are the same at each call but
for the addresses of arguments and results. So they are recorded once for each signature, and made
a graph; a call puts the new addresses into those nodes that hold the old ones, and launches it on
PyTorch's current stream. It does not wait: results are tensors of PyTorch's allocator, ready in
the order of the stream as those of any operator.

Memory that is neither argument nor result stays the program's: a device of its own, on which
nothing but recordings run, has it, and all graphs share it. They run one after the other.
"""

from __future__ import annotations

import abc
import contextlib
import ctypes
import dataclasses
import functools
import logging
import sys
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mlirfuse.runtime import cupti_trace
from mlirfuse.runtime.cupti_trace import Busy, Command, Copy, Fill, Launch, NotRecorded, Update

if TYPE_CHECKING:
    import torch

ALIGNMENT = 64
"""Bytes to which code generation takes arguments as aligned."""

MOST_GRAPHS = 64
"""Of a program; the one that was called least recently goes first."""

Call = Callable[[Sequence["torch.Tensor"]], list["torch.Tensor"]]

Entry = Callable[..., Any]
"""A function of the driver."""

_log = logging.getLogger("mlirfuse.runtime")

_order = threading.RLock()
_last: list[Any] = []
"""The stream of the last launch of any graph, when there was one."""


class Graphs:
    """The graphs of a program, made at the first call with each signature."""

    def __init__(self, source: str) -> None:
        """Records nothing yet.

        Args:
          source: the program, for what is logged.
        """
        self._source = source
        self._graphs: OrderedDict[Hashable, Graph | None] = OrderedDict()
        self._said: set[str] = set()

    def __call__(
        self, call: Call, arguments: Sequence[Any], out: Sequence[Any] = ()
    ) -> list[torch.Tensor] | None:
        """Queues a call on PyTorch's current stream.

        Args:
          call: runs the program on the device of `open_device(..., recorded=True)`, and returns
            when it is done. Its results are the program's memory, without copies.
          arguments: checked, of any kind.
          out: an array for each result to be written to where that can be, or none.

        Returns:
          The results, or None when the program must be called without a graph; why is logged once.
        """
        for number, value in enumerate(arguments):
            if not getattr(value, "is_cuda", False):
                self._not_replayed(f"argument {number} is no tensor of PyTorch on a GPU")
                return None
        if not arguments:
            self._not_replayed("it has no arguments")
            return None
        signature = tuple((value.device, value.dtype, value.shape) for value in arguments)
        with _order:
            if signature not in self._graphs:
                try:
                    self._graphs[signature] = Graph(call, arguments)
                except Busy as error:
                    self._not_replayed(str(error))
                    return None
                except NotRecorded as error:
                    self._graphs[signature] = None
                    self._not_replayed(str(error))
                if len(self._graphs) > MOST_GRAPHS:
                    self._graphs.popitem(last=False)
            self._graphs.move_to_end(signature)
            graph = self._graphs[signature]
            return None if graph is None else graph.launch(arguments, out)

    def close(self) -> None:
        """Forgets the graphs when they are done: what they run must not be unloaded before."""
        if self._graphs:
            with alone():
                self._graphs.clear()

    def _not_replayed(self, reason: str) -> None:
        if reason not in self._said:
            self._said.add(reason)
            _log.warning("%s: called without a CUDA graph: %s", self._source, reason)


@contextlib.contextmanager
def alone() -> Iterator[None]:
    """Keeps graphs from running meanwhile, which use memory of the device of recordings."""
    with _order:
        for stream in _last:
            stream.synchronize()
        yield


@dataclasses.dataclass(slots=True)
class _Range:
    """Memory that is another one at each call: of an argument, or of results that share it.

    Attributes:
      start: first address of the recorded call.
      size: in bytes.
      now: the address that the nodes hold.
      uses: node and position of each address in it, with its distance from the start.
    """

    start: int
    size: int
    now: int = dataclasses.field(init=False)
    uses: list[tuple[_Node, int, int]] = dataclasses.field(default_factory=list)

    def __post_init__(self) -> None:
        """Nothing has moved yet."""
        self.now = self.start

    def holds(self, address: int) -> bool:
        """Whether an address lies in it."""
        return self.start <= address < self.start + self.size

    def meets(self, other: _Range) -> bool:
        """Whether the two have a byte in common, or one is empty and lies in the other."""
        return self.holds(other.start) or other.holds(self.start)

    def move(self, address: int) -> list[_Node]:
        """Puts the range somewhere else; returns the nodes that this changes."""
        if address == self.now:
            return []
        self.now = address
        for node, position, distance in self.uses:
            node.put(position, address + distance)
        return [node for node, _, _ in self.uses]


@dataclasses.dataclass(frozen=True, slots=True)
class _Result:
    """A result's place: which range, how far from its start, and what lies there.

    Attributes:
      copied: it lies in an argument or in another result, and the caller wants one of its own.
    """

    range: int
    distance: int
    nbytes: int
    dtype: Any
    shape: tuple[int, ...]
    copied: bool

    def fits(self, out: Any, taken: Sequence[torch.Tensor]) -> bool:
        """Whether the program can write the result into an array of the caller's.

        Args:
          out: the array.
          taken: tensors that it must not overlap.
        """
        if not (
            getattr(out, "is_cuda", False)
            and (out.dtype, tuple(out.shape)) == (self.dtype, self.shape)
            and out.is_contiguous()
            and out.data_ptr() % ALIGNMENT == 0
            and out.device == taken[0].device
        ):
            return False
        memory = _Range(out.data_ptr(), out.nbytes)
        return not any(memory.meets(_Range(t.data_ptr(), t.nbytes)) for t in taken)

    def view(self, memory: torch.Tensor) -> torch.Tensor:
        """The result, in bytes of the range."""
        part = memory[self.distance : self.distance + self.nbytes]
        found = part.view(self.dtype).view(self.shape)
        return found.clone() if self.copied else found


class Graph:
    """A program's commands for one signature.

    Attributes:
      commands: how many there are.
    """

    def __init__(self, call: Call, arguments: Sequence[torch.Tensor]) -> None:
        """Records a call.

        Args:
          call: as for `Graphs`.
          arguments: tensors on the GPU; copies of them are passed.

        Raises:
          NotRecorded: the commands are not the same at each call, or CUPTI cannot tell them.
          Busy: somebody else used CUPTI or the device meanwhile.
        """
        import torch

        # Copies, because two arguments may be one tensor now and two at the next call.
        given = [ready(argument).detach().clone() for argument in arguments]
        self._device = given[0].device
        _driver()
        with alone():
            torch.cuda.synchronize(self._device)
            before = call(given)
            with cupti_trace.recorded() as recorder:
                results = call(given)
        recorder.check()
        self.commands = len(recorder.commands)
        ranges = [_Range(tensor.data_ptr(), tensor.nbytes) for tensor in given]
        self._results = _placed(results, ranges)
        if any(r.holds(tensor.data_ptr()) for r in ranges[len(given) :] for tensor in before):
            raise NotRecorded("a result is memory that the program keeps")
        self._made = [memory.size for memory in ranges[len(given) :]]
        self._ranges = ranges
        # Bytes of the host that a node copies are read at each launch.
        self._nodes = [_node(command) for command in recorder.commands]
        for node in self._nodes:
            for position, address in node.places.items():
                memory = next((r for r in ranges if r.holds(address)), None)
                if memory is not None:
                    memory.uses.append((node, position, address - memory.start))
                elif address:
                    _check_place(address)
        places = map(self._written_alone, range(len(self._results)))
        self._alone = {place: index for index, place in enumerate(places) if place is not None}
        graph, self._instance = _chain(self._nodes)
        weakref.finalize(self, _driver().cuGraphDestroy, graph)
        weakref.finalize(self, _driver().cuGraphExecDestroy, self._instance)
        for index, (again, result) in enumerate(zip(self.launch(arguments), results, strict=True)):
            if not torch.equal(_bytes(again), _bytes(result)):
                raise NotRecorded(f"the graph computes another result {index} than the program")

    def _written_alone(self, index: int) -> int | None:
        """The range that holds a result and nothing else."""
        result = self._results[index]
        sharing = [other for other in self._results if other.range == result.range]
        used = max((distance for *_, distance in self._ranges[result.range].uses), default=0)
        fits = not result.copied and result.distance == 0 and used < max(1, result.nbytes)
        return result.range if fits and len(sharing) == 1 else None

    def launch(
        self, arguments: Sequence[torch.Tensor], out: Sequence[Any] = ()
    ) -> list[torch.Tensor]:
        """Queues a call on the current stream.

        Args:
          arguments: tensors of the signature that was recorded.
          out: as for `Graphs`; what is written to is returned as the result.
        """
        import torch

        memory = [ready(argument) for argument in arguments]
        found: dict[int, torch.Tensor] = {}
        for number, size in enumerate(self._made, len(memory)):
            index = self._alone.get(number)
            if index is None:
                memory.append(torch.empty(size, dtype=torch.uint8, device=self._device))
                continue
            result = self._results[index]
            if out and result.fits(out[index], memory):
                found[index] = out[index]
            else:
                found[index] = torch.empty(result.shape, dtype=result.dtype, device=self._device)
            memory.append(found[index])
        stream = torch.cuda.current_stream(self._device)
        with _order:
            moved: dict[int, _Node] = {}
            for part, tensor in zip(self._ranges, memory, strict=True):
                for node in part.move(tensor.data_ptr()):
                    moved[id(node)] = node
            for node in moved.values():
                node.update(self._instance)
            if _last and _last[0] != stream:
                stream.wait_stream(_last[0])  # graphs share their memory
            _last[:] = [stream]
            _did(_driver().cuGraphLaunch(self._instance, stream.cuda_stream))
        return [
            found[index] if index in found else result.view(_bytes(memory[result.range]))
            for index, result in enumerate(self._results)
        ]


def _bytes(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().view(-1).view(sys.modules["torch"].uint8)


def ready(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor as a program reads it: in C order, and aligned."""
    if not tensor.is_contiguous():
        tensor = tensor.contiguous()
    return tensor.clone() if tensor.data_ptr() % ALIGNMENT else tensor


def _placed(results: Sequence[torch.Tensor], ranges: list[_Range]) -> list[_Result]:
    """Where results lie; the allocations that they lie in are added to the arguments' ranges."""
    placed: list[_Result] = []
    arguments = len(ranges)
    seen: list[_Range] = []
    for tensor in results:
        memory = _Range(tensor.data_ptr(), tensor.nbytes)
        number = next((n for n, r in enumerate(ranges) if r.holds(memory.start)), None)
        if number is None:
            start, size = memory.start, 0
            if memory.size:
                start, size = map(int, _did(_driver().cuMemGetAddressRange(memory.start)))
            number = len(ranges)
            ranges.append(_Range(start, size))
        copied = number < arguments or any(map(memory.meets, seen))
        seen.append(memory)
        placed.append(
            _Result(
                number,
                memory.start - ranges[number].start,
                memory.size,
                tensor.dtype,
                tuple(tensor.shape),
                copied,
            )
        )
    return placed


def _check_place(address: int) -> None:
    """Makes sure that an address is the device's.

    Raises:
      NotRecorded: it is memory of the host: what the program does then depends on what it read.
    """
    driver = _driver()
    kind = driver.CUpointer_attribute.CU_POINTER_ATTRIBUTE_MEMORY_TYPE
    status, found = driver.cuPointerGetAttribute(kind, address)
    device = int(driver.CUmemorytype.CU_MEMORYTYPE_DEVICE)
    if status != driver.CUresult.CUDA_SUCCESS or int(found) != device:
        raise NotRecorded("the program passes values between host and device")


# --- nodes ---------------------------------------------------------------------------------------


class _Node(abc.ABC):
    """A command as a node of a graph.

    Attributes:
      handle: the driver's, once it is in a graph.
      places: position -> each address that the command was given.
    """

    def __init__(
        self, given: Any, places: Mapping[int, int], add: Entry, change: Entry, *more: Any
    ) -> None:
        """Makes what no graph has yet.

        Args:
          given: the driver's description of the command.
          places: see the class.
          add: the driver's function that adds such a node to a graph.
          change: the one that describes it anew in an instance of the graph.
          *more: what both take after the description.
        """
        self.handle: Any = None
        self.places = places
        self._given = given
        self._add = add
        self._change = change
        self._more = more

    @abc.abstractmethod
    def put(self, position: int, address: int) -> None:
        """Replaces an address."""

    def add(self, graph: Any, before: Sequence[Any]) -> None:
        """Adds the node to a graph, after others."""
        self.handle = _did(self._add(graph, before, len(before), self._given, *self._more))

    def update(self, graph: Any) -> None:
        """Puts the present addresses into an instance of the graph."""
        _did(self._change(graph, self.handle, self._given, *self._more))


class _Kernel(_Node):
    def __init__(self, command: Launch) -> None:
        driver = _driver()
        self._values = [ctypes.create_string_buffer(data, 8) for data in command.parameters]
        self._list = (ctypes.c_void_p * max(1, len(self._values)))(
            *(ctypes.addressof(value) for value in self._values)
        )
        given = driver.CUDA_KERNEL_NODE_PARAMS()
        given.func = driver.CUfunction(command.function)
        given.gridDimX, given.gridDimY, given.gridDimZ = command.grid
        given.blockDimX, given.blockDimY, given.blockDimZ = command.block
        given.sharedMemBytes = command.shared
        given.kernelParams = ctypes.addressof(self._list)
        super().__init__(
            given,
            dict(cupti_trace.addresses(command)),
            driver.cuGraphAddKernelNode,
            driver.cuGraphExecKernelNodeSetParams,
        )

    def put(self, position: int, address: int) -> None:
        ctypes.c_uint64.from_buffer(self._values[position]).value = address


class _Copying(_Node):
    def __init__(self, command: Copy | Update) -> None:
        driver = _driver()
        kinds = driver.CUmemorytype
        given = driver.CUDA_MEMCPY3D()
        given.dstMemoryType = kinds.CU_MEMORYTYPE_DEVICE
        given.dstDevice = command.target
        places = {0: command.target}
        if isinstance(command, Copy):
            given.srcMemoryType = kinds.CU_MEMORYTYPE_DEVICE
            given.srcDevice = command.source
            places[1] = command.source
            size = command.size
        else:
            size = len(command.data)
            self._data = ctypes.create_string_buffer(command.data, max(1, size))
            given.srcMemoryType = kinds.CU_MEMORYTYPE_HOST
            given.srcHost = ctypes.addressof(self._data)
        given.WidthInBytes, given.Height, given.Depth = size, 1, 1
        super().__init__(
            given,
            places,
            driver.cuGraphAddMemcpyNode,
            driver.cuGraphExecMemcpyNodeSetParams,
            _context(),
        )

    def put(self, position: int, address: int) -> None:
        if position == 0:
            self._given.dstDevice = address
        else:
            self._given.srcDevice = address


class _Filling(_Node):
    def __init__(self, command: Fill) -> None:
        driver = _driver()
        given = driver.CUDA_MEMSET_NODE_PARAMS()
        given.dst = command.target
        given.value = command.value
        given.elementSize = command.width
        given.width, given.height = command.length, 1
        super().__init__(
            given,
            {0: command.target},
            driver.cuGraphAddMemsetNode,
            driver.cuGraphExecMemsetNodeSetParams,
            _context(),
        )

    def put(self, position: int, address: int) -> None:
        self._given.dst = address


def _node(command: Command) -> _Node:
    if isinstance(command, Launch):
        return _Kernel(command)
    if isinstance(command, Fill):
        return _Filling(command)
    return _Copying(command)


def _chain(nodes: Sequence[_Node]) -> tuple[Any, Any]:
    """A graph in which each node follows the one before, as on a stream, and its instance.

    The nodes of an instance are named by those of its graph, so that one must live as long.
    """
    driver = _driver()
    graph = _did(driver.cuGraphCreate(0))
    before: list[Any] = []
    for node in nodes:
        node.add(graph, before)
        before = [node.handle]
    return graph, _did(driver.cuGraphInstantiate(graph, 0))


# --- the driver ----------------------------------------------------------------------------------


@functools.cache
def _driver() -> Any:
    try:
        from cuda.bindings import driver
    except ImportError:
        raise NotRecorded("cuda-bindings is not installed: pip install 'mlirfuse[cuda]'") from None
    return driver


def _context() -> Any:
    return _did(_driver().cuCtxGetCurrent())


def _did(found: Sequence[Any]) -> Any:
    """What a function of the driver returned beside its status.

    Raises:
      NotRecorded: the driver refuses.
    """
    status, *values = found
    if status:
        text = _driver().cuGetErrorName(status)[1]
        name = text.decode() if isinstance(text, bytes) else str(status)
        raise NotRecorded(f"the driver refuses a graph: {name}")
    return values[0] if len(values) == 1 else values
