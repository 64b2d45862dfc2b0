"""The text form of a pipeline: `a{opt=2 flag=true},b,cse,util.func(canonicalize,cse)`.

    items := item (',' item)*
    item  := name ('{' option* '}')? ('(' items? ')')?
    option := key ('=' value)?                      // no value means `true`
    value := "text" | 'text' | {balanced} | bare    // bare: no space, quote or brace

MLIR's own syntax, so an item that is not ours goes to MLIR's parser as `str(item)`. Which names
exist, and which options they take, is not known here.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Mapping

from mlirfuse.core import UsageError

_NAME = re.compile(r"[A-Za-z_][\w.-]*")
_KEY = re.compile(r"[A-Za-z_][\w.-]*")
_BARE = re.compile(r"[^\s{}'\"]+")
_SPACE = re.compile(r"\s*")


@dataclasses.dataclass(frozen=True)
class PipelineItem:
    """One pass, or one op anchor with the passes nested under it.

    Attributes:
      name: name of the pass, or of the op that `children` run on.
      options: option -> value, as text, in the order written.
      children: the nested pipeline; None for a pass.

    Raises:
      UsageError: a value cannot be written: it holds both kinds of quotes.
    """

    name: str
    options: Mapping[str, str] = dataclasses.field(default_factory=dict)
    children: tuple[PipelineItem, ...] | None = None

    def __post_init__(self) -> None:
        """Refuses values that `parse` could not read back."""
        for key, value in self.options.items():
            if "'" in value and '"' in value and not _is_braced(value):
                raise UsageError(
                    f"pipeline: option '{key}' of '{self.name}' holds both ' and \"; use one kind"
                )

    @property
    def anchor(self) -> bool:
        """Whether it names an op and not a pass."""
        return self.children is not None

    @property
    def pass_name(self) -> str:
        """Name of the pass, without the anchors around it."""
        return self.children[0].pass_name if self.children else self.name

    def __str__(self) -> str:
        """The one spelling that `parse` reads back."""
        text = self.name
        if self.options:
            text += "{" + " ".join(f"{k}={_quoted(v)}" for k, v in self.options.items()) + "}"
        return text if self.children is None else f"{text}({write(self.children)})"


def write(items: Iterable[PipelineItem]) -> str:
    """Returns the text of a pipeline; `parse` reads it back to equal items."""
    return ",".join(map(str, items))


def parse(text: str) -> tuple[PipelineItem, ...]:
    """Reads the text of a pipeline; an empty text is an empty pipeline.

    Raises:
      UsageError: the text does not follow the grammar; the message names the column, from 1.
    """
    reader = _Reader(text)
    reader.skip()
    items = () if reader.at_end else reader.items()
    if not reader.at_end:
        raise reader.error("expected ',' or the end")
    return items


def _is_braced(value: str) -> bool:
    """Whether a value is one balanced pair of braces, which needs no quotes."""
    if not value.startswith("{"):
        return False
    depth = 0
    for index, char in enumerate(value):
        depth += (char == "{") - (char == "}")
        if depth == 0:
            return index == len(value) - 1
    return False


def _quoted(value: str) -> str:
    if _BARE.fullmatch(value) or _is_braced(value):
        return value
    quote = "'" if '"' in value else '"'
    return f"{quote}{value}{quote}"


class _Reader:
    """A cursor over the text."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    @property
    def at_end(self) -> bool:
        return self.at == len(self.text)

    def error(self, expected: str, at: int | None = None) -> UsageError:
        column = (self.at if at is None else at) + 1
        line = re.sub(r"\s", " ", self.text)
        rest = line[column - 1 :]
        found = f"'{rest[:12]}'" if rest else "the end"
        return UsageError(
            f"pipeline '{line}', column {column}: {expected}, found {found};"
            " written like a{opt=2 flag=true},b,util.func(cse)"
        )

    def skip(self) -> None:
        self.take(_SPACE)

    def take(self, pattern: re.Pattern[str]) -> str:
        found = pattern.match(self.text, self.at)
        if found is None:
            return ""
        self.at = found.end()
        return found.group()

    def accept(self, char: str) -> bool:
        """Steps over `char`, and spaces around it."""
        self.skip()
        if not self.text.startswith(char, self.at):
            return False
        self.at += 1
        self.skip()
        return True

    def items(self) -> tuple[PipelineItem, ...]:
        items = [self.item()]
        while self.accept(","):
            items.append(self.item())
        return tuple(items)

    def item(self) -> PipelineItem:
        name = self.take(_NAME)
        if not name:
            raise self.error("expected the name of a pass")
        options = self.options(name) if self.accept("{") else {}
        children: tuple[PipelineItem, ...] | None = None
        if self.accept("("):
            children = ()
            if not self.accept(")"):
                children = self.items()
                if not self.accept(")"):
                    raise self.error(f"expected ',' or the ')' of '{name}('")
        return PipelineItem(name, options, children)

    def options(self, name: str) -> dict[str, str]:
        options: dict[str, str] = {}
        while not self.accept("}"):
            start = self.at
            key = self.take(_KEY)
            if not key:
                raise self.error(f"expected an option or the '}}' of '{name}{{'")
            if key in options:
                raise self.error(f"option '{key}' of '{name}' is given twice", start)
            options[key] = self.value() if self.accept("=") else "true"
        return options

    def value(self) -> str:
        start = self.at
        opening = self.text[start : start + 1]
        if opening in ("'", '"'):
            end = self.text.find(opening, start + 1)
            if end < 0:
                raise self.error(f"expected the closing {opening} of a value", len(self.text))
            self.at = end + 1
            return self.text[start + 1 : end]
        if opening == "{":
            depth = 0
            for index in range(start, len(self.text)):
                depth += (self.text[index] == "{") - (self.text[index] == "}")
                if depth == 0:
                    self.at = index + 1
                    return self.text[start : self.at]
            raise self.error("expected the closing } of a value", len(self.text))
        value = self.take(_BARE)
        if not value:
            raise self.error("expected a value after '='")
        return value
