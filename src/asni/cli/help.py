"""How a command is shown in the help: its panel, its docstring, and its examples as a block below the options."""

import inspect
import re
from collections.abc import Callable, Iterable
from typing import Any

import typer
from rich.markup import escape
from typer.core import TyperCommand, TyperGroup


class Command(TyperCommand):
    """A command whose flags and arguments have no type in its help."""

    def get_params(self, ctx: Any) -> list[Any]:
        return _without_types(super().get_params(ctx))


class Group(TyperGroup):
    """The same for what holds commands."""

    def get_params(self, ctx: Any) -> list[Any]:
        return _without_types(super().get_params(ctx))


def add(app: typer.Typer, command: Callable[..., None], panel: str | None = None) -> None:
    """Add a command by its docstring: a short line, more if there is more to say, and `Example:` or `Examples:`."""
    about, examples = _parts(inspect.getdoc(command) or "")
    app.command(cls=Command, help=about, epilog=block("Examples", examples), rich_help_panel=panel)(command)


def block(title: str, lines: Iterable[str]) -> str:
    """Lines for the end of a help; the markup before their indent keeps typer from removing it."""
    return "\n".join([f"[bold]{title}[/bold]", *(f"[cyan]  {escape(line)}[/cyan]" for line in lines)])


def _parts(docstring: str) -> tuple[str, list[str]]:
    """What a docstring says, without line breaks inside paragraphs, and its examples.

    >>> _parts("Train.\\n\\nAll that\\nis asked.\\n\\nExamples:\\n  asni train a\\n  asni train b")
    ('Train.\\n\\nAll that is asked.', ['asni train a', 'asni train b'])
    """
    about, *rest = re.split(r"\n\nExamples?:", docstring)
    paragraphs = [" ".join(paragraph.split()) for paragraph in about.split("\n\n")]
    return escape("\n\n".join(paragraphs)), [line.strip() for part in rest for line in part.strip().splitlines()]


def _without_types(parameters: list[Any]) -> list[Any]:
    for each in parameters:
        if getattr(each, "is_flag", False):
            each.metavar = ""
        elif each.param_type_name == "argument":
            each.display_type_rich = lambda ctx: None
    return parameters
