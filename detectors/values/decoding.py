"""Decodes bytes that anyone may have written into a value, or raises one type of error with the reason.

Every record of every topic is decoded here, so that a new kind of malformed bytes is handled in one place.
"""

from collections.abc import Callable
from functools import wraps
from typing import TypeVar

import msgspec

T = TypeVar("T")

LAST_MS = 253_402_300_799_999
"""The end of the year 9999, the last year that can be printed (epoch ms)."""

_MAX_DETAIL = 500
_encode = msgspec.msgpack.Encoder().encode


class UndecodableError(ValueError):
    """A record cannot be decoded. `reason` is a short code such as not_json, the message says what is wrong."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail if len(detail) <= _MAX_DETAIL else detail[:_MAX_DETAIL] + "…")
        self.reason = reason


def decoded(decode: Callable[[bytes], T], value: bytes | None) -> T:
    """`decode(value)`, but every error is raised as UndecodableError."""
    if not value:
        raise UndecodableError("empty", "the record has no value")
    try:
        return decode(value)
    except UndecodableError:
        raise
    except UnicodeDecodeError as error:
        raise UndecodableError("invalid_utf8", f"byte {value[error.start]:#04x} at {error.start}") from None
    except msgspec.ValidationError as error:
        raise UndecodableError("wrong_shape", str(error)) from None
    except msgspec.DecodeError as error:
        raise UndecodableError("not_json", str(error)) from None
    except RecursionError:
        raise UndecodableError("too_deep", "the JSON is nested too deeply") from None
    except (OverflowError, ArithmeticError) as error:
        raise UndecodableError("out_of_range", str(error)) from None
    except (ValueError, TypeError, LookupError) as error:
        # Includes pydantic's errors: the document is well formed, but its content is not allowed.
        raise UndecodableError("wrong_shape", " ".join(str(error).split())) from None


def moment(time: int) -> int:
    """The given epoch time in ms. Raises OverflowError if it is outside the years 1970 to 9999."""
    if not 0 <= time <= LAST_MS:
        raise OverflowError("a time is not between the years 1970 and 9999")
    return time


def carried(decode: Callable[[bytes], T]) -> Callable[[bytes | None], T]:
    """A decoder that only accepts values that can be encoded as msgpack, as state and rows between stages are.

    JSON integers can have any size, msgpack integers 64 bits. Without this check, a larger one would fail a stage
    later, where the record is not known. The decoder raises UndecodableError and nothing else.
    """

    def whole(value: bytes) -> T:
        found = decode(value)
        _encode(found)
        return found

    return wraps(decode)(lambda value: decoded(whole, value))
