"""Descriptions that the configuration of a kernel is chosen by.

A problem has sizes, which are compared by their ratio, and traits, which are equal or not. It is
written by name into the files of measured configurations:

    {"m": 4096, "n": 4096, "k": 4096, "batch": 1, "operand_bits": 16, "b_k_contiguous": true}
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar, Self

Value = int | str | bool
"""Type of a field of a problem or a configuration."""


@dataclasses.dataclass(frozen=True, slots=True)
class Record:
    """A frozen dataclass of numbers, words and flags that is stored by the names of its fields."""

    def to_dict(self) -> dict[str, Value]:
        """The fields that differ from their defaults, by name."""
        return {
            field.name: getattr(self, field.name)
            for field in dataclasses.fields(self)
            if getattr(self, field.name) != field.default
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """The inverse of `to_dict`.

        Raises:
          ValueError: a field is unknown, missing or of another type.
        """
        fields = {field.name: field for field in dataclasses.fields(cls)}
        kinds = {"int": int, "str": str, "bool": bool}
        for name, value in values.items():
            if name not in fields:
                raise ValueError(f"{cls.__name__} has no field '{name}'")
            if type(value) is not kinds[str(fields[name].type)]:
                raise ValueError(f"{cls.__name__}.{name} is {value!r}, not {fields[name].type}")
        for name, field in fields.items():
            if name not in values and field.default is dataclasses.MISSING:
                raise ValueError(f"{cls.__name__} lacks '{name}'")
        return cls(**values)


@dataclasses.dataclass(frozen=True, slots=True)
class Problem(Record):
    """Base of the problems of all families.

    Attributes:
      SIZES: names of the fields that are sizes; all others are traits.
    """

    SIZES: ClassVar[tuple[str, ...]] = ()

    @property
    def family(self) -> str:
        """The name under which measured configurations are filed."""
        raise NotImplementedError

    @property
    def sizes(self) -> tuple[int, ...]:
        """The sizes, in the order of `SIZES`."""
        return tuple(getattr(self, name) for name in self.SIZES)

    @property
    def traits(self) -> tuple[Value, ...]:
        """The other fields, in their order."""
        return tuple(
            getattr(self, field.name)
            for field in dataclasses.fields(self)
            if field.name not in self.SIZES
        )

    def __str__(self) -> str:
        """The sizes, as messages show them: `4096x4096x64`."""
        return "x".join(map(str, self.sizes))
