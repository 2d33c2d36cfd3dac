"""Groups of options that several commands share: declared once as one parameter, expanded for typer."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import wraps
from typing import Annotated, Any, get_args, get_origin, get_type_hints


@dataclass(frozen=True)
class Group:
    """Marks a parameter that stands for several options: their types and defaults, and what builds it from them."""

    options: Mapping[str, tuple[Any, Any]]
    build: Callable[..., Any]


def group_of(cls: type) -> Group:
    """The fields of a dataclass as options; their types are annotated like typer parameters."""
    types = get_type_hints(cls, include_extras=True)
    return Group({field.name: (types[field.name], field.default) for field in fields(cls)}, cls)


def with_options(command: Callable[..., None]) -> Callable[..., None]:
    """Expand the grouped parameters of a command, so that typer sees single options."""
    hints = get_type_hints(command, include_extras=True)
    groups = {
        name: mark
        for name, hint in hints.items()
        if get_origin(hint) is Annotated
        for mark in get_args(hint)
        if isinstance(mark, Group)
    }

    @wraps(command)
    def expanded(**options: Any) -> None:
        grouped = {
            name: group.build(**{option: options.pop(option) for option in group.options})
            for name, group in groups.items()
        }
        command(**options, **grouped)

    kind = inspect.Parameter.KEYWORD_ONLY
    parameters: list[inspect.Parameter] = []
    for name, parameter in inspect.signature(command).parameters.items():
        single = groups[name].options if name in groups else {name: (hints[name], parameter.default)}
        parameters += [
            inspect.Parameter(each, kind, default=default, annotation=hint) for each, (hint, default) in single.items()
        ]
    expanded.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    expanded.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return expanded
