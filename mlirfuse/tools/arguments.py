"""The arguments that several command lines share: parser, switches, reports, model, target."""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from mlirfuse.core import UsageError, nearest, normalized
from mlirfuse.options import ON_OFF, FusionOptions, switch_names, switches
from mlirfuse.tools.completion import complete
from mlirfuse.tools.diagnostics import Finished, warn
from mlirfuse.tools.elsewhere import advice

HELP_COLUMNS = 100
"""Widest line of any `--help`."""

TARGETS = "cpu|cuda[:sm_90]|rocm[:gfx942]|vulkan[:ampere]"

EXIT_CODES = "exit codes: 0 done, 1 the work failed, 2 wrong usage, 130 interrupted"


class Formatter(argparse.RawDescriptionHelpFormatter):
    """Help of at most `HELP_COLUMNS` columns."""

    def __init__(self, prog: str) -> None:
        width = min(HELP_COLUMNS, shutil.get_terminal_size((HELP_COLUMNS, 24)).columns)
        super().__init__(prog, max_help_position=32, width=width)

    def _format_action_invocation(self, action: argparse.Action) -> str:
        """Shows `-o, --output=OUT` and `--explain[=json]`, as the documents write them."""
        if not action.option_strings:
            return super()._format_action_invocation(action)
        names = ", ".join(action.option_strings)
        if action.nargs == 0:
            return names
        value = action.metavar or action.dest.upper()
        return f"{names}[={value}]" if action.nargs == "?" else f"{names}={value}"


class Parser(argparse.ArgumentParser):
    """A parser with LLVM's habits: `--explain IN` does not take IN as the value of `--explain`.

    Names of switches are matched without regard to case, `-` and `_`, and long ones may have one
    dash; wrong usage raises `UsageError`.
    """

    def __init__(self, usage: str, description: str, examples: Sequence[str]) -> None:
        shown = "".join(f"  {line}\n" for line in examples)
        super().__init__(
            usage.partition(" ")[0],
            usage=usage,
            description=description,
            epilog=f"examples:\n{shown}\n{EXIT_CODES}",
            formatter_class=Formatter,
            allow_abbrev=False,
            add_help=False,
        )

    def read(self, argv: Sequence[str]) -> argparse.Namespace:
        """Parses the arguments of the command, without its name.

        Raises:
          UsageError: an unknown switch, a missing or bad value.
        """
        complete(self)
        actions = {normalized(s): (s, a) for s, a in self._option_string_actions.items()}
        words: list[str] = []
        for index, word in enumerate(argv):
            if word == "--":
                words.extend(argv[index:])
                break
            head, equals, value = word.partition("=")
            single = head.startswith("-") and len(head) > 2 and normalized(head) in actions
            if not head.startswith("--") and not single:
                words.append(word)
                continue
            if normalized(head) not in actions:
                choices = [s for s in self._option_string_actions if s.startswith("--")]
                text = advice(head, self.prog) or nearest(head, choices)
                raise UsageError(f"unknown switch '{head}'{text}")
            name, action = actions[normalized(head)]
            if not equals and action.nargs == "?":
                equals, value = "=", str(action.const)
            words.append(f"{name}{equals}{value}")
        return self.parse_args(words)

    def error(self, message: str) -> NoReturn:
        """Raises instead of printing the usage.

        Raises:
          UsageError: always.
        """
        raise UsageError(f"{message}; see {self.prog} --help")


def add_general(parser: Parser, verbose: str = "log one line a pass on stderr") -> None:
    """Adds `--help`, `--version`, `-v` and `--debug`.

    Args:
      parser: of the command.
      verbose: help of `-v`.
    """
    from mlirfuse.tools.version import ShowVersion

    group = parser.add_argument_group("general")
    group.add_argument("-h", "--help", action="help", help="print this text, then stop")
    group.add_argument("-v", "--verbose", action="store_true", help=verbose)
    group.add_argument("--debug", action="store_true", help="show tracebacks of errors")
    group.add_argument("--version", action=ShowVersion)


def add_switches(parser: Parser) -> None:
    """Adds every switch of `FusionOptions`, and `--print-options`."""
    group = parser.add_argument_group(
        "switches",
        "Also set by [tool.mlirfuse] of mlirfuse.toml, then by MLIRFUSE_FLAGS; later wins, and in"
        " one\nplace disable beats enable. Names are matched without regard to case, - and _.",
    )
    for switch in switches():
        text = f"{switch.plain_summary} (e.g. {switch.example})".replace("%", "%%")
        settings: dict[str, Any] = {"dest": switch.name, "metavar": switch.metavar, "help": text}
        if switch.metavar == ON_OFF:
            settings |= {"nargs": "?", "const": "on", "metavar": "off"}
        if isinstance(switch.default, tuple):
            settings["action"] = "append"
        group.add_argument(switch.flag, **settings)
    group.add_argument(
        "--print-options",
        action="store_true",
        help="print the value of every switch and the place that set it, then stop",
    )


def add_reports(parser: Parser) -> None:
    """Adds the questions about decisions: `--explain`, `--candidates`, `--why`."""
    group = parser.add_argument_group(
        "explanations",
        "Text goes to stderr; with =json one JSON document goes to stdout.",
    )
    group.add_argument(
        "--explain",
        **_text_or_json("every group made, and every fusion refused with its reason"),
    )
    group.add_argument(
        "--candidates", **_text_or_json("every candidate with its score, taken or not, best first")
    )
    group.add_argument(
        "--why",
        metavar="LOC,LOC",
        help="why two ops are, or are not, one kernel: locations, lines, layers, ops, or #KERNEL",
    )
    group.add_argument(
        "--graph",
        metavar="FILE.dot|FILE.json",
        help="draw the kernels (of mlirfuse-opt: the groups), the tensors between them and the"
        " reasons, for Graphviz or Model Explorer",
    )


def add_kernels(group: Any) -> None:
    """Adds `--kernels` to a group of arguments."""
    group.add_argument(
        "--kernels",
        **_text_or_json("each kernel of the final program: its source ops, tensors and code"),
    )


def add_target(group: Any) -> None:
    """Adds `--target` to a group of arguments."""
    group.add_argument(
        "--target", default="cpu", metavar="TARGET", help=f"{TARGETS} (default: cpu)"
    )


def add_function(group: Any) -> None:
    """Adds `--function`, for a model, to a group of arguments."""
    group.add_argument(
        "--function", metavar="NAME", help="the function to call, of MLIR with several"
    )


def add_shapes(group: Any) -> None:
    """Adds `--shapes`, for a model, to a group of arguments."""
    group.add_argument(
        "--shapes",
        metavar="[NAME:]AxB,...",
        help="shapes of the arguments, for sizes that an .onnx file leaves open: all in order, or"
        " some by name (e.g. 1x3x224x224; ids:1x128,mask:1x128)",
    )


def add_dump(group: Any) -> None:
    """Adds `--dump-ir-dir` to a group of arguments."""
    group.add_argument(
        "--dump-ir-dir",
        metavar="DIR",
        help="write the IR before and after each pass that changed it, as NNN_PASS_before.mlir",
    )


def add_list_passes(group: Any) -> None:
    """Adds `--list-passes` to a group of arguments."""
    group.add_argument("--list-passes", **_text_or_json("print the table of passes, then stop"))


def _text_or_json(text: str) -> dict[str, Any]:
    return {
        "nargs": "?",
        "const": "text",
        "metavar": "json",
        "choices": ("text", "json"),
        "help": text,
    }


def options_from(arguments: argparse.Namespace, prog: str) -> FusionOptions:
    """Resolves the switches of the command line with those of every other place.

    Notes about them go to stderr.

    Raises:
      UsageError: as `FusionOptions.resolve`.
      Finished: `--print-options` is given, and they are printed.
    """
    given = {name: getattr(arguments, name) for name in switch_names()}
    options = FusionOptions.resolve(place="command line", **given)
    for note in options.notes:
        warn(prog, note)
    if arguments.print_options:
        sys.stdout.write(options.describe())
        raise Finished
    return options


def seconds(switch: str, unit: str = "seconds") -> Callable[[str], float]:
    """A reader of the value of a switch: seconds, or another unit of time, above zero.

    It raises `UsageError` for anything else.
    """

    def read(text: str) -> float:
        try:
            found = float(text)
        except ValueError:
            found = 0.0
        if not 0 < found < float("inf"):
            raise UsageError(f"{switch} takes {unit} above 0, not '{text}'")
        return found

    return read


def scoped(text: str) -> tuple[str, str]:
    """Scope and file of a value of `--parameters`, spelled as for `iree-run-module`."""
    scope, equals, path = text.partition("=")
    return (scope, path) if equals else ("", text)
