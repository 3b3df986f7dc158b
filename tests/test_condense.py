"""What stays of an output."""

import pytest

from prunewise import condense


def test_short_texts_stay():
    assert condense.ends("a\nb\r\nc", 2) == (["a", "b", "c"], 0)


def test_the_ends_stay_and_lines_of_trouble():
    text = "\n".join([f"line {n}" for n in range(10)] + ["Error: it broke"] + ["x"] * 10)
    kept, left = condense.ends(text, 2, 5)
    assert kept == [
        "line 0",
        "line 1",
        "[8 lines left out]",
        "Error: it broke",
        "[8 lines left out]",
        "x",
        "x",
    ]
    assert left == 16


def test_long_lines_are_cut():
    assert len(condense.short("x" * 500)) == condense.WIDTH


def test_names():
    text = "see src/lib/main.py: parseHeader(foo_bar, plain) 1234567 deadbeef00aa\\nMAX_SIZE HELLO word42x."
    assert list(condense.names(text)) == [
        "lib/main.py",
        "parseHeader",
        "foo_bar",
        "1234567",
        "deadbee",
        "MAX_SIZE",
        "word42x",
    ]


def test_an_index_holds_so_many_tokens():
    text = "foo_bar one_two three_four"
    assert condense.index(text, 100) == "foo_bar one_two three_four"
    assert condense.index(text, 4) == "foo_bar one_two"
    assert condense.index(text, 100, {"one_two"}) == "foo_bar three_four"


def test_a_name_is_shown_once_and_short_words_are_none():
    assert list(condense.names("foo_bar fooBar foo_bar see/foo_bar a/b plain")) == ["foo_bar", "fooBar"]


def test_no_line_is_said_to_be_left_out_where_none_is():
    text = "\n".join(["a", "Error: one", "Error: two", "z"])
    assert condense.ends(text, 1, 5) == (["a", "Error: one", "Error: two", "z"], 0)


def test_lines_of_trouble_stay_once_and_while_there_is_room():
    text = "fine\n  Error: one\nError: one\r\n2 tests failed\nwarning: three"
    assert condense.trouble(text, 100) == ["Error: one", "2 tests failed", "warning: three"]
    assert condense.trouble(text, 7) == ["Error: one", "2 tests failed"]
    assert condense.trouble("all is well", 100) == []


@pytest.mark.parametrize(
    ("printed", "files"),
    [
        ("a/b/c.py:1:x\na/b/c.py:7:y\nd.py:2:z", {"b/c.py": 2, "d.py": 1}),  # grep -n, rg -n
        ("a/b.py:x = 1\na/b.py: y", {"a/b.py": 2}),  # grep
        ("HEAD:a/b.py:3:x\norigin/main:a/b.py:4:x", {"a/b.py": 2}),  # git grep
        ("a/b.py:12\nc.py:3", {"a/b.py": 12, "c.py": 3}),  # grep -c
        ("a/b.py\n3:x\n9:y\n\nc/d.py\n1:z", {"a/b.py": 2, "c/d.py": 1}),  # rg --heading
        ("File: a/b.py\nL3: x\nFile: c.py\nL1: y", {"a/b.py": 1, "c.py": 1}),
        ("Found 2\n/p/a/b.py:\n  Line 3: x\n  Line 9: y", {"a/b.py": 2}),
        ("a/b.py\nc/d.py\r\n", {"a/b.py": 0, "c/d.py": 0}),  # grep -l
        ("a/b.py-1-return\na/b.py:2:x\n--\na/b.py-3-}", {"a/b.py": 1}),  # grep -C
        ("a/b.py\nc/d.py:2:x", {"c/d.py": 1}),  # a line that only looks like a file
        ("139:async function run(\n169:function stop()", {}),  # of one file, which is not named
        ("rg: no/such: No such file (os error 2)\nhttps://example.org/a", {}),
    ],
)
def test_the_files_that_a_search_found(printed: str, files: dict[str, int]):
    assert condense.hits(printed) == files


def test_files_are_counted_while_there_is_room():
    printed = "a/b.py:1:x\nc.py:1:x\nc.py:2:x\nlong/name/of_a_file.py:3:x"
    assert condense.counted(printed, 100) == "c.py 2, a/b.py 1, name/of_a_file.py 1"
    assert condense.counted(printed, 5) == "c.py 2, a/b.py 1"
    assert condense.counted("a/b.py\nc.py", 100) == "a/b.py, c.py"


def test_a_long_line_is_looked_at_in_its_beginning():
    assert condense.hits("a/" * 200_000 + "b.py:1:x") == {}
