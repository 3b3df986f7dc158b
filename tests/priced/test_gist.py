"""What a marker says beside the names in an output, by the output's sort."""

import pytest

from prunewise import condense
from prunewise.priced.gist import gist, with_names

FOUND = "a/b.py:1:some_name\na/b.py:7:failed\nd/e.py:2:z"
LOG = "collected 3 items\nFAILED test_this_one\n2 passed"


@pytest.mark.parametrize(
    ("text", "sort", "expected"),
    [
        (FOUND, "search", "lines found in each file: a/b.py 2, d/e.py 1"),
        ("139:async function run(", "search", ""),  # of one file, which is not named
        (LOG, "test", "lines that tell of trouble:\nFAILED test_this_one"),
        (LOG, "follow", "lines that tell of trouble:\nFAILED test_this_one"),
        (LOG, "other", "lines that tell of trouble:\nFAILED test_this_one"),
        ("all is well", "test", ""),
        (LOG, "read", ""),
        (LOG, "git", ""),
    ],
)
def test_what_tells_most(text: str, sort: str, expected: str):
    assert gist(text, sort, 100) == expected


def test_names_follow_that_are_not_said_already():
    told, index = with_names(FOUND, "search", 100)
    assert told == "lines found in each file: a/b.py 2, d/e.py 1"
    assert index == "some_name"


@pytest.mark.parametrize("sort", ["search", "test", "read"])
@pytest.mark.parametrize("tokens", [0, 20, 60, 200])
def test_both_together_take_no_more_room(sort: str, tokens: int):
    text = "".join(f"src/lib/file{n}.py:{n}:error in some_name_{n}\n" for n in range(200))
    told, index = with_names(text, sort, tokens)
    heading = len("lines that tell of trouble:")
    assert len(told) <= tokens * condense.CHARACTERS_PER_TOKEN / 2 + heading
    assert len(index) <= max(0, tokens * condense.CHARACTERS_PER_TOKEN - len(told))
