"""The summary: plain off a terminal, no line too long, and what hurts is said."""

import io

import pytest
from rich.console import Console
from rich.text import Text
from tests.replay.rows import candidate, figures, pair, rich_rows, session

from prunewise.replay.report import terminal, words
from prunewise.replay.report.terminal import render
from prunewise.replay.results import ErrorRow, Row
from prunewise.replay.totals import gather


def written(rows: list[Row], *, width: int = 80, terminal: bool = False) -> str:
    out = io.StringIO()
    render(
        gather(rows),
        Console(
            file=out, width=width, force_terminal=terminal, color_system="truecolor" if terminal else None
        ),
    )
    return out.getvalue()


def test_off_a_terminal_it_is_plain_and_fits_80_columns():
    text = written([*rich_rows(sessions=14)])
    assert "\x1b" not in text
    assert all(line == line.rstrip() for line in text.splitlines())
    assert [line for line in text.splitlines() if len(line) > 80 and ".jsonl" not in line] == []
    assert "\u2026" not in text, "nothing had to be cut off"


def test_on_a_terminal_there_are_colours():
    assert "\x1b[" in written([*rich_rows()], terminal=True)


def test_everything_is_there():
    text = written([*rich_rows(sessions=14), ErrorRow("bad", "unreadable")])
    for piece in (
        "14 sessions counted, 420 LLM calls",
        "Left out: 1 file could not be replayed",
        "The readers gave 14 warnings.",
        "against no pruning",
        "Information loss",
        "The documented harness",
        "p50 10, p90 10",
        'Sessions that "documented" makes dearer',
        "/home/user/sessions/00.jsonl",
        "old-line: key",
        'Verdict: On these 14 sessions "documented" would have cost',
        'Better, and by more than chance would explain: "settings.json"',
    ):
        assert piece in " ".join(text.split()), piece


def test_a_loss_is_as_prominent_as_a_gain():
    gains = written([pair(f"{n:02}", 100, 80 + n % 3) for n in range(20)])
    loses = written([pair(f"{n:02}", 100, 120 + n % 3) for n in range(20)])
    assert 'Verdict: On these 20 sessions "documented" would have cost 19.1% less' in gains
    assert "it loses: the" in " ".join(loses.split())
    assert "Better, and by more than chance would explain: no pruning." in " ".join(loses.split())


LEFT_OUT = [
    pair("a", 0, 0, llm_calls=0, copied=30),
    pair("b", 1, 1, aside=7),
    pair("c", 1, 1, excluded=True, baseline_error=0.5),
    pair("d", 0, 0, baseline_error=None, warnings=("d:3: odd\x1b[2J, left out", "d:4: torn")),
    ErrorRow("e", "empty"),
]


def test_what_was_left_out_is_said_with_the_reason():
    text = " ".join(written(LEFT_OUT).split())
    assert "1 session whose simulated bill is off from recorded usage by more than 25%" in text
    assert "1 session of copies alone" in text
    assert "30 LLM calls copied from other sessions, where they count" in text
    assert "7 LLM calls on branches that were left" in text
    assert "odd" not in text
    assert "1 session without an answered LLM call" in text


def test_each_session_that_was_left_out_and_each_warning_is_listed_when_asked():
    shown = [part for part in terminal.parts(gather(LEFT_OUT), verbose=True) if isinstance(part, Text)]
    lines = [part.plain for part in shown if part.no_wrap]
    assert lines == [
        "e: could not be replayed: empty",
        "c: off from recorded usage by 50.0%",
        "a: copies alone",
        "d: no answered LLM call",
        r"d:3: odd\x1b[2J, left out",
        "d:4: torn",
    ]


def test_loss_that_was_not_looked_for_is_no_loss_of_zero():
    rows: list[Row] = [session("a", figures("none", 100), figures("documented", 90, removed=5))]
    text = written(rows)
    assert "Information loss was not looked for" in text
    assert "recalls;" not in text
    assert "Recalls: removed blocks" not in text


@pytest.mark.parametrize("rows", [[], [ErrorRow("a", "unreadable")], [pair("a", 1, 1, excluded=True)]])
def test_there_is_a_summary_where_nothing_counts(rows: list[Row]):
    text = written(rows)
    assert "0 sessions counted" in text
    assert "Verdict: No session could be counted: there is nothing to say." in text


def test_control_characters_do_not_reach_the_terminal():
    row = pair("a\x1b[31m\n.jsonl", 100, 120, 1, candidates=(candidate(),))
    assert "\x1b" not in written([row])
    assert words.one_line("a\x1b\n") == "a\\x1b\\n"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "\u2013"),
        (0, "0"),
        (999, "999"),
        (9_995, "10.0k"),
        (12_345, "12.3k"),
        (999_600, "1.00M"),
        (-4_560_000, "-4.56M"),
    ],
)
def test_large_numbers_are_short(value: float | None, text: str):
    assert words.short(value) == text
