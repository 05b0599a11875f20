"""Validation errors as text: file, line, key, what is wrong, what is allowed, and the nearest known key."""

import difflib
import re
import types
from collections.abc import Callable, Mapping
from typing import Any, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic_core import ErrorDetails

from detectors.settings.overrides import OverriddenDetectors, Override
from detectors.values.durations import format_duration
from streaming.configuration.yaml_document import Place, dotted

_LIMITS = {
    "greater_than": ("gt", "must be more than"),
    "greater_than_equal": ("ge", "must be at least"),
    "less_than": ("lt", "must be less than"),
    "less_than_equal": ("le", "must be at most"),
}
_WORDS = {
    "missing": "is required and missing",
    "int_parsing": "must be a whole number",
    "int_type": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_parsing": "must be a number",
    "float_type": "must be a number",
    "bool_parsing": "must be true or false",
    "bool_type": "must be true or false",
    "string_type": "must be text; put it between quotes",
    "tuple_type": "must be a list",
    "too_short": "must have at least {min_length}",
    "timezone_aware": "must have a time zone, such as 2026-11-21T22:00:00+01:00 or 2026-11-21T21:00:00Z",
}
_SHOWN = {"int_parsing", "int_type", "int_from_float", "float_parsing", "float_type", "bool_parsing", "bool_type"}
_SECRET = re.compile(r"(?i)secret|password|token|key")
_MAX_SHOWN = 40
_NOT_A_MAPPING = {"model_type", "model_attributes_type", "dict_type"}


def explain(
    model: type[BaseModel], errors: list[ErrorDetails], where: Callable[[Place], tuple[int, str]], document: Any
) -> str:
    """One line for each error, in the order of the file.

    `document` was validated against `model`; `where` gives the line and the name of a place in it.
    """
    lines = [(*where(e["loc"]), f"{dotted(e['loc'])}: {_problem(model, e, document)}") for e in errors]
    return "\n".join(f"{name}: {problem}" for _, name, problem in sorted(lines))


def _problem(model: type[BaseModel], error: ErrorDetails, document: Any) -> str:
    place, kind = error["loc"], error["type"]
    if kind == "extra_forbidden":
        return _unknown(str(place[-1]), _keys(model, place[:-1]), place)
    if kind in _NOT_A_MAPPING:
        return f"must be a mapping with keys; allowed: {', '.join(_keys(model, place)) or 'any'}"
    if kind in _LIMITS:
        key, words = _LIMITS[kind]
        limit = error["ctx"][key]
        # Only a duration is written as text and compared as a number.
        written = _value(document, place)
        return f"{words} {format_duration(limit) if isinstance(written, str) else limit}, not {written}"
    if kind in _WORDS:
        return _WORDS[kind].format(**error.get("ctx", {})) + _instead_of(document, place, kind)
    message = error["msg"].removeprefix("Value error, ")
    return message[0].lower() + message[1:] if message[:1].isupper() else message


def _instead_of(document: Any, place: Place, kind: str) -> str:
    """The wrong value as text, unless it may be a secret."""
    if kind not in _SHOWN or _SECRET.search(str(place[-1])):
        return ""
    written = _value(document, place)
    if not isinstance(written, str | int | float):
        return ""
    return f", not {str(written)[:_MAX_SHOWN]!r}" if isinstance(written, str) else f", not {written}"


def _unknown(key: str, allowed: list[str], place: Place) -> str:
    near = difflib.get_close_matches(key, allowed, n=1)
    hint = f"did you mean {near[0]}? " if near else ""
    in_detectors = len(place) > 1 and place[-2] == "detectors"
    what = f"unknown detector {key}; " if in_detectors else "unknown key; "
    return f"{what}{hint}allowed: {', '.join(allowed)}"


def _keys(model: Any, place: Place) -> list[str]:
    """The keys that are allowed at a place, in order."""
    for step in place:
        if isinstance(model, type) and issubclass(model, BaseModel):
            written_as_is = model is Override and step == "detectors"
            model = OverriddenDetectors if written_as_is else _plain(model.model_fields[str(step)].annotation)
        else:
            model = _plain(get_args(model)[0]) if isinstance(step, int) else _plain(get_args(model)[-1])
    return sorted(model.model_fields) if isinstance(model, type) and issubclass(model, BaseModel) else []


def _plain(annotation: Any) -> Any:
    """Without `| None`."""
    if get_origin(annotation) in (Union, types.UnionType):
        return next((a for a in get_args(annotation) if a is not type(None)), annotation)
    return annotation


def _value(document: Any, place: Place) -> Any:
    for step in place:
        inner = isinstance(document, Mapping) or (isinstance(document, list) and isinstance(step, int))
        if not inner:
            return document
        document = document[step]
    return document
