"""Programs on CUDA as CUDA graphs: the commands of a call, issued again by one launch.

A call of iree-runtime 3.13 wakes two threads and issues its commands one by one, which takes 0.2
to 0.5 ms in addition to the kernels. The commands of a program of static shapes are the same at
each call except for the addresses of arguments and results. So they are recorded once for each
signature, and become a graph; a call patches the new addresses into the nodes that hold the old
ones, and launches the graph, or the only kernel, on PyTorch's current stream. It does not wait:
results are tensors of PyTorch's allocator, ready in the order of the stream as those of any
operator.

Weights stay where iree-runtime has them. Intermediate values move to a workspace of PyTorch's
allocator, and iree-runtime gives its own memory for them back, so that one pool does not starve the
other. Constants that are results are copied.
"""

from __future__ import annotations

import contextlib
import logging
import sys
import threading
import weakref
from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from mlirfuse.detached_kernels import DetachedKernels
from mlirfuse.runtime import cupti_trace
from mlirfuse.runtime.arrays import ALIGNMENT
from mlirfuse.runtime.cuda_driver import check_on_device, driver, unwrap
from mlirfuse.runtime.cupti_trace import Busy, NotRecorded
from mlirfuse.runtime.graph_memory import MemoryRange, locate_results
from mlirfuse.runtime.graph_nodes import Node, few_kernels, instantiate, make_node
from mlirfuse.runtime.workspace import Placement, Workspace
from mlirfuse.support.contained import described, trace

if TYPE_CHECKING:
    import torch

MAX_GRAPHS = 64
"""Graphs that a program keeps; the least recently called one is dropped first."""

MAX_ATTEMPTS = 3
"""Recordings that are begun for a signature while CUPTI or the device is in use elsewhere."""

Call = Callable[[Sequence["torch.Tensor"]], list["torch.Tensor"]]

_log = logging.getLogger("mlirfuse.runtime")

_launch_lock = threading.RLock()
_last_stream: list[Any] = []
"""The stream of the last launch of any graph; empty before the first one."""


class GraphCache:
    """The graphs of a program, recorded at the first call with each signature."""

    def __init__(
        self,
        source: str,
        device: Any,
        *,
        level: int = logging.WARNING,
        detached: DetachedKernels | None = None,
    ) -> None:
        """Records nothing yet.

        Args:
          source: name of the program, for the log.
          device: the `HalDevice` of `open_device(..., recorded=True)` that runs it.
          level: of the messages that say why there is no graph.
          detached: the kernels that run beside the commands after them.
        """
        self._source = source
        self._device = device
        self._level = level
        self._detached = detached
        self._graphs: OrderedDict[Hashable, Graph | None] = OrderedDict()
        self._attempts: Counter[Hashable] = Counter()
        self._logged: set[str] = set()

    def __call__(
        self, call: Call, arguments: Sequence[Any], out: Sequence[Any] = ()
    ) -> list[torch.Tensor] | None:
        """Queues a call on PyTorch's current stream.

        Args:
          call: runs the program on the device, and returns when it is done. Its results are the
            program's memory, without copies.
          arguments: checked arrays of any kind.
          out: an array for each result to be written to where that is possible, or none.

        Returns:
          The results, or None when the program must be called without a graph; the reason is
          logged once.
        """
        for index, value in enumerate(arguments):
            if not getattr(value, "is_cuda", False):
                self._log_reason(f"argument {index} is no tensor of PyTorch on a GPU")
                return None
        if not arguments:
            self._log_reason("it has no arguments")
            return None
        signature = tuple((value.device, value.dtype, value.shape) for value in arguments)
        with _launch_lock:
            if signature not in self._graphs:
                self._record(signature, call, arguments)
            graph = self._graphs.get(signature)
            if graph is None:
                return None
            self._graphs.move_to_end(signature)
            return graph.launch(arguments, out)

    def _record(self, signature: Hashable, call: Call, arguments: Sequence[Any]) -> None:
        """Adds the graph of a signature, or None; nothing where a later attempt may succeed."""
        graph = None
        self._attempts[signature] += 1
        try:
            graph = Graph(call, arguments, self._device, self._detached)
        except Busy as error:
            self._log_reason(str(error))
            if self._attempts[signature] < MAX_ATTEMPTS:
                return
        except NotRecorded as error:
            self._log_reason(str(error))
        except Exception as error:  # The call without a graph does not need what failed here.
            trace(error)
            self._log_reason(described(error))
        self._graphs[signature] = graph
        if len(self._graphs) > MAX_GRAPHS:
            self._graphs.popitem(last=False)

    def close(self) -> None:
        """Drops the graphs when they are done: their kernels must not be unloaded before."""
        if self._graphs:
            with exclusive():
                self._graphs.clear()

    def _log_reason(self, reason: str) -> None:
        if reason not in self._logged:
            self._logged.add(reason)
            _log.log(self._level, "%s: called without a CUDA graph: %s", self._source, reason)


@contextlib.contextmanager
def exclusive() -> Iterator[None]:
    """Waits for launched graphs and keeps others from starting, since they share memory."""
    with _launch_lock:
        for stream in _last_stream:
            stream.synchronize()
        yield


class Graph:
    """The commands of a program for one signature.

    Attributes:
      commands: number of commands.
    """

    def __init__(
        self,
        call: Call,
        arguments: Sequence[torch.Tensor],
        device: Any,
        detached: DetachedKernels | None = None,
    ) -> None:
        """Records a call.

        Args:
          call: as for `GraphCache`.
          arguments: tensors on the GPU.
          device: as for `GraphCache`.
          detached: the same.

        Raises:
          NotRecorded: the commands differ from call to call, or CUPTI cannot report them.
          Busy: something else in the process used CUPTI or the device meanwhile.
        """
        import torch

        given = _apart(arguments)
        self._device = given[0].device
        driver()
        with exclusive():
            torch.cuda.synchronize(self._device)
            device.allocator.trim()  # So that the call allocates all memory that is not constant.
            with cupti_trace.recorded() as recorder:
                before = call(given)
                recorder.restart()
                results = call(given)
            recorder.check()
            del before
            device.allocator.trim()
            self._place(recorder, given, results)
            self.commands = len(recorder.commands)
            self._kernels = few_kernels(self._nodes)
            if not self._kernels:
                graph, self._instance = instantiate(self._nodes, detached)
                weakref.finalize(self, driver().cuGraphDestroy, graph)
                weakref.finalize(self, driver().cuGraphExecDestroy, self._instance)
            for index, result in enumerate(self.launch(arguments)):
                if not torch.equal(_bytes(result), _bytes(results[index])):
                    raise NotRecorded(f"the graph computes another result {index} than the program")
            del results
            device.allocator.trim()

    def _place(
        self,
        recorder: cupti_trace.Recorder,
        given: Sequence[torch.Tensor],
        results: Sequence[torch.Tensor],
    ) -> None:
        """Makes the nodes, and finds the memory that each of their addresses is in."""
        ranges = [MemoryRange.of(tensor) for tensor in given]
        allocated = [MemoryRange(start, size) for start, size in recorder.allocations]
        self._results = locate_results(results, ranges, allocated)
        self._allocated_sizes = [memory.size for memory in ranges[len(given) :]]
        self._ranges = ranges
        inner = [memory for memory in allocated if not any(memory is part for part in ranges)]
        known = [*ranges, *inner]
        # The driver reads the host's bytes of a copy at each launch, so the nodes must live.
        self._nodes = [make_node(command) for command in recorder.commands]
        for node in self._nodes:
            for operand, address in node.addresses.items():
                memory = next((r for r in known if r.contains(address)), None)
                if memory is not None:
                    memory.uses.append((node, operand, address - memory.start))
                elif address:
                    check_on_device(address)
        owned = map(self._range_of_one_result, range(len(self._results)))
        self._result_of_range = {r: index for index, r in enumerate(owned) if r is not None}
        moved = [memory for memory in inner if memory.uses]
        self._intermediates = Placement(Workspace.of(self._device), moved)

    def _range_of_one_result(self, index: int) -> int | None:
        """The memory range that holds this result and nothing else; None where there is none."""
        result = self._results[index]
        if result.range is None:
            return None
        sharing = [other for other in self._results if other.range == result.range]
        used = max((offset for *_, offset in self._ranges[result.range].uses), default=0)
        fits = not result.copied and result.offset == 0 and used < max(1, result.nbytes)
        return result.range if fits and len(sharing) == 1 else None

    def launch(
        self, arguments: Sequence[torch.Tensor], out: Sequence[Any] = ()
    ) -> list[torch.Tensor]:
        """Queues a call on the current stream.

        Args:
          arguments: tensors of the signature that was recorded.
          out: as for `GraphCache`; an array that was written to is returned as the result.
        """
        import torch

        memory = [aligned_contiguous(argument) for argument in arguments]
        found: dict[int, torch.Tensor] = {}
        for range_index, size in enumerate(self._allocated_sizes, len(memory)):
            index = self._result_of_range.get(range_index)
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
        with _launch_lock:
            moved: dict[int, Node] = {id(node): node for node in self._intermediates.follow()}
            for part, tensor in zip(self._ranges, memory, strict=True):
                for node in part.move(tensor.data_ptr()):
                    moved[id(node)] = node
            if _last_stream and _last_stream[0] != stream:
                stream.wait_stream(_last_stream[0])  # graphs share their memory
            _last_stream[:] = [stream]
            for kernel in self._kernels:
                kernel.issue(stream.cuda_stream)
            if not self._kernels:
                for node in moved.values():
                    node.update(self._instance)
                unwrap(driver().cuGraphLaunch(self._instance, stream.cuda_stream))
            return [
                found[index] if index in found else result.view(memory)
                for index, result in enumerate(self._results)
            ]


def _bytes(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().view(-1).view(sys.modules["torch"].uint8)


def _apart(arguments: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """The arguments as the program takes them; copies of those that share memory with others.

    Two arguments may be one tensor now and two at the next call.
    """
    found: list[torch.Tensor] = []
    taken: list[MemoryRange] = []
    for argument in arguments:
        tensor = aligned_contiguous(argument).detach()
        memory = MemoryRange.of(tensor)
        if any(memory.overlaps(other) for other in taken):
            tensor = tensor.clone()
            memory = MemoryRange.of(tensor)
        found.append(tensor)
        taken.append(memory)
    return found


def aligned_contiguous(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor as programs take it: in C order, and aligned; a copy where it is not."""
    if not tensor.is_contiguous():
        tensor = tensor.contiguous()
    return tensor.clone() if tensor.data_ptr() % ALIGNMENT else tensor
