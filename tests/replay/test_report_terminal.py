"""The summary: plain off a terminal, no line too long, and what hurts is said."""

import io
import re
from typing import Any

import pytest
from rich.console import Console
from rich.text import Text
from tests.replay.rows import candidate, figures, pair, rich_rows, session

from prunewise import wording
from prunewise.replay.report import terminal, words
from prunewise.replay.report.share import anonymous
from prunewise.replay.report.terminal import render
from prunewise.replay.results import Detected, ErrorRow, Missed, Row
from prunewise.replay.totals import gather


def written(rows: list[Row], *, width: int = 80, terminal: bool = False, details: bool = True) -> str:
    out = io.StringIO()
    console = Console(
        file=out, width=width, force_terminal=terminal, color_system="truecolor" if terminal else None
    )
    render(gather(rows), console, details=details)
    return out.getvalue()


def screen(rows: list[Row], **given: Any) -> str:
    """The first screen, on one line."""
    return " ".join(written(rows, details=False, **given).split())


def test_off_a_terminal_it_is_plain_and_fits_80_columns():
    text = written([*rich_rows(sessions=14)])
    assert "\x1b" not in text
    assert all(line == line.rstrip() for line in text.splitlines())
    assert [line for line in text.splitlines() if len(line) > 80 and ".jsonl" not in line] == []
    assert "\u2026" not in text, "nothing had to be cut off"


def test_on_a_terminal_there_are_colours():
    assert "\x1b[" in written([*rich_rows()], terminal=True)


def test_everything_is_there_in_the_details():
    text = " ".join(written([*rich_rows(sessions=14), ErrorRow("bad", "unreadable")]).split())
    assert "14 sessions counted, 420 LLM calls" in text
    for piece in (
        "Left out: 1 file could not be replayed",
        "The readers gave 14 warnings.",
        "against no pruning",
        "Information loss",
        "The documented harness",
        "p50 10, p90 10",
        'Sessions that "documented" makes dearer',
        "/home/user/sessions/00.jsonl",
        "old-line: key",
        "Verdict: On these 14 sessions documented would have cost",
        "Better, and by more than chance would explain: settings.json",
    ):
        assert piece in text, piece
        assert piece not in screen([*rich_rows(sessions=14)]), piece


# ------------------------------------------------------------------ the first screen


def many(
    name: str,
    change: float,
    *,
    likely: float | None = None,
    acted: int = 20,
    dollars: float | None = 2.0,
    format: str = "pi",
    sessions: int = 20,
) -> list[Row]:
    """Sessions of which a policy changes so many, by about so much; a session costs two dollars."""
    rows: list[Row] = []
    for n in range(sessions):
        part = change * (1 + n % 3 / 10) if n < acted else 0.0
        cost, found = 100 * (1 + part), 100 * (1 + (part if likely is None or not part else likely))
        paid = None if dollars is None else dollars * (1 + part)
        seen = None if dollars is None else dollars * found / 100
        rows.append(
            session(
                f"{format}-{n:02}",
                figures("none", 100, dollars=dollars),
                figures(
                    name,
                    cost,
                    dollars=paid,
                    removed=100 if part else 0,
                    missed=Missed(4, 100, 1, 1) if part else Missed(),
                    detected=Detected(found, found, 0.0, 0, Missed(), seen),
                ),
                format=format,
            )
        )
    return rows


def test_the_answer_is_ten_lines_of_80_columns():
    text = written(many("priced", -0.2, likely=-0.3), details=False)
    answer = text.split("\n\n")[0].splitlines()
    assert len(answer) <= 10
    assert all(len(line) <= 80 for line in text.splitlines())
    assert answer[0] == "20 sessions counted, 600 LLM calls: their input cost $40.00 at list prices."
    assert answer[2].split()[:2] == ["priced", "$8.76"]
    assert " ".join(answer[3:]) == (
        "Best: priced, which would have saved $8.76 to $12.00: the lower figure counts everything that may "
        "have been needed again. None of the 20 sessions would have cost more. "
        "Switch it on in pi: prunewise pi install --policy priced --no-masking"
    )


NOTHING = "No policy pays for certain on these sessions: leave pruning off."


@pytest.mark.parametrize(
    ("rows", "said", "unsaid"),
    [
        # What saves for certain is recommended.
        (many("priced", -0.2), ["Best: priced", "pi install --policy priced"], [NOTHING]),
        (many("both", -0.2), ["Best: documented + masking", "--policy documented --masking"], [NOTHING]),
        (many("two-level", -0.2), ["Best: masking", "--policy none --masking"], [NOTHING]),
        (many("priced", -0.2, dollars=None), ["Best: priced", "would have saved 21.9%"], ["$", NOTHING]),
        # What loses, changes nothing, changes few sessions, or may be chance is not.
        (many("priced", 0.2), [NOTHING, "-21.9%", "24.0% more"], ["Best:", "Closest:", "pi install"]),
        (many("priced", 0.0), [NOTHING], ["Best:", "Closest:", "pi install"]),
        (many("priced", -0.2, acted=9), [NOTHING, "Only 9 sessions changed."], ["Best:", "pi install"]),
        (
            [
                *many("priced", -0.2, sessions=10),
                *many("priced", 0.25, format="x", sessions=10),
            ],
            [NOTHING],
            ["Best:"],
        ),
        (
            many("priced", -0.2, sessions=9),
            ["Too few to tell what pays: 9 sessions"],
            ["Best:", "pi install"],
        ),
        # The detector alone recommends nothing: the lower figure counts.
        (many("priced", 0.1, likely=-0.3), [NOTHING, "-11.0%"], ["Best:", "pi install"]),
        # Where it finds more than the upper bound, the lower figure stands alone.
        (many("priced", -0.2, likely=-0.1), ["would have saved $8.76. None"], ["the lower figure"]),
        # Rules of other programs, and what is known afterwards only, can't be switched on.
        (many("langchain", -0.2), ["input cost $40.00"], ["Best:", "pi install"]),
        (many("optimal", -0.2), ["input cost $40.00"], ["Best:", "pi install"]),
        # Clients.
        (
            many("priced", -0.2, format="claude-code"),
            ["Best: priced", "In Claude Code pruning is not available yet."],
            ["pi install"],
        ),
        (
            [*many("priced", -0.2), *many("priced", 0.01, format="codex")],
            [
                "In pi (20 sessions) the best is priced, which saves 21.9%.",
                "Switch it on in pi:",
                "In Codex pruning is not available yet.",
            ],
            [],
        ),
        (
            [*many("priced", 0.01), *many("priced", -0.2, format="codex")],
            ["Best: priced", "In pi nothing pays for certain (20 sessions)."],
            ["pi install"],
        ),
        (
            [*many("priced", -0.2, sessions=3), *many("priced", -0.2, format="codex")],
            ["Best: priced", "In pi nothing pays for certain (fewer than 10 sessions)."],
            ["pi install"],
        ),
        (
            [
                row
                for client in ("codex", "copilot", "opencode", "gemini-cli", "swe-agent", "anthropic")
                for row in many("priced", -0.2, format=client, sessions=4)
            ],
            ["In Codex, Copilot CLI, Gemini CLI and 2 others pruning is not available yet."],
            ["pi install", "anthropic"],
        ),
        # Settings of one's own.
        (many("your settings", -0.2), ["pi's settings on this machine are these already."], ["pi install"]),
        (many("own.json", -0.2), ["put own.json into pi's settings files."], ["pi install"]),
    ],
)
def test_what_is_recommended(rows: list[Row], said: list[str], unsaid: list[str]):
    text = screen(rows)
    for piece in said:
        assert piece in text, text
    for piece in unsaid:
        assert piece not in text, text


def test_dollars_that_may_be_lost_are_not_recommended_whatever_the_tokens_say():
    # The few dear sessions lose, the many others gain.
    cheap = many("priced", -0.2, dollars=None, sessions=40)
    dear = [
        session(
            f"z{n}",
            figures("none", 10, dollars=9.0),
            figures("priced", 11, dollars=9.9, removed=5, missed=Missed(1, 5, 1, 1)),
        )
        for n in range(12)
    ]
    assert "-$10.80" in screen([*cheap, *dear])
    assert NOTHING in screen([*cheap, *dear])
    assert "Best: priced" in screen(cheap)


def test_where_losses_were_not_looked_for_nothing_is_recommended():
    rows: list[Row] = [
        session(f"{n:02}", figures("none", 100), figures("priced", 80 + n % 3, removed=5)) for n in range(20)
    ]
    text = screen(rows)
    assert "was not looked for, so nothing is recommended" in text
    assert "These figures are too good" in text
    assert "pi install" not in text
    assert "Information loss was not looked for" in written(rows)


def test_one_session_that_outweighs_all_and_what_is_left_out_are_said():
    rows = [*many("priced", -0.2), session("x", figures("none", 9e4), figures("priced", 8e4, removed=1))]
    rows.append(ErrorRow("bad", "unreadable"))
    assert "One session makes up 97.8% of all costs." in screen(rows)
    assert "Left out: 1 file or session; --details says why." in screen(rows)


HARD_WORDS = (
    r"\b(both|two-level|suffix|own|regret|page-?faults?|lanes?|epochs?|harness|optimum|optimal|net|gross|p5|p1|"
    r"ruler|upper bound|detector|recalls?|blocks?)\b"
)


@pytest.mark.parametrize("policy", ["documented", "two-level", "both", "priced", "langchain"])
def test_a_newcomer_has_no_word_to_look_up(policy: str):
    text = screen([*many(policy, -0.2, likely=-0.3), *many(policy, 0.1, format="codex")])
    assert re.findall(HARD_WORDS, text.lower()) == []
    assert re.findall(HARD_WORDS, written([*rich_rows()]).lower()), "the test can fail"


@pytest.mark.parametrize("width", [200, 80, 60, 40])
def test_where_there_is_no_room_columns_go_and_no_cell_is_cut(width: int):
    text = written(many("both", -0.2, likely=-0.3), width=width, details=False)
    assert "\u2026" not in text
    assert "documented + masking" in text
    assert ("worst" in text) is (width >= 80)


@pytest.mark.parametrize(
    ("dollars", "text"),
    [
        (0, "$0.00"),
        (1234.5, "$1,234"),
        (-999.6, "-$1,000"),
        (12.3, "$12.30"),
        (-0.5, "-$0.50"),
        (0.0045, "$0.0045"),
        (-0.000001, "$0.0000"),
    ],
)
def test_amounts(dollars: float, text: str):
    assert words.money(dollars) == text


def test_a_loss_is_as_prominent_as_a_gain():
    gains = written([pair(f"{n:02}", 100, 80 + n % 3) for n in range(20)])
    loses = written([pair(f"{n:02}", 100, 120 + n % 3) for n in range(20)])
    assert "Verdict: On these 20 sessions documented would have cost 19.1% less" in gains
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
    assert "odd" not in screen(LEFT_OUT)
    assert "Left out: 4 files and sessions; --details says why." in screen(LEFT_OUT)
    assert "1 session without an answered LLM call" in text


def test_each_session_that_was_left_out_and_each_warning_is_listed_in_the_details():
    shown = [part for part in terminal.parts(gather(LEFT_OUT), details=True) if isinstance(part, Text)]
    lines = [part.plain for part in shown if part.no_wrap]
    assert lines == [
        "e: could not be replayed: empty",
        "c: off from recorded usage by 50.0%",
        "a: copies alone",
        "d: no answered LLM call",
        r"d:3: odd\x1b[2J, left out",
        "d:4: torn",
    ]
    shared = list(terminal.parts(anonymous(gather(LEFT_OUT)), details=True))
    assert not [part for part in shared if isinstance(part, Text) and part.no_wrap]


def test_loss_that_was_not_looked_for_is_no_loss_of_zero():
    rows: list[Row] = [session("a", figures("none", 100), figures("documented", 90, removed=5))]
    text = written(rows)
    assert "Information loss was not looked for" in text
    assert "recalls;" not in text
    assert "Recalls: removed blocks" not in text


@pytest.mark.parametrize("rows", [[], [ErrorRow("a", "unreadable")], [pair("a", 1, 1, excluded=True)]])
def test_there_is_a_summary_where_nothing_counts(rows: list[Row]):
    text = written(rows)
    assert text.startswith("No session could be counted.\n")
    assert "0 sessions counted" in text
    assert "Verdict: No session could be counted: there is nothing to say." in text


def test_control_characters_do_not_reach_the_terminal():
    row = pair("a\x1b[31m\n.jsonl", 100, 120, 1, candidates=(candidate(),))
    assert "\x1b" not in written([row])
    assert wording.one_line("a\x1b\n") == "a\\x1b\\n"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "-"),
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
