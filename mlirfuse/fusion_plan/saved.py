"""Plans in files: a `.vmfb` with the plan's description as a further member of the archive."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

from mlirfuse.core import UsageError
from mlirfuse.fusion_plan.compiled import Compiled
from mlirfuse.fusion_plan.description import Description
from mlirfuse.runtime.module import load as load_module
from mlirfuse.support.atomic_file import replacing

MEMBER = "mlirfuse-plan.json"
"""Name of the document in the archive; iree-runtime does not read it."""

SCHEMA = 1


def save(path: Path, description: Description, program: Compiled) -> None:
    """Writes a compiled plan.

    Raises:
      UsageError: the path cannot be written.
    """
    document = {
        "schema": SCHEMA,
        "plan": description.to_dict(),
        "strategy": program.strategy,
        "arguments": program.arguments,
    }
    with replacing(path) as staged:
        program.module.save(staged)
        with zipfile.ZipFile(staged, "a") as archive:
            member = zipfile.ZipInfo(MEMBER)  # of 1980: the same plan, the same file
            archive.writestr(member, json.dumps(document), zipfile.ZIP_DEFLATED)


def load(path: Path) -> tuple[Description, Compiled]:
    """Reads a compiled plan.

    Raises:
      UsageError: the file cannot be read, or holds no plan.
    """
    module = load_module(path)
    try:
        with zipfile.ZipFile(path) as archive:
            document = json.loads(archive.read(MEMBER))
        if document["schema"] != SCHEMA:
            raise UsageError(f"{path}: a plan of schema {document['schema']}, not {SCHEMA}")
        arguments = tuple((int(index), str(name)) for index, name in document["arguments"])
        description = Description.from_dict(document["plan"])
        return description, Compiled(module, arguments, str(document["strategy"]))
    except (zipfile.BadZipFile, KeyError, ValueError, TypeError) as error:
        raise UsageError(f"{path} holds no fusion plan: {error}") from error
