"""The sessions of a program: that of its calls, and the one that may take its place."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from mlirfuse.core import MlirfuseError
from mlirfuse.runtime import arrays, inline_calls, replay_policy
from mlirfuse.runtime.image import Image
from mlirfuse.runtime.manifest import Manifest
from mlirfuse.runtime.parameters import Archives
from mlirfuse.runtime.prepared_call import PreparedCall, PreparedCalls
from mlirfuse.runtime.session import Session


@dataclasses.dataclass(frozen=True, slots=True)
class Settings:
    """How a program is opened.

    Attributes:
      threads: number of threads of `local-task`; None for iree-runtime's choice.
      cuda_graph: whether calls are CUDA graphs; None for the program's own choice.
      parameters: scope -> archive of the program's parameters of that scope.
      keeps_device: whether calls never change to the calling thread.
    """

    threads: int | None = None
    cuda_graph: bool | None = None
    parameters: Archives = dataclasses.field(default_factory=dict)
    keeps_device: bool = False

    def to_dict(self) -> dict[str, Any]:
        """The settings by name."""
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}


class ProgramSessions:
    """Opens a program at its first call, and calls it.

    Attributes:
      current: the session that calls go to; None before the first one.
      trial: the comparison of two devices that the first calls are; None without one.
      prepared: calls with known arguments.
    """

    def __init__(self, image: Image, manifest: Manifest, settings: Settings) -> None:
        """Opens nothing yet.

        Raises:
          UsageError: CUDA graphs on another device than CUDA's.
        """
        replay_policy.check(manifest, settings.cuda_graph)
        self._image = image
        self._manifest = manifest
        self._settings = settings
        self._lock = threading.Lock()
        self.current: Session | None = None
        self.trial: inline_calls.Trial | None = None
        self.prepared = PreparedCalls()

    @property
    def settled(self) -> str | None:
        """URI of the device that calls go to; None before the first call and during a trial."""
        return None if self.current is None or self.trial is not None else self.current.uri

    def results(self, flat: Sequence[Any], values: Sequence[Any], out: Sequence[Any]) -> list[Any]:
        """The results of a call.

        Args:
          flat: the arguments.
          values: the same, checked and converted.
          out: arrays that results may be written to.
        """
        session = self.current or self.open()
        if session.replays:
            results = session.replay(values, out)
            if results is not None:
                return results
        results = self.call(flat, values)
        if self.trial is None:
            self.prepared.prepare(self.current, values, results)
        return results

    def call(self, flat: Sequence[Any], values: Sequence[Any]) -> list[Any]:
        """The results of a call without a CUDA graph; the arguments are those of `results`."""
        session = self.current or self.open()
        kind, trial = arrays.common_kind(flat), self.trial
        try:
            results = (trial or session).call(values, kind)
        except MlirfuseError as error:
            return self._inline_after(error).call(values, kind)
        if trial is not None and trial.chosen is not None:
            self.current, self.trial = trial.chosen, None
        return results

    def again(self, prepared: PreparedCall, flat: Sequence[Any]) -> list[Any] | None:
        """The results of a prepared call; None where the arguments are to be checked."""
        try:
            return prepared(flat)
        except MlirfuseError as error:
            self._inline_after(error)
            return None

    def open(self) -> Session:
        """Loads the program on its device, once: at the first call, since a compiler needs none."""
        with self._lock:
            if self.current is None:
                session = self._loaded(self._manifest)
                in_memory = all(isinstance(a, Mapping) for a in self._settings.parameters.values())
                if not self._settings.keeps_device and in_memory:
                    self.trial = self._trial_of(session)
                self.current = session
            return self.current

    def _inline_after(self, error: MlirfuseError) -> Session:
        """The session of the calling thread, with which calls go on after a failed one.

        Raises:
          MlirfuseError: the error, where that session cannot repeat the call.
        """
        if self._settings.keeps_device or not inline_calls.cures(error, self._manifest):
            raise error
        self.current, self.trial = self._loaded(self._inline_manifest), None
        self.prepared = PreparedCalls()
        return self.current

    def _loaded(self, manifest: Manifest) -> Session:
        """The program on the device of a manifest."""
        graphs = self._settings.cuda_graph
        return Session(
            self._image,
            manifest,
            self._settings.threads,
            cuda_graph=replay_policy.replays(manifest, graphs),
            automatic=graphs is None,
            archives=self._settings.parameters,
        )

    def _trial_of(self, session: Session) -> inline_calls.Trial | None:
        if not inline_calls.tries(self._manifest):
            return None
        return inline_calls.Trial(session, lambda: self._loaded(self._inline_manifest))

    @property
    def _inline_manifest(self) -> Manifest:
        """The manifest of the program on the calling thread."""
        return dataclasses.replace(self._manifest, device=inline_calls.INLINE)
