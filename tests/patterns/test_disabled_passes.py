"""A pass that is switched off leaves the IR as a pipeline without it does, in every lit file."""

import dataclasses
import itertools
import re
import shlex
from pathlib import Path

import pytest
from iree.compiler import ir

from mlirfuse import targets
from mlirfuse.patterns import PASSES
from mlirfuse.pipelines import engine, spec
from mlirfuse.tools import arguments, opt, sections

ROOT = Path(__file__).parents[2] / "lit_tests"
FILES = sorted(
    path.relative_to(ROOT)
    for folder in ("patterns", "frontends")
    for path in (ROOT / folder).glob("*.mlir")
)
RUN = re.compile(r"// RUN: .*%mlirfuse-opt %s (.*)")


def settings(text):
    """Pipelines of the file's run lines: target, options and names of the passes of each."""
    found = {}
    for line in text.splitlines():
        run = RUN.match(line)
        if run is None:
            continue
        words = itertools.takewhile(
            lambda word: not word.startswith(("|", ">", "2>", "%}")), shlex.split(run[1])
        )
        args = opt.parser().read(["-", *(w for w in words if not w.startswith("--explain"))])
        options = arguments.options_from(args, opt.PROG)
        names = frozenset(item.name for item in spec.parse(options.pipeline)) & {*PASSES}
        if names:
            options = dataclasses.replace(options, disable_pass=(), enable_pass=())
            found.setdefault(names, (args.target, options))
    return found


def without(pipeline, names):
    kept = [item for item in spec.parse(pipeline) if item.name not in names]
    return spec.write(kept) or "none"


def printed(text, target, options):
    with ir.Context():
        module, _ = engine.run(ir.Module.parse(text), target=targets.parse(target), options=options)
        return str(module)


@pytest.mark.parametrize("file", FILES, ids=str)
def test_switched_off(file):
    text = (ROOT / file).read_text(encoding="utf-8")
    compared = set()
    for names, (target, options) in settings(text).items():
        own = frozenset(name for name in names if file.stem.startswith(name))
        for off in {own or names, names}:
            silent = dataclasses.replace(options, disable_pass=tuple(sorted(off)))
            absent = dataclasses.replace(options, pipeline=without(options.pipeline, off))
            for section in sections.split(text):
                assert printed(section, target, silent) == printed(section, target, absent), off
        compared |= own or names
    assert compared
