"""What stays of an output."""

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
