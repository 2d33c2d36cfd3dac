"""Validates data against a pydantic model; errors name the key and what is allowed."""

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from asni.errors import MOST_LISTED, MOST_QUOTED, UsageError, shown

Model = TypeVar("Model", bound=BaseModel)


def checked(model: type[Model], data: Mapping[str, Any], source: str, **given: Any) -> Model:
    """Validate `data`; raise one UsageError with a line for every problem.

    Keys in `given` are set by the program: in `data` they count as unknown.
    """
    known = [key for key in _keys(model) if key.partition(".")[0] not in given]
    lines = [f"{key}: no such key{_nearest(key, known)}" for key in given if key in data]
    try:
        valid = model.model_validate({**data, **given})
    except ValidationError as refusal:
        lines += [_explained(model, error, known) for error in refusal.errors()]
    except UsageError as refusal:
        # Of the schedule, which takes more than a recipe.
        lines.append(str(refusal))
    if lines:
        more = [f"and {len(lines) - MOST_LISTED:,} more"] * (len(lines) > MOST_LISTED)
        raise UsageError("\n".join(f"{shown(source)}: {line}" for line in lines[:MOST_LISTED] + more))
    return valid


def _explained(model: type[BaseModel], error: ErrorDetails, known: list[str]) -> str:
    key = shown(".".join(str(part) for part in error["loc"]))
    if error["type"] == "extra_forbidden":
        return f"{key}: no such key{_nearest(key, known)}"
    if error["type"] == "missing":
        return f"{key}: missing"
    if error["type"] == "value_error":
        return f"{key}: {error['ctx']['error']}" if key else str(error["ctx"]["error"])
    allowed = error["msg"].removeprefix("Input ")
    field = _field_description(model, key)
    return f"{key} = {_quoted(error['input'])}: {allowed}{f' ({field})' if field else ''}"


def _quoted(value: object) -> str:
    try:
        return shown(repr(value[:MOST_QUOTED] if isinstance(value, str) else value))
    except (ValueError, RecursionError):
        # Python neither writes out an integer of thousands of digits, nor arrays in arrays without end.
        return f"<{type(value).__name__}>"


def _nearest(key: str, known: list[str]) -> str:
    """Suggests the nearest key in the same section, else in another one."""
    section, _, name = key.rpartition(".")
    leaves = {full: full.rpartition(".")[2] for full in known}
    siblings = [leaf for full, leaf in leaves.items() if full.rpartition(".")[0] == section]
    if near := get_close_matches(name, siblings, n=1):
        return f"; did you mean '{near[0]}'?"
    if near := get_close_matches(name, leaves.values(), n=1):
        return f"; did you mean '{next(full for full, leaf in leaves.items() if leaf == near[0])}'?"
    return f" (known: {', '.join(siblings)})" if siblings else ""


def _keys(model: type[BaseModel], prefix: str = "") -> Iterator[str]:
    for name, field in model.model_fields.items():
        yield prefix + name
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from _keys(field.annotation, f"{prefix}{name}.")


def _field_description(model: type[BaseModel], key: str) -> str | None:
    description = None
    for part in key.split("."):
        if part not in model.model_fields:
            break
        field = model.model_fields[part]
        description = field.description
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            model = field.annotation
    return description
