"""The bytes of a `.vmfb`, mapped into memory."""

from __future__ import annotations

import mmap
from pathlib import Path

from mlirfuse.core import MlirfuseError, UsageError


class Image:
    """The mapped bytes of a program; they stay valid when the file is removed.

    Attributes:
      path: file name that was mapped.
      data: the bytes.
      has_manifest: whether mlirfuse's manifest is in the file.
    """

    def __init__(self, path: Path) -> None:
        """Maps a file.

        Raises:
          UsageError: it cannot be read.
          MlirfuseError: it is empty.
        """
        self.path = path
        self.has_manifest = False
        try:
            with path.open("rb") as file:
                self.data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except OSError as error:
            raise UsageError(f"cannot read {path}: {error.strerror or error}") from error
        except ValueError as error:
            raise MlirfuseError(f"{path} is empty; expected a program, a .vmfb file") from error

    @classmethod
    def of(cls, data: bytes, path: Path) -> Image:
        """The bytes of a program that is in no file.

        Args:
          data: the bytes.
          path: name of the file that they are from, for messages.
        """
        made = cls.__new__(cls)
        made.path, made.has_manifest = path, False
        made.data = mmap.mmap(-1, len(data))  # aligned as a mapped file is
        made.data.write(data)
        return made

    def write(self, path: Path) -> None:
        """Writes the bytes to a file."""
        with path.open("wb") as file:
            file.write(self.data)
