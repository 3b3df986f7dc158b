"""The rows of the picker: what they say, and which are shown in what order."""

import pytest
from tests.cli.picker.support import desk_of
from tests.cli.support import TEXT, Sample

from prunewise.cli.change import Change
from prunewise.cli.picker.rows import ORDERS, Group, Order, Row, grouped, matching, ordered, rows


@pytest.fixture
def listed(session: Sample) -> list[Row]:
    desk = desk_of(session.path)
    Change(desk, desk.picker.choose(["call_other"], [], None)).carry_out(force=False)
    desk = desk.again()
    Change(desk, desk.picker.choose(["call_make"], [], None)).carry_out(force=False)
    desk = desk.again()
    Change(desk, desk.picker.choose([], ["call_make"], None)).carry_out(force=False)
    return rows(desk.again())


def named(rows: list[Row]) -> list[str]:
    return [
        row.target[0].removeprefix("call_") + ("?" if row.target[1] == "tool_call_input" else "")
        for row in rows
    ]


def test_a_row_says_what_a_part_is_and_how_it_stands(listed: list[Row]):
    told = {
        name: (row.tool, row.what[:20], row.path, row.age, row.status, row.by)
        for name, row in zip(named(listed), listed, strict=True)
    }
    assert told == {
        "first": ("read", "a.py", "a.py", 4, "active", "dedupe"),
        "make": ("bash", "make all", "", 3, "restored", "manual"),
        "wrong?": ("bash", "input of: make all a", "", 2, "active", "error-purge"),
        "wrong": ("bash", "make all all all all", "", 2, "active", ""),
        "other": ("read", "lib/b.py", "lib/b.py", 1, "pruned", "manual"),
        "second": ("read", "a.py", "a.py", 0, "active", ""),
    }


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ("", ["first", "make", "wrong?", "wrong", "other", "second"]),
        ("read", ["first", "other", "second"]),
        ("READ a.py", ["first", "second"]),
        ("py read", ["first", "other", "second"]),
        ("pruned", ["other"]),
        ("dedupe", ["first"]),
        ("call_wr", ["wrong?", "wrong"]),
        ("input", ["wrong?"]),
        ("nothing like it", []),
    ],
)
def test_each_word_of_a_filter_has_to_stand_in_a_row(listed: list[Row], wanted: str, found: list[str]):
    assert named(matching(listed, wanted)) == found


@pytest.mark.parametrize(
    ("order", "sorted_so"),
    [
        ("age", ["second", "other", "wrong", "wrong?", "make", "first"]),
        ("tokens", ["make", "second", "first", "other", "wrong", "wrong?"]),
        ("tool", ["wrong", "wrong?", "make", "second", "other", "first"]),
        ("what", ["second", "first", "wrong?", "other", "make", "wrong"]),
        ("status", ["make", "other", "second", "wrong", "wrong?", "first"]),
        ("by", ["first", "wrong?", "other", "make", "second", "wrong"]),
    ],
)
def test_rows_are_sorted_by_each_column_the_newer_first_among_equals(
    listed: list[Row], order: Order, sorted_so: list[str]
):
    assert named(ordered(listed, order)) == sorted_so


@pytest.mark.parametrize("order", ORDERS)
def test_turned_round_the_last_come_first(listed: list[Row], order: Order):
    key_of = {row.target: index for index, row in enumerate(ordered(listed, order))}
    turned = ordered(listed, order, turned=True)
    assert sorted(row.target for row in turned) == sorted(row.target for row in listed)
    assert key_of[turned[0].target] >= key_of[turned[-1].target]


def test_groups_stand_under_heads_the_largest_first(listed: list[Row]):
    lines = grouped(ordered(listed, "age"), "path")
    assert [line.name if isinstance(line, Group) else named([line])[0] for line in lines] == [
        "no path",
        "wrong",
        "wrong?",
        "make",
        "a.py",
        "second",
        "first",
        "lib/b.py",
        "other",
    ]
    head = lines[4]
    assert isinstance(head, Group)
    assert (len(head.targets), head.tokens, head.pruned) == (2, 1320, 0)
    other = lines[-2]
    assert isinstance(other, Group)
    assert other.pruned == 1


def test_a_folded_group_is_its_head(listed: list[Row]):
    lines = grouped(ordered(listed, "age"), "tool", frozenset({"bash"}))
    assert [line.name if isinstance(line, Group) else named([line])[0] for line in lines] == [
        "bash",
        "read",
        "second",
        "other",
        "first",
    ]
    assert isinstance(lines[0], Group)
    assert lines[0].folded


def test_without_grouping_rows_stay_as_they_are(listed: list[Row]):
    assert grouped(listed, "none") == listed


def test_text_of_a_session_stands_on_one_line_and_is_harmless(sample: Sample):
    sample.user()
    sample.call("call_evil", "r\x1bead", {"path": "a\n\x1b[2J.py"}, TEXT * 40)
    (row,) = rows(desk_of(sample.path))
    assert all(text.isprintable() for text in (row.tool, row.what, row.path, row.by))
