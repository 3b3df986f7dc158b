"""Numbers, nouns, and texts of others, as everything that writes to a person has them."""

from __future__ import annotations

from unicodedata import category


def number(value: float) -> str:
    """A number with its thousands set off, and one decimal where it is no whole one."""
    rounded = round(value, 1)
    return f"{int(rounded):,}" if rounded == int(rounded) else f"{rounded:,.1f}"


def count(many: int, one: str, several: str = "") -> str:
    """A number and its noun."""
    return f"{many:,} {one if many == 1 else several or one + 's'}"


def one_line(text: str) -> str:
    """The text with everything that cannot be seen, or would move the cursor, as an escape."""
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else ascii(one)[1:-1] for one in text)


def visible(text: str) -> str:
    """The same with its lines, tabs and wide spaces: a text that a terminal shows and does not obey."""
    if text.isprintable():
        return text
    return "".join(one if _is_shown(one) else ascii(one)[1:-1] for one in text)


def _is_shown(character: str) -> bool:
    return character.isprintable() or character in "\n\t" or category(character) == "Zs"
