"""Models from ONNX's text form."""

import numpy as np
import onnx
from onnx import numpy_helper, parser


def saved(text, folder, *, opset=22, ir_version=10, domains=None, **constants):
    """A model and its file; the constants become initializers."""
    imports = ", ".join(f'"{d}": {v}' for d, v in {"": opset, **(domains or {})}.items())
    model = parser.parse_model(f"<ir_version: {ir_version}, opset_import: [{imports}]>\n{text}")
    for name, array in constants.items():
        model.graph.initializer.append(numpy_helper.from_array(np.asarray(array), name))
    path = folder / "model.onnx"
    onnx.save(model, path)
    return model, path
