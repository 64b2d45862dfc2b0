"""Selectors of `--disable-pass` and `--enable-pass`: a pass, or some of its matches."""

from __future__ import annotations

import dataclasses

from mlirfuse.core import UsageError, nearest


@dataclasses.dataclass(frozen=True, slots=True)
class Selector:
    """A pass, or some of its matches: `name`, `name@match=3`, `name@func=main`.

    Attributes:
      name: the pass's own name, no alias.
      match: index of the match among those of the pass; None for every match.
      func: symbol name of the function; None for every function.
    """

    name: str
    match: int | None = None
    func: str | None = None

    @classmethod
    def parse(cls, text: str) -> Selector:
        """Reads a selector that a user wrote: the name may be an alias.

        Raises:
          UsageError: the pass is unknown, or a qualifier is neither `match=N` nor `func=NAME`.
        """
        from mlirfuse.plugins import registry

        head = text.strip().partition("@")[0]
        name = registry.find_pass(head)
        if name is None:
            known = registry.passes()
            raise UsageError(f"unknown pass '{head.strip()}'{nearest(head.strip(), known)}")
        return dataclasses.replace(cls.read(text), name=name)

    @classmethod
    def read(cls, text: str) -> Selector:
        """Reads the text of `str(selector)`: the name is the pass's own.

        Raises:
          UsageError: a qualifier is neither `match=N` nor `func=NAME`.
        """
        name, *qualifiers = text.strip().split("@")
        match: int | None = None
        func: str | None = None
        for qualifier in qualifiers:
            key, _, value = qualifier.partition("=")
            if key == "match" and value.isdecimal() and match is None:
                match = int(value)
            elif key == "func" and value and func is None:
                func = value
            else:
                raise UsageError(
                    f"bad qualifier '@{qualifier}' in '{text.strip()}';"
                    " accepted: @match=NUMBER, @func=NAME, each once"
                )
        return cls(name, match, func)

    @property
    def whole(self) -> bool:
        """Whether it stands for every match of the pass."""
        return self.match is None and self.func is None

    def covers(self, function: str, match: int) -> bool:
        """Returns whether it stands for this match of its pass."""
        return self.match in (None, match) and self.func in (None, function)

    def __str__(self) -> str:
        """The one spelling that `parse` reads back."""
        func = "" if self.func is None else f"@func={self.func}"
        match = "" if self.match is None else f"@match={self.match}"
        return f"{self.name}{func}{match}"
