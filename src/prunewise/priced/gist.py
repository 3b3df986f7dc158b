"""What tells most of an output that goes, by its sort: it stands in the marker, before the names.

Of a search that is the files with the lines found in each; of what programs printed, the lines that tell
of trouble. Of any other sort nothing: the names alone.
"""

from __future__ import annotations

from prunewise import condense

SEARCH = "search"
_PRINTED = frozenset({"test", "follow", "other"})
_SHARE = 0.5
"""At most this part of the room; the rest is for names."""


def gist(text: str, sort: str, tokens: int) -> str:
    """What tells most of an output, in its part of so many tokens; empty where there is nothing to tell."""
    if sort == SEARCH:
        return of_search(text, tokens)
    lines = condense.trouble(text, int(_SHARE * tokens)) if sort in _PRINTED else []
    return "\n".join(("lines that tell of trouble:", *lines)) if lines else ""


def of_search(text: str, tokens: int) -> str:
    """The files that a search found, with the number of lines in each."""
    files = condense.counted(text, int(_SHARE * tokens))
    return f"lines found in each file: {files}" if files else ""


def with_names(text: str, sort: str, tokens: int) -> tuple[str, str]:
    """What tells most of an output, and names beyond that, in so many tokens together."""
    told = gist(text, sort, tokens)
    room = tokens - -(-len(told) // condense.CHARACTERS_PER_TOKEN)
    return told, condense.index(text, room, condense.names(told))
