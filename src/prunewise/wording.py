"""Numbers and nouns, as everything that writes to a person has them."""

from __future__ import annotations


def number(value: float) -> str:
    """A number with its thousands set off, and one decimal where it is no whole one."""
    rounded = round(value, 1)
    return f"{int(rounded):,}" if rounded == int(rounded) else f"{rounded:,.1f}"


def count(many: int, one: str, several: str = "") -> str:
    """A number and its noun."""
    return f"{many:,} {one if many == 1 else several or one + 's'}"
