"""Data against a pydantic model, refused in words that name the key and what is allowed."""

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from asni.errors import UsageError

Model = TypeVar("Model", bound=BaseModel)


def checked(model: type[Model], data: Mapping[str, Any], source: str) -> Model:
    """The model that `data` describes, or one UsageError with a line for everything that is wrong."""
    try:
        return model.model_validate(data)
    except ValidationError as refusal:
        lines = [_explained(model, error) for error in refusal.errors()]
        raise UsageError("\n".join(f"{source}: {line}" for line in lines)) from None


def _explained(model: type[BaseModel], error: ErrorDetails) -> str:
    key = ".".join(str(part) for part in error["loc"])
    if error["type"] == "extra_forbidden":
        return f"{key}: no such key{_nearest(model, key)}"
    if error["type"] == "missing":
        return f"{key}: missing"
    if error["type"] == "value_error":
        return f"{key}: {error['ctx']['error']}" if key else str(error["ctx"]["error"])
    allowed = error["msg"].removeprefix("Input ")
    field = _field_description(model, key)
    return f"{key} = {error['input']!r}: {allowed}{f' ({field})' if field else ''}"


def _nearest(model: type[BaseModel], key: str) -> str:
    """A neighbour in the same section first, then the same or a near name in another one."""
    section, _, name = key.rpartition(".")
    keys = {full.rpartition(".")[::2]: full for full in _keys(model)}
    siblings = [leaf for (parent, leaf) in keys if parent == section]
    if near := get_close_matches(name, siblings, n=1, cutoff=0.5):
        return f"; did you mean '{near[0]}'?"
    if near := get_close_matches(name, [leaf for _, leaf in keys], n=1, cutoff=0.7):
        return f"; did you mean '{next(full for (_, leaf), full in keys.items() if leaf == near[0])}'?"
    return f" (known: {', '.join(siblings)})"


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
