"""The list of incidents of a replay, each with a link to its page."""

from collections.abc import Mapping, Sequence

from detectors.incident import Transition
from sinks.contract import phrases
from sinks.web.page_context import PageContext
from sinks.web.templating import render

_MOST = 5_000


def render_index(found: Mapping[str, Sequence[Transition]], context: PageContext, read: Sequence[str] = ()) -> str:
    """The page with all incidents in order of opening. `read` are sentences on the files that they were found in."""
    newest = [transitions[-1] for transitions in found.values()]
    main = [t for t in newest if not t.part_of]
    return render(
        "replay_index.html.j2",
        context=context,
        incidents=main[:_MOST],
        hidden=max(len(main) - _MOST, 0),
        merged=[t for t in newest if t.part_of][:_MOST],
        read=read,
        subject=phrases.subject_line,
        state=phrases.state,
        tone=phrases.tone,
        since=phrases.since,
    )
