"""Outputs of many megabytes: what is looked at in them is bounded, and units are counted right."""

import pytest

from prunewise.holding import is_cut
from prunewise.tokens import utf16_length


@pytest.mark.parametrize(
    ("text", "expected"),
    [("a line\n", False), ("a line\n" * 140_000, False), ("a line\n" * 150_000, True), ("[truncated]", True)],
)
def test_of_one_that_is_too_long_to_be_read_nothing_is_claimed(text: str, expected: bool):
    assert is_cut(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "plain",
        "\xe9",
        "\u20ac",
        "\ud83d",
        "\ude00\ud83d",
        "\U0001f600",
        "\U00010000",
        "\U0010ffff\ud800x",
    ],
)
def test_units_are_counted_as_javascript_counts(text: str):
    assert utf16_length(text * 3) == len((text * 3).encode("utf-16-le", "surrogatepass")) // 2
