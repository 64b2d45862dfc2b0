"""The ONNX suite: the standard's own test cases of single operators, and its light models."""

from __future__ import annotations

import functools
import shutil
import tempfile
import warnings
import weakref
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

from benchmarks.conformance.suite import Case, Program

MODELS = "models"
"""Group of the light models in the onnx package."""

LEFT_OUT = {
    "sequence": "sequences of tensors are no tensors",
    "optional": "an optional value is no tensor",
    "string": "strings are no numbers",
    "training": "optimizers and gradients, in a preview domain",
    "random": "random results differ from the recorded ones",
    "image": "decodes compressed files",
    "expanded": "the body of an operator that is a function: the operator's own case is kept",
}
"""Kinds of test cases that are left out, and the reason."""

_RANDOM = frozenset(
    {
        "Bernoulli",
        "Multinomial",
        "RandomNormal",
        "RandomNormalLike",
        "RandomUniform",
        "RandomUniformLike",
    }
)

_HALF = {"float16": 1e-2, "bfloat16": 2e-2}
"""Error allowed for results of half precision, relative to the expected element."""


def left_out(model: onnx.ModelProto, name: str) -> str | None:
    """The key in `LEFT_OUT` of a test case that is not in the suite; None for one that is."""
    graph = model.graph
    kinds = set()
    for value in (*graph.input, *graph.output):
        kind = value.type.WhichOneof("value")
        kinds.add(kind.removesuffix("_type") if kind else "optional")
        if value.type.tensor_type.elem_type == onnx.TensorProto.STRING:
            kinds.add("string")
    for kind in ("sequence", "optional", "string"):
        if kind in kinds:
            return kind
    operators = {node.op_type for node in graph.node}
    if any("Sequence" in kind for kind in operators - {"ReverseSequence"}):
        return "sequence"
    if any(kind.startswith("Optional") for kind in operators):
        return "optional"
    if any("training" in opset.domain for opset in model.opset_import):
        return "training"
    if operators & _RANDOM or "training_dropout" in name:
        return "random"
    if "ImageDecoder" in operators:
        return "image"
    return "expanded" if "_expanded" in name else None


class OnnxNodes:
    """Test cases of single nodes and of whole models of the onnx package."""

    name = "onnx"
    merges = False

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="conformance-onnx-"))
        weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)

    def groups(self) -> Sequence[str]:
        """Operators in alphabetical order, then the models."""
        return [*sorted(_nodes()), MODELS]

    def cases(self, group: str) -> Sequence[Case]:
        """The test cases of an operator, with the results that onnx recorded or computed."""
        if group == MODELS:
            return list(_models())
        return [_case(f"{group}/{name}", test) for name, test in _nodes()[group].items()]

    def program(self, cases: Sequence[Case]) -> Program:
        """The file of the one case."""
        (case,) = cases
        return Program(self._file(case), None, case.arguments)

    def stock(self, cases: Sequence[Case], folder: Path) -> tuple[Path, str]:
        """IREE's `iree-import-onnx` with its default arguments.

        Raises:
          Exception: of any kind: IREE's importer does not take it.
        """
        from iree.compiler.tools.import_onnx.__main__ import main, parse_arguments

        (case,) = cases
        result = folder / "stock.mlir"
        main(parse_arguments([str(self._file(case)), "-o", str(result)]))
        return result, "onnx"

    def _file(self, case: Case) -> Path:
        assert case.model is not None
        path = self._folder / (case.name.replace("/", ".") + ".onnx")
        if not path.exists():
            path.write_bytes(case.model)
        return path


@functools.cache
def _nodes() -> dict[str, dict[str, Any]]:
    """Test cases of single operators that are not left out: by operator, by name."""
    from onnx.backend.test.case.node import collect_testcases

    found: dict[str, dict[str, Any]] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # NaN and infinities are among the arguments
        tests = collect_testcases(None)
    for test in tests:
        if left_out(test.model, test.name) is None:
            kinds = [node.op_type for node in test.model.graph.node if node.op_type != "Constant"]
            group = kinds[-1] if kinds else "Constant"
            found.setdefault(group, {})[test.name.removeprefix("test_")] = test
    return found


def _case(name: str, test: Any) -> Case:
    ((inputs, outputs),) = test.data_sets
    expected = tuple(map(_array, outputs))
    loose = max((_HALF.get(array.dtype.name, 0.0) for array in expected), default=0.0)
    floats = [np.abs(a[np.isfinite(a)]) for a in expected if a.dtype.kind == "f"]
    largest = max((float(a.max()) for a in floats if a.size), default=0.0)
    return Case(
        name=name,
        arguments=tuple(map(_array, inputs)),
        expected=expected,
        rtol=max(test.rtol, loose),
        # The recorded results have rounding errors of their own.
        atol=max(test.atol, loose / 10, 1e-6 * largest),
        model=test.model.SerializeToString(),
    )


def _array(value: Any) -> np.ndarray:
    """A tensor, or an array of the reference implementation."""
    if isinstance(value, onnx.TensorProto):
        return numpy_helper.to_array(value)
    return np.asarray(value)


def _models() -> Iterator[Case]:
    """The light models; their input is as onnx's own test runner makes it."""
    data = Path(onnx.__file__).parent / "backend/test/data"
    for path in sorted((data / "light").glob("light_*.onnx")):
        model = onnx.load(path)
        constants = {tensor.name for tensor in model.graph.initializer}
        (value,) = (v for v in model.graph.input if v.name not in constants)
        shape = [size.dim_value for size in value.type.tensor_type.shape.dim]
        count = int(np.prod(shape))
        image = (np.arange(count).reshape(shape) / count).astype(np.float32)
        recorded = onnx.load_tensor(str(path.with_name(f"{path.stem}_output_0.pb")))
        test = SimpleNamespace(model=model, data_sets=[([image], [recorded])], rtol=1e-3, atol=1e-7)
        yield _case(f"{MODELS}/{path.stem}", test)
    for kind in ("pytorch-converted", "pytorch-operator", "simple"):
        for folder in sorted((data / kind).iterdir()):
            model = onnx.load(folder / "model.onnx")
            sets = sorted(folder.glob("test_data_set_*"))
            if left_out(model, folder.name) or not sets:
                continue
            yield _case(
                f"{MODELS}/{kind}.{folder.name.removeprefix('test_')}",
                SimpleNamespace(model=model, data_sets=[_data_set(sets[0])], rtol=1e-3, atol=1e-7),
            )


def _data_set(folder: Path) -> tuple[list[Any], list[Any]]:
    """Arguments and results that a folder holds, in order."""
    return tuple(  # type: ignore[return-value]
        [
            onnx.load_tensor(str(folder / f"{kind}_{i}.pb"))
            for i in range(len(list(folder.glob(f"{kind}_*.pb"))))
        ]
        for kind in ("input", "output")
    )
