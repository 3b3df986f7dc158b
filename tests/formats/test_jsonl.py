"""The rules of files of one object a line: what is a line, and what is got out of a broken one."""

import json
from typing import Any

import pytest

from prunewise.formats.jsonl import Lines, as_object, opening, stem, timestamp

A, B = b'{"id":"a","text":"x"}', b'{"id":"b","text":"y"}'


def read(data: bytes) -> tuple[list[tuple[int, Any]], list[str]]:
    lines = Lines("s.jsonl", data, lambda record: "id" in record)
    return [(number, record.get("id")) for number, record in lines], lines.warnings


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        pytest.param(b"", [], id="no bytes, no lines"),
        pytest.param(A + b"\n" + B + b"\n", [(1, "a"), (2, "b")], id="a line each"),
        pytest.param(A + b"\n" + B, [(1, "a"), (2, "b")], id="the last line needs no line feed"),
        pytest.param(b"\xef\xbb\xbf" + A + b"\r\n" + B + b"\r\n", [(1, "a"), (2, "b")], id="BOM and CRLF"),
        pytest.param(
            A + b"\n\n \t\r\n" + B, [(1, "a"), (4, "b")], id="blank lines count, and are nothing else"
        ),
        pytest.param(
            '{"id":"a\u2028\u0085\x0b","text":"\u2029"}'.encode().replace(b"\x0b", b"\\u000b") + b"\n",
            [(1, "a\u2028\u0085\x0b")],
            id="only a line feed ends a line",
        ),
        pytest.param(b'{"id":"\\ud800"}\n', [(1, "\ud800")], id="a lone surrogate"),
        pytest.param(b'{"id":"\xff"}\n', [(1, "\ufffd")], id="bytes that are no UTF-8"),
    ],
)
def test_lines_without_a_fault(data: bytes, expected: list[tuple[int, str]]) -> None:
    assert read(data) == (expected, [])


@pytest.mark.parametrize(
    ("data", "expected", "said"),
    [
        pytest.param(A + B + b"\n", [(1, "a"), (1, "b")], "2 entries on one line", id="two glued together"),
        pytest.param(
            b'{"id":"}{\\"","text":"}{"}' + B,
            [(1, '}{"'), (1, "b")],
            "2 entries",
            id="braces in strings are text",
        ),
        pytest.param(
            A[:-4] + B + b"\n", [(1, "b")], "only the complete one read", id="a torn one before a whole one"
        ),
        pytest.param(A + b"\n" + B[:-4], [(1, "a")], ":2: not JSON", id="a torn last line"),
        pytest.param(
            A + b"\n" + b"\0" * 400 + b"\n" + B, [(1, "a"), (3, "b")], ":2: 400 NUL", id="a run of NULs"
        ),
        pytest.param(b"\0" * 7 + A, [(1, "a")], "7 NUL bytes around", id="NULs before an object"),
        pytest.param(
            b'{"id":"a\tb"}', [(1, "a\tb")], "control characters", id="a control character as it is"
        ),
        pytest.param(
            b'{"id":"a\\user@example.com \\n"}',
            [(1, "a\\user@example.com \n")],
            "backslash",
            id="a broken escape",
        ),
        pytest.param(
            b'{"id":"a\\q"}' + B, [(1, "a\\q"), (1, "b")], "backslash", id="broken escape, glued line"
        ),
        pytest.param(b'{"id":"a\\q\n' + B, [(2, "b")], ":1: not JSON", id="broken escape, torn line"),
        pytest.param(b'{"id":"a"}\n42\n"x"\n[1]', [(1, "a")], ":4: no JSON object", id="what is no object"),
        pytest.param(
            b'{"id":' + b"[" * 5000 + b"]" * 5000 + b"}\n" + B, [(2, "b")], ":1: ", id="nested too deeply"
        ),
    ],
)
def test_lines_with_a_fault_are_told(data: bytes, expected: list[tuple[int, str]], said: str) -> None:
    found, warnings = read(data)
    assert found == expected
    assert any(said in warning for warning in warnings)
    assert all(warning.startswith("s.jsonl:") for warning in warnings)


def test_a_line_of_several_megabytes_is_read() -> None:
    data = json.dumps({"id": "a", "text": "x" * 3_000_000}).encode()
    assert read(data + b"\n" + B) == ([(1, "a"), (2, "b")], [])


def test_a_torn_line_of_several_megabytes_costs_no_more_than_reading_it() -> None:
    data = json.dumps({"id": "a", "text": '{"' * 500_000}).encode()[:-2]
    assert read(data + b"\n" + B)[0] == [(2, "b")]


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        pytest.param(A + b"\n" + B[:5], [{"id": "a", "text": "x"}], id="what is cut off is left out"),
        pytest.param(
            b'\xef\xbb\xbf{"a": null, "b":"x\\"y","n":-1.5e3, "m" : {"deep": "and cut o',
            [{"a": None, "b": 'x"y', "n": -1500.0, "m": {}}],
            id="of a first line cut off, the fields",
        ),
        pytest.param(b'{"a":"cut o', [{"a": {}}], id="a first field cut off"),
        pytest.param(b'{"a":01,"b":', [{"a": None, "b": {}}], id="a number that is none"),
        pytest.param(b"nothing", [], id="no JSON"),
        pytest.param(b"[1]\n", [], id="no object"),
    ],
)
def test_opening(head: bytes, expected: list[dict[str, Any]]) -> None:
    assert opening(head) == expected


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("2026-01-02T03:04:05.250Z", 1767323045.25),
        ("2026-01-02T04:04:05.250+01:00", 1767323045.25),
        ("2026-01-02T03:04:05.250", 1767323045.25),
        (1767323045250, 1767323045.25),
        (1767323045, 1767323045.0),
        ("yesterday", None),
        (float("nan"), None),
        (float("inf"), None),
        (10**400, None),
        (-1, None),
        (True, None),
        (None, None),
        ({}, None),
    ],
)
def test_timestamps(value: object, seconds: float | None) -> None:
    assert timestamp(value) == seconds


def test_small_things() -> None:
    assert stem("/a/b/session.one.jsonl") == "session.one"
    assert stem("") == ""
    assert as_object({"a": 1}) == {"a": 1}
    assert as_object([1]) == {}
