"""Bytes that anyone may have written → a value, or one error that says why not.

Every record of every topic is decoded here, so that a new way in which bytes can be wrong is caught in one place.
"""

from collections.abc import Callable
from typing import TypeVar

import msgspec

T = TypeVar("T")

LAST_MS = 253_402_300_799_999
"""The end of the year 9999, which is the last that can be printed."""

_MAX_DETAIL = 500
_encode = msgspec.msgpack.Encoder().encode


class UndecodableError(ValueError):
    """A record cannot be decoded. `reason` is one of a few words, the message says what is wrong."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail if len(detail) <= _MAX_DETAIL else detail[:_MAX_DETAIL] + "…")
        self.reason = reason


def decoded(decode: Callable[[bytes], T], value: bytes | None) -> T:
    """`decode(value)`. Raises UndecodableError, and nothing else, for every value of which `decode` makes none."""
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
        # pydantic's errors among them: the document is well formed, and what it says is not allowed.
        raise UndecodableError("wrong_shape", " ".join(str(error).split())) from None


def moment(time: int) -> int:
    """An epoch time in ms. Raises OverflowError when no calendar holds it."""
    if not 0 <= time <= LAST_MS:
        raise OverflowError("a time is not between the years 1970 and 9999")
    return time


def carried(decode: Callable[[bytes], T]) -> Callable[[bytes | None], T]:
    """A decoder whose values can be passed on as msgpack, as state and the rows between stages are.

    JSON holds integers of any size and msgpack those of 64 bits: what does not fit would fail a stage later, where no
    record can be named. The decoder raises UndecodableError alone.
    """

    def whole(value: bytes) -> T:
        found = decode(value)
        _encode(found)
        return found

    return lambda value: decoded(whole, value)
