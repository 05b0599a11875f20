"""Names of any kind as one word of a line, and back."""

import re

_MAX = 300
_OTHERS = re.compile(r"[^A-Za-z0-9._/:@+*-]")
_WRITTEN = re.compile(r"%([0-9a-f]{1,6});")


def one_word(name: str) -> str:
    """A name as a word without spaces, commas and equals signs; of a long one the beginning.

    >>> one_word("prod eu"), one_word("kafka-1:9092"), one_word("")
    ('prod%20;eu', 'kafka-1:9092', '-')
    """
    return _OTHERS.sub(lambda found: f"%{ord(found[0]):x};", name[:_MAX]) or "-"


def name_of(word: str) -> str:
    """The name that was written as a word.

    >>> name_of("prod%20;eu"), name_of("%d800;%ffffff;")
    ('prod eu', '??')
    """
    return _WRITTEN.sub(lambda found: _character(int(found[1], 16)), word)


def _character(number: int) -> str:
    """No text holds surrogates alone, and nothing is beyond Unicode."""
    return "?" if 0xD800 <= number <= 0xDFFF or number > 0x10FFFF else chr(number)
