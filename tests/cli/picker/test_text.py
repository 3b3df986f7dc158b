"""Outputs as lines for a terminal: all of the text, no line too wide, nothing that a terminal obeys."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from prunewise.cli.picker.text import Wrapped


def wrapped(text: str, width: int) -> list[str]:
    lines = Wrapped(text, width)
    lines.reach(len(text) + 1)
    assert lines.complete
    return lines.lines


@pytest.mark.parametrize(
    ("text", "width", "lines"),
    [
        ("", 10, []),
        ("a", 10, ["a"]),
        ("a\n", 10, ["a"]),
        ("\n", 10, [""]),
        ("a\n\n", 10, ["a", ""]),
        ("a\nb", 10, ["a", "b"]),
        ("a\r\nb\r\n", 10, ["a", "b"]),
        ("10%\r20%\r30%", 10, ["10%", "20%", "30%"]),
        ("\tx", 10, ["    x"]),
        ("abcdef", 4, ["abcd", "ef"]),
        ("漢字漢字", 4, ["漢字", "漢字"]),
        ("漢字漢", 5, ["漢字", "漢"]),
        ("\x1b[31m", 20, ["\\x1b[31m"]),
        ("\x00\x9b", 20, ["\\x00\\x9b"]),
        ("a\x0bb\x0cc\x85d\u2028e", 60, ["a\\x0bb\\x0cc\\x85d\\u2028e"]),
        ("\ud800", 20, ["\\ud800"]),
        ("abc", 0, ["ab", "c"]),
    ],
)
def test_a_text_as_lines(text: str, width: int, lines: list[str]):
    assert wrapped(text, width) == lines


@given(st.text(), st.integers(2, 60))
def test_no_line_is_too_wide_or_does_anything(text: str, width: int):
    for line in wrapped(text, width):
        assert line.isprintable()
        assert cell_len(line) <= width


@given(st.text("ab\n", max_size=200), st.integers(2, 60))
def test_nothing_is_lost(text: str, width: int):
    assert "".join(wrapped(text, width)) == text.replace("\n", "")


def test_a_text_longer_than_a_piece_has_no_line_broken_at_its_seams():
    text = "".join(f"line {number}\n" for number in range(10_000))
    assert wrapped(text, 40) == text.splitlines()


@pytest.mark.parametrize(
    "line", ["x" * 20_000_000, "line\n" * 4_000_000, "\x00" * 20_000_000, "漢" * 20_000_000]
)
def test_the_beginning_of_a_huge_text_is_there_at_once(line: str):
    text = Wrapped(line, 80)
    began = time.process_time()
    text.reach(300)
    assert time.process_time() - began < 1
    assert len(text.lines) >= 300
    assert not text.complete
