"""The page docs/command-line.md as the parser of the command line describes it.

``./dev generate`` writes the page.
"""

from __future__ import annotations

import argparse
import re
from collections import Counter
from collections.abc import Iterable, Iterator

from state_processor.cli import EXIT_CODES, command_parser

INTRODUCTION = """\
# Command line

`state-processor` works in one process without Spark. Paths are local paths, or URLs with the schemes `s3:`, `gs:`, `hdfs:` or
any scheme that an installed `fsspec` package supports. `state-processor COMMAND --help` shows the options of a command. What a
command does in Python is at the end of its help: `sp` is `import state_processor as sp`, and `SavepointReader` and
`SavepointWriter` are the classes of `sp.arrow` and of `sp`, with the same methods.

`./dev generate` writes this page.
"""

_MARKUP = re.compile(r"([*<|`])")


def page() -> str:
    parser = command_parser()
    (commands,) = (a for a in parser._actions if isinstance(a, argparse._SubParsersAction))
    choices: dict[str, argparse.ArgumentParser] = commands.choices
    shared = Counter(group.title for p in choices.values() for group in p._action_groups[2:])
    texts = {action.dest: escaped(action.help) for action in commands._choices_actions}
    overview = table(("command", "purpose"), ((f"[`{name}`](#{name})", texts[name]) for name in choices))
    codes = table(("exit code", "meaning"), ((str(code), meaning) for code, meaning in EXIT_CODES.items()))
    of_commands = "\n".join(section(name, p, shared) for name, p in choices.items())
    groups = "\n".join(common(title, choices.values()) for title, count in shared.items() if count > 1)
    return "\n".join([INTRODUCTION, overview, f"## Exit codes\n\n{codes}", f"## Commands\n\n{of_commands}", groups])


def section(name: str, parser: argparse.ArgumentParser, shared: Counter[str | None]) -> str:
    """A command: its usage, its description, its own arguments, and its common flags."""
    description = escaped(" ".join(filter(None, (parser.description, parser.epilog))))
    lines = list(bullets(a for group in parser._action_groups if shared[group.title] <= 1 for a in group._group_actions))
    for group in parser._action_groups:
        if shared[group.title] > 1:
            flags = ", ".join(f"`{action.option_strings[-1]}`" for action in group._group_actions)
            lines.append(f"- [{group.title}](#{anchor(group.title)}): {flags}")
    return "\n\n".join(filter(None, [f"### {name}", f"`{usage(name, parser)}`", description, "\n".join(lines)])) + "\n"


def usage(name: str, parser: argparse.ArgumentParser) -> str:
    """Operands and required options of a command."""
    parts = [f"state-processor {name}"]
    for action in sorted(parser._actions, key=lambda action: bool(action.option_strings)):
        if not action.option_strings:
            parts.append(operand(action))
        elif action.required:
            parts.append(spelled(action))
    choices = (g._group_actions for g in parser._mutually_exclusive_groups if g.required)
    return " ".join([*parts, *(f"({' | '.join(map(spelled, actions))})" for actions in choices), "[options]"])


def common(title: str | None, parsers: Iterable[argparse.ArgumentParser]) -> str:
    """Options that several commands have."""
    groups = [group for p in parsers for group in p._action_groups if group.title == title]
    actions = {spelled(action): action for group in groups for action in group._group_actions}
    assert len({action.help for action in actions.values()}) == len(actions)
    return f"## {str(title).capitalize()}\n\n" + "\n".join(bullets(actions.values())) + "\n"


def bullets(actions: Iterable[argparse.Action]) -> Iterator[str]:
    for action in actions:
        if not isinstance(action, argparse._HelpAction):
            assert action.help, action
            text = action.help % {**vars(action), "choices": ", ".join(map(str, action.choices or ()))}
            shown = ", ".join([*action.option_strings[:-1], spelled(action)]) if action.option_strings else operand(action)
            yield f"- `{shown}`: {escaped(text)}"


def spelled(action: argparse.Action) -> str:
    return action.option_strings[-1] if action.nargs == 0 else f"{action.option_strings[-1]} {operand(action)}"


def operand(action: argparse.Action) -> str:
    if action.metavar is None and action.choices is not None:
        return "|".join(map(str, action.choices))
    return str(action.metavar or action.dest.upper())


def anchor(title: str | None) -> str:
    return str(title).replace(" ", "-")


def escaped(text: str | None) -> str:
    return _MARKUP.sub(r"\\\1", text or "")


def table(heading: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    return "".join(f"| {' | '.join(row)} |\n" for row in (heading, ["---"] * len(heading), *rows))
