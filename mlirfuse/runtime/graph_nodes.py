"""Recorded commands as nodes of a CUDA graph, whose addresses can be replaced."""

from __future__ import annotations

import abc
import ctypes
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mlirfuse.detached_kernels import DetachedKernels
from mlirfuse.runtime import cupti_trace
from mlirfuse.runtime.cuda_driver import current_context, driver, unwrap
from mlirfuse.runtime.cupti_trace import Command, Copy, Fill, Launch, Update

DriverFunction = Callable[..., Any]

MAX_LAUNCHES = 1
"""Kernels of a call that are launched one by one, and not as a graph, at most.

On an H200 a kernel of 1 to 5 us took 0.3 to 0.4 us less so than as a node of a graph, and the host
4 us for each launch; calls of one, two and three kernels took it 27, 34 and 37 us, and graphs 28,
30 and 28.
"""


class Node(abc.ABC):
    """A command as a node of a graph.

    Attributes:
      handle: the driver's handle, once the node is in a graph.
      addresses: operand of the command -> its address when it was recorded.
    """

    def __init__(
        self,
        params: Any,
        addresses: Mapping[int, int],
        add: DriverFunction,
        update: DriverFunction,
        *context: Any,
    ) -> None:
        """Describes a node that is in no graph yet.

        Args:
          params: the driver's description of the command.
          addresses: see the class.
          add: the driver's function that adds such a node to a graph.
          update: the driver's function that replaces its description in an instantiated graph.
          *context: the CUDA context, where both functions take one.
        """
        self.handle: Any = None
        self.addresses = addresses
        self._params = params
        self._add = add
        self._update = update
        self._context = context

    @abc.abstractmethod
    def patch(self, operand: int, address: int) -> None:
        """Replaces an address in the node's description."""

    def add(self, graph: Any, dependencies: Sequence[Any]) -> None:
        """Adds the node to a graph, after the nodes that it depends on."""
        self.handle = unwrap(
            self._add(graph, dependencies, len(dependencies), self._params, *self._context)
        )

    def update(self, instance: Any) -> None:
        """Writes the present description into an instantiated graph."""
        unwrap(self._update(instance, self.handle, self._params, *self._context))


class KernelNode(Node):
    """A kernel launch; its operands are the kernel's parameters that are addresses."""

    def __init__(self, command: Launch) -> None:
        """Describes the launch."""
        api = driver()
        self._values = [ctypes.create_string_buffer(data, 8) for data in command.parameters]
        self._pointers = (ctypes.c_void_p * max(1, len(self._values)))(
            *(ctypes.addressof(value) for value in self._values)
        )
        params = api.CUDA_KERNEL_NODE_PARAMS()
        params.func = api.CUfunction(command.function)
        params.gridDimX, params.gridDimY, params.gridDimZ = command.grid
        params.blockDimX, params.blockDimY, params.blockDimZ = command.block
        params.sharedMemBytes = command.shared
        params.kernelParams = ctypes.addressof(self._pointers)
        self._launch = (params.func, *command.grid, *command.block, command.shared)
        super().__init__(
            params,
            dict(cupti_trace.addresses(command)),
            api.cuGraphAddKernelNode,
            api.cuGraphExecKernelNodeSetParams,
        )

    def patch(self, operand: int, address: int) -> None:
        """Replaces a parameter of the kernel."""
        ctypes.c_uint64.from_buffer(self._values[operand]).value = address

    def issue(self, stream: int) -> None:
        """Launches the kernel on a stream.

        Args:
          stream: the driver's handle.

        Raises:
          NotRecorded: the driver refuses it.
        """
        unwrap(driver().cuLaunchKernel(*self._launch, stream, ctypes.addressof(self._pointers), 0))


class CopyNode(Node):
    """A copy on the device, or from bytes of the host; operand 0 is written, operand 1 read."""

    def __init__(self, command: Copy | Update) -> None:
        """Describes the copy."""
        api = driver()
        kinds = api.CUmemorytype
        params = api.CUDA_MEMCPY3D()
        params.dstMemoryType = kinds.CU_MEMORYTYPE_DEVICE
        params.dstDevice = command.target
        addresses = {0: command.target}
        if isinstance(command, Copy):
            params.srcMemoryType = kinds.CU_MEMORYTYPE_DEVICE
            params.srcDevice = command.source
            addresses[1] = command.source
            size = command.size
        else:
            size = len(command.data)
            self._data = ctypes.create_string_buffer(command.data, max(1, size))
            params.srcMemoryType = kinds.CU_MEMORYTYPE_HOST
            params.srcHost = ctypes.addressof(self._data)
        params.WidthInBytes, params.Height, params.Depth = size, 1, 1
        super().__init__(
            params,
            addresses,
            api.cuGraphAddMemcpyNode,
            api.cuGraphExecMemcpyNodeSetParams,
            current_context(),
        )

    def patch(self, operand: int, address: int) -> None:
        """Replaces the destination or the source."""
        if operand == 0:
            self._params.dstDevice = address
        else:
            self._params.srcDevice = address


class FillNode(Node):
    """A fill; operand 0 is its destination."""

    def __init__(self, command: Fill) -> None:
        """Describes the fill."""
        api = driver()
        params = api.CUDA_MEMSET_NODE_PARAMS()
        params.dst = command.target
        params.value = command.value
        params.elementSize = command.width
        params.width, params.height = command.length, 1
        super().__init__(
            params,
            {0: command.target},
            api.cuGraphAddMemsetNode,
            api.cuGraphExecMemsetNodeSetParams,
            current_context(),
        )

    def patch(self, operand: int, address: int) -> None:
        """Replaces the destination."""
        self._params.dst = address


def make_node(command: Command) -> Node:
    """The node of a command, in no graph yet."""
    if isinstance(command, Launch):
        return KernelNode(command)
    if isinstance(command, Fill):
        return FillNode(command)
    return CopyNode(command)


def few_kernels(nodes: Sequence[Node]) -> list[KernelNode]:
    """The nodes, if they are so few kernels that a launch of each is faster than one of a graph."""
    kernels = [node for node in nodes if isinstance(node, KernelNode)]
    return kernels if len(kernels) == len(nodes) <= MAX_LAUNCHES else []


def instantiate(nodes: Sequence[Node], detached: DetachedKernels | None) -> tuple[Any, Any]:
    """A graph in which each node depends on the previous one, as on a stream, and its instance.

    The handles of the graph's nodes name those of the instance, so the graph must live as long.

    Args:
      nodes: the nodes.
      detached: those that others depend on only where they have to; None for none. They are not
        looked at where the program was recorded with other commands.
    """
    api = driver()
    graph = unwrap(api.cuGraphCreate(0))
    for node, before in zip(nodes, predecessors(nodes, detached), strict=True):
        node.add(graph, [nodes[index].handle for index in before])
    return graph, unwrap(api.cuGraphInstantiate(graph, 0))


def predecessors(
    nodes: Sequence[Node], detached: DetachedKernels | None
) -> Sequence[tuple[int, ...]]:
    """For each node the indices of those that it depends on."""
    if detached is None or detached.commands != len(nodes):
        detached = DetachedKernels(len(nodes), {})
    return detached.predecessors()
