"""`FusionOptions`: every switch, its text, and its value in one compilation.

The metadata of a field is the one place for the text of a switch: `--help`, the HTML report and
docs/options.md are made from it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Unpack

from mlirfuse.core import FusionPass, Kind, UsageError, nearest, normalized
from mlirfuse.options import places, values
from mlirfuse.options.places import Layer, flag
from mlirfuse.options.selectors import Selector
from mlirfuse.options.typed import SwitchArguments
from mlirfuse.options.values import FEATURES, MATMUL_PRECISIONS, NUMERICS_LIMITS
from mlirfuse.pipelines.presets import PRESETS


def _passes() -> Mapping[str, FusionPass]:
    from mlirfuse.plugins import registry

    return registry.passes()


@dataclasses.dataclass(frozen=True, slots=True)
class Switch:
    """The text of one switch.

    Attributes:
      name: field of `FusionOptions`.
      default: value where no place sets it.
      metavar: placeholder of the value on the command line.
      summary: meaning of the value, one sentence; code between backticks.
      example: value in the spelling of the command line.
    """

    name: str
    default: Any
    metavar: str
    summary: str
    example: str

    @property
    def flag(self) -> str:
        """The command line's spelling of the name."""
        return flag(self.name)

    @property
    def plain_summary(self) -> str:
        """The summary without backticks, for a terminal."""
        return self.summary.replace("`", "")


ON_OFF = "on|off"
"""Metavar of a switch whose value may be left out on the command line: it is `on` then."""


def _switch(
    default: Any, read: Callable[[Any], Any], metavar: str, summary: str, example: str
) -> Any:
    text = {"metavar": metavar, "summary": summary, "example": example}
    return dataclasses.field(default=default, metadata={"read": read, **text})


@dataclasses.dataclass(frozen=True, kw_only=True)
class FusionOptions:
    """The resolved switches of one compilation.

    Construct it with `resolve`, which reads every place; the constructor takes the final values and
    checks them. The fields that a place can set are described by `switches`.

    Attributes:
      origins: field -> the place that its value is from.
      notes: remarks about the request, e.g. that one place both disabled and enabled a pass.

    Raises:
      UsageError: a value is unknown or malformed, switches contradict each other, or a switch asks
        for something that this version does not do.
    """

    load_pass: tuple[str, ...] = _switch(
        (),
        values.strings,
        "PASS,...",
        "passes of your own: `package.module:PASS`, which is imported and run, or patterns in"
        " `FILE.pdl.mlir`",
        "my_package.my_module:PASS",
    )
    pipeline: str = _switch(
        "default",
        values.pipeline,
        "NAME",
        f"a preset ({', '.join(f'`{name}`' for name in PRESETS)}), or passes in order; names that"
        " are not ours are MLIR's passes",
        "rms_norm_fusion,softmax_fusion,cse",
    )
    disable_pass: tuple[str, ...] = _switch(
        (),
        values.selectors,
        "NAME,...",
        "passes that are off; `NAME@match=3` and `NAME@func=main` select matches",
        "softmax_fusion,rms_norm_fusion@match=3",
    )
    enable_pass: tuple[str, ...] = _switch(
        (),
        values.selectors,
        "NAME,...",
        "passes, or selected matches alone, that are on where the target has them off",
        "flash_attention_fusion_v1",
    )
    skip_op_kind: tuple[str, ...] = _switch(
        (),
        values.op_kinds,
        "OP,...",
        "ops of these kinds, or with one of them in the body, join no group",
        "linalg.matmul,math.rsqrt",
    )
    single_op_groups: bool = _switch(
        False, values.boolean, ON_OFF, "whether a group may have one op", "on"
    )
    horizontal: bool | None = _switch(
        None,
        values.optional_boolean,
        ON_OFF,
        "all sibling fusion on or off at once; where not set, each pass's own switch decides",
        "off",
    )
    never_fuse: tuple[str, ...] = _switch(
        (),
        values.strings,
        "LOC,...",
        "ops at these locations, or with this `mlirfuse.id`, join no group",
        "model.mlir:12:8",
    )
    must_fuse: tuple[tuple[str, ...], ...] = _switch(
        (),
        values.groups,
        "LOC,LOC",
        "the ops at these locations have to end in one group",
        "model.mlir:12:8,model.mlir:14:8",
    )
    numerics: str = _switch(
        "reassociating",
        values.numerics,
        "CLASS",
        f"the loosest class of rewrites: {', '.join(f'`{name}`' for name in NUMERICS_LIMITS)}",
        "exact",
    )
    float32_matmul_precision: str = _switch(
        "auto",
        values.matmul_precision,
        "WORD",
        "precision of f32 contractions in GPU kernels:"
        f" {', '.join(f'`{name}`' for name in MATMUL_PRECISIONS)}; `auto` is the setting of PyTorch"
        " or JAX, `highest` keeps the accuracy of f32, `high` and `medium` are TF32",
        "high",
    )
    float32_conv_precision: str = _switch(
        "auto",
        values.matmul_precision,
        "WORD",
        "the same of f32 convolutions, of 200 million operations or more; `auto` is in"
        " `torch.compile` the setting of PyTorch for convolutions,"
        " `torch.backends.cudnn.allow_tf32`, else the precision of contractions",
        "high",
    )
    disable_feature: tuple[str, ...] = _switch(
        (),
        values.features,
        "NAME,...",
        f"code generation features that are off: {', '.join(f'`{name}`' for name in FEATURES)}",
        "fma,data_tiling",
    )
    enable_feature: tuple[str, ...] = _switch(
        (), values.features, "NAME,...", "code generation features that are on", "kernels"
    )
    fusion_limit: int | None = _switch(
        None, values.limit, "N", "number of applied rewrites after which the engine stops", "10"
    )
    profile: str | None = _switch(
        None,
        values.file,
        "FILE",
        "a file of `mlirfuse-tune`, whose settings for this model and target hold unless another"
        " source sets them",
        "model.toml",
    )
    origins: Mapping[str, str] = dataclasses.field(default_factory=dict, compare=False)
    notes: tuple[str, ...] = dataclasses.field(default=(), compare=False)

    def __post_init__(self) -> None:
        """Brings every value to its one form and refuses contradictions."""
        given = {name: getattr(self, name) for name in switch_names()}
        with _loaded([("", given)]):
            for name, value in _read_place("", given).items():
                object.__setattr__(self, name, value)
            self._refuse_contradictions()

    def _refuse_contradictions(self) -> None:
        both = sorted(set(self.never_fuse) & {loc for group in self.must_fuse for loc in group})
        if both:
            raise UsageError(
                f"--never-fuse and --must-fuse both name {both[0]}; keep it in one of them"
            )
        if self.horizontal is None:
            return
        siblings = {name for name, entry in _passes().items() if entry.kind is Kind.SIBLING}
        word = "on" if self.horizontal else "off"
        against = self.disable_pass if self.horizontal else self.enable_pass
        for selector in map(Selector.read, against):
            if selector.name in siblings and (selector.whole or not self.horizontal):
                verb = "--disable-pass" if self.horizontal else "--enable-pass"
                raise UsageError(
                    f"--horizontal={word} contradicts {verb}={selector}; give one of them"
                )

    @classmethod
    def resolve(
        cls, *, place: str = "arguments", **switches: Unpack[SwitchArguments]
    ) -> FusionOptions:
        """Reads every place in order and merges the layers.

        Args:
          place: name of the place of `switches` in `origins` and `notes`; messages about these
            name the switch alone.
          **switches: fields of `FusionOptions`; None means not given.

        Raises:
          UsageError: a place holds an unknown or malformed switch, or the result contradicts
            itself.
        """
        given = {name: value for name, value in switches.items() if value is not None}
        around = places.surrounding(_defaults())
        with _loaded([*around, ("", given)]):
            layers = [(where, _read_place(where, found)) for where, found in around]
            merged = places.merge([*layers, (place, _read_place("", given))])
            return cls(**{**merged, "notes": (*places.config_notes(), *merged["notes"])})

    @classmethod
    def of(cls, value: FusionOptions | Mapping[str, Any] | None) -> FusionOptions:
        """Returns options as they are, and resolves a mapping of switches or None."""
        return value if isinstance(value, FusionOptions) else cls.resolve(**(value or {}))

    def over(self, place: str, weaker: Mapping[str, Any]) -> FusionOptions:
        """These options, with the switches of a weaker place where no other place sets them.

        Args:
          place: name of the weaker place.
          weaker: fields of `FusionOptions`.

        Raises:
          UsageError: a switch is unknown or malformed, or the result contradicts itself.
        """
        given = {
            name: getattr(self, name)
            for name, default in _defaults().items()
            if name in self.origins or getattr(self, name) != default
        }
        stronger = "given switches"
        merged = places.merge([(place, _read_place(place, weaker)), (stronger, given)])
        origins = {
            name: self.origins.get(name, stronger) if where == stronger else where
            for name, where in merged["origins"].items()
        }
        return FusionOptions(**{**merged, "origins": origins, "notes": self.notes})

    def pass_switch(self, name: str) -> bool | None:
        """Returns whether switches turn a pass on or off; None leaves it to the target.

        Args:
          name: the pass's own name, no alias.
        """
        if any(s.whole for s in self._named(self.disable_pass, name)):
            return False
        if self._named(self.enable_pass, name):
            return True
        entry = None if self.horizontal is None else _passes().get(name)
        if entry is not None and entry.kind is Kind.SIBLING:
            return self.horizontal
        return None

    def allows(self, name: str, function: str, match: int) -> bool:
        """Returns whether the selectors leave this match of a pass that is on.

        Args:
          name: the pass's own name, no alias.
          function: symbol name of the function.
          match: index of the match among those of the pass in this run, from 0.
        """
        if any(s.covers(function, match) for s in self._named(self.disable_pass, name)):
            return False
        enabled = self._named(self.enable_pass, name)
        return not enabled or any(s.covers(function, match) for s in enabled)

    @staticmethod
    def _named(selectors: tuple[str, ...], name: str) -> list[Selector]:
        return [s for s in map(Selector.read, selectors) if s.name == name]

    def feature(self, name: str) -> bool:
        """Returns whether a code generation feature is on.

        Raises:
          UsageError: there is no such feature.
        """
        if name not in FEATURES:
            raise UsageError(f"unknown feature '{name}'{nearest(name, FEATURES)}")
        if name in self.disable_feature:
            return False
        return name in self.enable_feature or FEATURES[name][0]

    def to_dict(self) -> dict[str, Any]:
        """The switches as a dictionary for JSON; `FusionOptions(**it)` gives them back."""
        given = {name: getattr(self, name) for name in switch_names()}
        return {n: list(v) if isinstance(v, tuple) else v for n, v in given.items()}

    def to_switches(self) -> list[str]:
        """The words of a command line that give these options where no other place sets any."""
        words = []
        for switch in switches():
            value = getattr(self, switch.name)
            if value == switch.default:
                continue
            lists = value if switch.name == "must_fuse" else [value]
            words += [f"{switch.flag}={spelled(entry)}" for entry in lists]
        return words

    def describe(self) -> str:
        """The switches as a `mlirfuse.toml`, with the place of each value in a comment."""
        lines = ["[tool.mlirfuse]"]
        for name, value in self.to_dict().items():
            text = f"# {name} is not set" if value is None else f"{name} = {json.dumps(value)}"
            lines.append(f"{text:<48}  # {self.origins.get(name, 'default')}")
        return "\n".join([*lines, *(f"# note: {note}" for note in self.notes), ""])


def spelled(value: Any) -> str:
    """The command line's spelling of one value of a switch."""
    if isinstance(value, bool):
        return "on" if value else "off"
    return ",".join(value) if isinstance(value, tuple) else str(value)


def _fields() -> dict[str, dataclasses.Field[Any]]:
    return {f.name: f for f in dataclasses.fields(FusionOptions) if "read" in f.metadata}


def _defaults() -> dict[str, Any]:
    return {name: field.default for name, field in _fields().items()}


def switch_names() -> tuple[str, ...]:
    """Names of the fields of `FusionOptions` that a place can set, in order."""
    return tuple(_fields())


def switches() -> tuple[Switch, ...]:
    """The texts of the fields of `FusionOptions` that a place can set, in order."""
    texts = ("metavar", "summary", "example")
    return tuple(
        Switch(field.name, field.default, **{text: field.metadata[text] for text in texts})
        for field in _fields().values()
    )


@contextlib.contextmanager
def scoped(**switches: Unpack[SwitchArguments]) -> Iterator[None]:
    """Sets switches for everything compiled inside the `with` block, in this context only.

    Args:
      **switches: fields of `FusionOptions`; None means not given.

    Raises:
      UsageError: a switch is unknown or malformed.
    """
    place = "with options(...)"
    given = {name: value for name, value in switches.items() if value is not None}
    with _loaded([*places.surrounding(_defaults()), (place, given)]):
        layer = (place, _read_place(place, given))
    with places.scope(layer):
        yield


def _read_place(place: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Brings the switches of one place to the types of their fields."""
    fields = _fields()
    known = {normalized(name): name for name in fields}
    prefix = f"{place}: " if place else ""
    found: dict[str, Any] = {}
    for key, value in given.items():
        name = known.get(normalized(key))
        if name is None:
            raise UsageError(f"{prefix}unknown switch '{key}'{nearest(key, fields)}")
        try:
            found[name] = fields[name].metadata["read"](value)
        except UsageError as error:
            message = " ".join(str(error).splitlines())
            raise UsageError(f"{prefix}{flag(name)}: {message}") from None
    return found


def _loaded(layers: Iterable[Layer]) -> contextlib.AbstractContextManager[None]:
    """Registers the passes of `--load-pass` of any place: all places may switch them."""
    specs: dict[str, None] = {}
    for place, given in layers:
        for key, value in given.items():
            if normalized(key) == normalized("load_pass"):
                specs.update(dict.fromkeys(_read_place(place, {key: value})["load_pass"]))
    if not specs:
        return contextlib.nullcontext()
    from mlirfuse.plugins import registry

    return registry.scope(specs)
