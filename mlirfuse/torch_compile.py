"""`torch.compile(model, backend="mlirfuse")`: compiles graphs of Dynamo.

Dynamo finds the function by the entry point `mlirfuse` of the group `torch_dynamo_backends`, so
users need not import mlirfuse. PyTorch runs the graphs that cannot be compiled.
"""

from __future__ import annotations

import copy
import dataclasses
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mlirfuse import targets
from mlirfuse.core import ImportFailedError, MlirfuseError, UsageError, nearest, normalized
from mlirfuse.frontends.lowering import one_line
from mlirfuse.options import FusionOptions, switch_names
from mlirfuse.support.subprocess import check_timeout
from mlirfuse.targets.cuda import RATES
from mlirfuse.targets.present import newest_up_to

if TYPE_CHECKING:
    import torch

Compiled = Callable[..., Any]

SOURCE = "torch.compile"
"""Name of the model in messages: Dynamo does not pass the model's own name."""

MODE = "reduce-overhead"
"""The supported mode of torch.compile."""

_log = logging.getLogger("mlirfuse.torch")
_logged: set[str] = set()


@dataclasses.dataclass(frozen=True, slots=True)
class BackendOptions:
    """The options of `torch.compile(..., options={...})`.

    Attributes:
      target: as for `mlirfuse.compile`; None for the machine of the tensors.
      fallback: whether PyTorch runs a graph that cannot be compiled; otherwise it is an error.
      freeze: whether parameters and buffers become constants of the program.
      stock: whether to compile without mlirfuse's passes, as a baseline.
      cache: whether to use the compile cache.
      timeout: time limit of each step of the compiler, in seconds; None for no limit.
      cuda_graph: whether to issue the commands of a call on CUDA as one CUDA graph; see
        `mlirfuse.load`.
      switches: all other keys, resolved.
    """

    target: str | None = None
    fallback: bool = True
    freeze: bool = False
    stock: bool = False
    cache: bool = True
    timeout: float | None = None
    cuda_graph: bool = False
    switches: FusionOptions = dataclasses.field(default_factory=FusionOptions.resolve)

    @classmethod
    def read(cls, given: Mapping[str, Any] | None) -> BackendOptions:
        """Reads the options of `torch.compile`.

        Raises:
          UsageError: an unknown key or target, or a value of a wrong type.
        """
        own = {field.name for field in dataclasses.fields(cls)} - {"switches"}
        known = {normalized(name): name for name in (*own, *switch_names())}
        values: dict[str, Any] = {}
        switches: dict[str, Any] = {}
        for key, value in (given or {}).items():
            name = known.get(normalized(key))
            if name is None:
                choices = sorted(known.values())
                raise UsageError(f"options: unknown key '{key}'{nearest(key, choices)}")
            (values if name in own else switches)[name] = value
        for name in ("fallback", "freeze", "stock", "cache", "cuda_graph"):
            if not isinstance(values.get(name, True), bool):
                raise UsageError(f"options: {name}={values[name]!r} is neither True nor False")
        try:
            check_timeout(values.get("timeout"))
        except UsageError as error:
            raise UsageError(f"options: {error}") from None
        if values.get("target") is not None:
            targets.parse(values["target"])
        place = "options of torch.compile"
        return cls(**values, switches=FusionOptions.resolve(place=place, **switches))


def backend(
    graph: torch.fx.GraphModule,
    example_inputs: Sequence[Any],
    *,
    options: Mapping[str, Any] | None = None,
    mode: str | None = None,
) -> Compiled:
    """Compiles a graph of Dynamo.

    Args:
      graph: functions of PyTorch on tensors; parameters are among its arguments.
      example_inputs: its arguments, with symbolic integers for dynamic sizes.
      options: see `BackendOptions`.
      mode: `reduce-overhead`, which is the option `cuda_graph`.

    Raises:
      UsageError: the options are wrong.
      MlirfuseError: the graph cannot be compiled, and `fallback` is off.
    """
    if mode not in (None, MODE):
        raise UsageError(
            f"mode='{mode}' belongs to another backend; mode='{MODE}' or options={{...}} would be"
            " accepted"
        )
    read = BackendOptions.read({"cuda_graph": mode == MODE, **(options or {})})
    try:
        return _compiled(graph, example_inputs, read)
    except UsageError:
        raise
    except MlirfuseError as error:
        if not read.fallback:
            raise
        _explain(error)
        forward: Compiled = graph.forward
        return forward


def _explain(error: MlirfuseError) -> None:
    """Logs the reason for leaving a graph to PyTorch, once for each reason."""
    text = f"{error}; PyTorch runs this graph itself"
    if text not in _logged:
        _logged.add(text)
        _log.warning("%s", text)


def _compiled(
    graph: torch.fx.GraphModule, example_inputs: Sequence[Any], options: BackendOptions
) -> Compiled:
    import torch
    from torch._dynamo.exc import ShortenTraceback, TorchDynamoException
    from torch._functorch.aot_autograd import aot_module_simplified

    from mlirfuse.frontends.torch_decompositions import decomposed_attention, decomposition_table

    tensors = [value for value in example_inputs if isinstance(value, torch.Tensor)]
    if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors):
        raise ImportFailedError(
            f"{SOURCE}: it needs gradients, and only inference is compiled; call the model"
            " under torch.no_grad() or torch.inference_mode()"
        )
    try:
        machine = _machine(tensors)
        targets.parse(machine[0])
    except UsageError as error:
        raise ImportFailedError(f"{SOURCE}: {error}") from error

    def compile_graph(module: torch.fx.GraphModule, inputs: Sequence[Any]) -> Compiled:
        frozen = _frozen(example_inputs, inputs) if options.freeze else {}
        return _Graph(module, frozen, options, machine)

    try:
        with decomposed_attention():
            compiled: Compiled = aot_module_simplified(
                graph,
                example_inputs,
                fw_compiler=compile_graph,
                inference_compiler=compile_graph,
                decompositions=dict(decomposition_table(whole_attention=False)),
            )
    except (MlirfuseError, TorchDynamoException, ShortenTraceback):
        raise
    except Exception as error:
        raise ImportFailedError(
            f"{SOURCE}: PyTorch cannot trace it: {type(error).__name__}: {one_line(error)}"
        ) from error
    return compiled


def _machine(tensors: Sequence[torch.Tensor]) -> tuple[str, str]:
    """Target and device URI of the machine that holds these tensors.

    Raises:
      ImportFailedError: mlirfuse has no target for their device.
    """
    import torch

    device = next((t.device for t in tensors if t.device.type != "cpu"), torch.device("cpu"))
    if device.type == "cpu":
        return "cpu", "local-task"
    if device.type != "cuda":
        raise ImportFailedError(
            f"{SOURCE}: tensors are on '{device}'; on the CPU, CUDA or ROCm would be accepted"
        )
    properties = torch.cuda.get_device_properties(device)
    path = f"://{device.index}" if device.index else ""
    if torch.version.hip:
        return f"rocm:{properties.gcnArchName.partition(':')[0]}", f"hip{path}"
    capability = properties.major, properties.minor
    arch = newest_up_to(*capability, RATES) or f"sm_{properties.major}{properties.minor}"
    return f"cuda:{arch}", f"cuda{path}"


def _frozen(example_inputs: Sequence[Any], inputs: Sequence[Any]) -> dict[int, torch.Tensor]:
    """Index -> value of each parameter and buffer that the graph does not write."""
    import torch
    from torch._guards import TracingContext

    context = TracingContext.try_get()
    metadata = getattr(context, "fw_metadata", None)
    if (
        metadata is None
        or len(example_inputs) != len(inputs)
        or len(metadata.input_info) != len(inputs)
    ):
        return {}
    return {
        index: tensor
        for index, tensor in enumerate(example_inputs)
        if (isinstance(tensor, torch.nn.Parameter) or hasattr(tensor, "_dynamo_static_input_type"))
        and not tensor.is_inference()
        and not metadata.input_info[index].mutates_data
    }


class _Graph:
    """A compiled graph with AOTAutograd's boxed calls: the list of arguments becomes empty."""

    _boxed_call = True

    def __init__(
        self,
        module: torch.fx.GraphModule,
        frozen: Mapping[int, torch.Tensor],
        options: BackendOptions,
        machine: tuple[str, str],
    ) -> None:
        self._options = options
        self._machine = machine
        self._module = copy.deepcopy(module) if frozen else None
        self._versions = {index: (t.data_ptr(), t._version) for index, t in frozen.items()}
        self._compile(module, frozen)

    def _compile(self, module: torch.fx.GraphModule, frozen: Mapping[int, torch.Tensor]) -> None:
        from torch._subclasses.fake_tensor import unset_fake_temporarily

        from mlirfuse import api
        from mlirfuse.compilation import computes_f64_as_f32
        from mlirfuse.frontends.torch_graph import import_graph

        options = self._options
        target, device = self._machine
        with unset_fake_temporarily():  # constants are real tensors
            model = import_graph(module, constants=frozen, source=SOURCE, timeout=options.timeout)
        wanted = targets.parse(options.target or target)
        if model.imported.keeps_f64 and wanted.demotes_f64:
            raise ImportFailedError(f"{SOURCE}: {wanted} has no float64")
        program = api.compile(
            model.imported,
            target=wanted,
            options=options.switches,
            stock=options.stock,
            cache=options.cache,
            timeout=options.timeout,
            guard="off",
        )
        if computes_f64_as_f32(program.report):
            raise ImportFailedError(f"{SOURCE}: IREE lacks a function of float64 for {wanted}")
        if program.device != device.partition(":")[0]:
            device = program.device  # the requested target is not the tensors' machine
        self._model = model
        self._program = program.on(
            device, cuda_graph=options.cuda_graph and device.startswith("cuda")
        )

    def __call__(self, arguments: list[Any]) -> list[Any]:
        given = list(arguments)
        arguments.clear()
        if self._versions and self._changed(given):
            self._thaw()
        results = self._program(*[make(given) for make in self._model.make_arguments])
        return [make(given, results) for make in self._model.make_results]

    def _changed(self, given: Sequence[Any]) -> bool:
        return any(
            (given[index].data_ptr(), given[index]._version) != version
            for index, version in self._versions.items()
        )

    def _thaw(self) -> None:
        """Compiles the parameters as arguments, since one of them has changed."""
        assert self._module is not None
        _log.info("%s: a frozen parameter was changed; all are arguments from now on", SOURCE)
        self._versions = {}
        self._compile(self._module, {})
