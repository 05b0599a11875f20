"""What Spark and its JVM say when they fail, in one line."""

import re


def cause_of(error: BaseException | str | None) -> str:
    """The deepest reason in one line."""
    text = str(error) if error is not None else "the query ended"
    causes = re.findall(r"(?:Caused by: |^)([\w.$]+(?:Error|Exception)[^\n]*)", text, re.MULTILINE)
    line = causes[-1] if causes else next((x for x in text.splitlines() if x.strip()), text)
    return line.strip()[:500]
