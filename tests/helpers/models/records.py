"""Records of the default preset on each model.

`python tests/models/records.py [MODEL...]` compiles the models and writes golden/MODEL.json; after
it `python docs/generate.py` writes the tables of docs/models.md.
"""

import functools
import json
import os
from pathlib import Path

import torch
from iree.compiler import ir
from torch import nn

import mlirfuse
from helpers.models import hub, plain
from mlirfuse import api
from mlirfuse.compilation import open_model
from mlirfuse.core import Reason
from mlirfuse.frontends import import_model
from mlirfuse.options import FusionOptions
from mlirfuse.structured.ir import ops

FOLDER = Path(__file__).parents[2] / "models" / "golden"

MODELS = {
    made.__name__: made
    for made in (
        hub.bert,
        hub.bert_block,
        hub.bert_block_f16,
        hub.gpt2,
        hub.llama,
        hub.llama_block,
        hub.llama_block_f16,
        hub.mistral,
        hub.vit,
        hub.whisper,
        hub.t5,
        plain.resnet50,
        plain.mobilenet_v3,
        plain.convnext,
        plain.unet,
        plain.int8_mlp,
        plain.moe,
    )
}

TARGETS = {
    "cpu": "cpu:x86-64-v4",
    "cuda": "cuda:sm_90",
    "rocm": "rocm:gfx942",
    "vulkan": "vulkan:ampere",
}
"""A CPU is named: the counts must not depend on the one that the tests run on."""

OPTIONS = FusionOptions(disable_feature=("kernels",))
"""The groups are on record, on every target alike; `python -m benchmarks breadth` and `models`
count the kernels that CUDA and ROCm have in them."""


def build(name):
    """The model with random weights and its inputs, the same at every call."""
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(0)
        model, inputs = MODELS[name]()
        if isinstance(model, nn.Module):
            _disturb(model.eval())
    return model, inputs


def _disturb(model):
    """Scales of one and shifts of zero would let a compiler drop operators."""
    for name, value in [*model.named_parameters(), *model.named_buffers()]:
        if value.ndim == 1 and value.is_floating_point() and "inv_freq" not in name:
            value.add_(0.2 * torch.rand_like(value))


@functools.cache
def imported(name):
    """The path of the imported model, and the owner of the file."""
    model = import_model(*build(name))
    return os.fspath(model.path), model


def with_parameters(name, folder):
    """The path of the imported model with parameters in place of all its weights."""
    with ir.Context(), ir.Location.unknown():
        module = ir.Module.parseFile(imported(name)[0])
        (function,) = ops.functions(module)
        held = [view.operation for view in function.regions[0].blocks[0].operations]
        for number, op in enumerate(held):
            if op.name != "arith.constant" or "dense_resource" not in str(op.attributes["value"]):
                continue
            kind = op.results[0].type
            key = ir.Attribute.parse(f'#flow.parameter.named<"model"::"{number}"> : {kind}')
            with ir.InsertionPoint(op), op.location:
                made = ir.Operation.create(
                    "flow.tensor.constant", results=[kind], attributes={"value": key}
                )
            op.results[0].replace_all_uses_with(made.results[0])
            op.erase()
        path = Path(folder, "parameters.mlir")
        path.write_text(str(module), encoding="utf-8")
    return os.fspath(path)


def counted(path, target):
    """Rewrites of each pass that fires on a target, and dispatches of a call."""
    options = OPTIONS
    with open_model(path, target=target, options=options) as work:
        module, report = api.fuse(work.normalized, target=target, options=options)
        grouped = Path(work.folder, "grouped.mlirbc")
        with grouped.open("wb") as file:
            module.operation.write_bytecode(file)
        return report.counts(), work.compiler.count(grouped, work.folder).dispatches


def fired(name):
    """Rewrites of each pass, for the passes that fire, on every target."""
    options = OPTIONS
    with open_model(imported(name)[0], target=TARGETS["cpu"], options=options) as work:
        return {
            target: api.fuse(work.normalized, target=spelling, options=options)[1].counts()
            for target, spelling in TARGETS.items()
        }


def compiled(name, target):
    """Dispatches on a target, and the passes of rewrites that its code generation fails on."""
    report = mlirfuse.compile(
        imported(name)[0],
        target=TARGETS[target],
        options=OPTIONS,
        count_stock=True,
        cache=False,
    ).report
    undone = [d.pass_name for d in report.decisions if d.reason is Reason.FELL_BACK]
    counts = {key: report.dispatches[key] for key in ("stock", "fused")}
    return {"dispatches": counts, **({"undone": undone} if undone else {})}


def error(name):
    """The largest difference between the framework and the fused program, both on this CPU.

    It is relative to the largest magnitude of the framework's result.
    """
    model, inputs = build(name)
    program = mlirfuse.compile(imported(name)[0], options=OPTIONS, cache=False)
    with torch.inference_mode():
        want = torch.as_tensor(model(*inputs)).double()
        got = torch.as_tensor(program(*inputs))
    return float((got - want).abs().max() / want.abs().max())


def stored(name):
    """The record of a model."""
    return json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))


def made(name):
    """A new record of a model."""
    return {
        "summary": MODELS[name].__doc__,
        "targets": {t: {"fired": f, **compiled(name, t)} for t, f in fired(name).items()},
        "error": float(f"{error(name):.1e}"),
    }


def main(names):
    os.environ["MLIRFUSE_RATES"] = "off"
    for name in names or MODELS:
        text = json.dumps(made(name), indent=2)
        (FOLDER / f"{name}.json").write_text(f"{text}\n", encoding="utf-8")
