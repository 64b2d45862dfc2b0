"""A cache on disk: files by a digest of everything that they were made from.

    <directory>/<key>.vmfb   the file, with the suffix of its kind
    <directory>/<key>.json   {"bytes", "sha256", "manifest"}; written last, so it makes the entry
    <directory>/<key>.lock   held while one process builds the entry

Readers take no lock: a file is replaced as a whole, and one that does not have the checksum of its
entry is built again.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import logging
import os
import re
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from mlirfuse.core import UsageError

DIRECTORY_VARIABLE = "MLIRFUSE_CACHE_DIR"
"""Environment variable with the directory to use instead of the user's cache directory."""

SIZE_VARIABLE = "MLIRFUSE_CACHE_SIZE"
"""Environment variable with the size bound: bytes, or a number with K, M, G or T."""

KERNELS_VARIABLE = "MLIRFUSE_KERNEL_CACHE_DIR"
"""Environment variable with the directory of kernels; `kernels` in that of programs without it."""

KERNELS_SHARE = 8
"""Size of the programs over that of the kernels."""

DEFAULT_SIZE = 10 << 30
"""Bytes that the entries may take together unless `SIZE_VARIABLE` sets another bound."""

STALE_SECONDS = 24 * 3600.0
"""Age of a temporary file, in seconds, from which its process counts as dead."""

_UNITS = {"": 0, "K": 10, "M": 20, "G": 30, "T": 40}

_log = logging.getLogger("mlirfuse")
_warned: set[Path] = set()


@dataclasses.dataclass(frozen=True, slots=True)
class Entry:
    """A program found in the cache.

    Attributes:
      program: the `.vmfb`; another process may evict it at any time.
      manifest: the document that was stored with it.
    """

    program: Path
    manifest: dict[str, Any]


@dataclasses.dataclass(frozen=True, slots=True)
class Cache:
    """A directory of entries.

    Attributes:
      directory: made when the first entry is stored.
      size: bytes that the files may take together; the least recently used go first.
      suffix: suffix of the files.
    """

    directory: Path
    size: int
    suffix: str = ".vmfb"

    @classmethod
    def open(cls) -> Cache:
        """The cache that the environment names.

        Raises:
          UsageError: `MLIRFUSE_CACHE_SIZE` is not a size.
        """
        chosen = os.environ.get(DIRECTORY_VARIABLE)
        if chosen:
            directory = Path(chosen)
        else:
            import platformdirs

            directory = Path(platformdirs.user_cache_dir("mlirfuse", appauthor=False))
        text = os.environ.get(SIZE_VARIABLE, "").strip()
        return cls(directory, parse_size(text) if text else DEFAULT_SIZE)

    @classmethod
    def of_kernels(cls) -> Cache:
        """The cache of object code of kernels.

        Raises:
          UsageError: as for `open`.
        """
        programs, chosen = cls.open(), os.environ.get(KERNELS_VARIABLE)
        directory = Path(chosen) if chosen else programs.directory / "kernels"
        return cls(directory, programs.size // KERNELS_SHARE, ".kernel")

    def find(self, key: str) -> Entry | None:
        """The entry of a key; None when there is none or it is damaged."""
        program, record = self._program(key), self._record(key)
        try:
            stored = json.loads(record.read_bytes())
            if program.stat().st_size != stored["bytes"] or digest(program) != stored["sha256"]:
                return None
            manifest = dict(stored["manifest"])
        except (OSError, ValueError, KeyError, TypeError):
            return None
        with contextlib.suppress(OSError):  # a directory that cannot be written is still read
            os.utime(record)
        return Entry(program, manifest)

    @contextlib.contextmanager
    def building(self, key: str) -> Iterator[None]:
        """Held by the one process that builds the entry of a key; others wait, then find it."""
        import filelock

        lock = filelock.FileLock(self.directory / f"{key}.lock")
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            lock.acquire()
        except (OSError, NotImplementedError) as error:
            self._warn(error)
        try:
            yield
        finally:
            lock.release()

    def store(self, key: str, program: Path, manifest: Mapping[str, Any]) -> None:
        """Copies a program into the cache; a failure is a warning, not an error."""
        size = program.stat().st_size
        if size > self.size:
            return
        record = {
            "bytes": size,
            "sha256": digest(program),
            "manifest": dict(manifest),
        }
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(prefix="new-", dir=self.directory) as folder:
                staged = Path(folder, "program")
                shutil.copyfile(program, staged)
                staged.replace(self._program(key))
                staged.write_text(json.dumps(record), encoding="utf-8")
                staged.replace(self._record(key))
            self._evict()
        except OSError as error:
            self._warn(error)

    def _evict(self) -> None:
        """Removes the least recently used entries past the size, and files of dead processes."""
        now = time.time()
        sizes: dict[str, int] = {}
        with os.scandir(self.directory) as files:
            for file in files:
                with contextlib.suppress(OSError):
                    if file.name.endswith(self.suffix):
                        sizes[file.name.removesuffix(self.suffix)] = file.stat().st_size
                        continue
                    age = now - file.stat().st_mtime if file.name.startswith("new-") else 0.0
                    if age > STALE_SECONDS:
                        shutil.rmtree(file.path)
        total = sum(sizes.values())
        if total <= self.size:
            return
        for key in sorted(sizes, key=self._used):
            if total <= self.size:
                break
            total -= sizes[key]
            for path in (self._record(key), self._program(key), self.directory / f"{key}.lock"):
                with contextlib.suppress(OSError):
                    path.unlink(missing_ok=True)

    def _used(self, key: str) -> float:
        """When an entry was used, as seconds since 1970; one without a record, when it was made."""
        for path in (self._record(key), self._program(key)):
            with contextlib.suppress(OSError):
                return path.stat().st_mtime
        return 0.0

    def _program(self, key: str) -> Path:
        return self.directory / f"{key}{self.suffix}"

    def _record(self, key: str) -> Path:
        return self.directory / f"{key}.json"

    def _warn(self, error: Exception) -> None:
        if self.directory not in _warned:
            _warned.add(self.directory)
            reason = getattr(error, "strerror", None) or error
            _log.warning(
                "compile cache %s is not used: %s; set %s to a directory that can be written",
                self.directory,
                reason,
                DIRECTORY_VARIABLE,
            )


def parse_size(text: str) -> int:
    """Reads a size in bytes: `500M`, `10G`, `1073741824`.

    Raises:
      UsageError: it is not one.
    """
    found = re.fullmatch(r"(\d+)\s*([KMGT]?)(?:i?B)?", text, re.IGNORECASE)
    if found is None:
        raise UsageError(
            f"{SIZE_VARIABLE}: '{text}' is not a size; write bytes, or a number with K, M, G or T"
        )
    return int(found[1]) << _UNITS[found[2].upper()]


def digest(path: Path) -> str:
    """The SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
