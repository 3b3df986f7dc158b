"""One text for equal values, and the text that JavaScript would write."""

import json
import shutil
import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prunewise.canonical import canonical

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        pytest.param(
            {"b": 1, "a": {"d": 2, "c": 3}}, '{"a":{"c":3,"d":2},"b":1}', id="keys are sorted at every depth"
        ),
        pytest.param(
            [{"b": 1.5, "a": []}, {}], '[{"a":[],"b":1.5},{}]', id="keys are sorted within lists too"
        ),
        pytest.param("é😀\u2028", '"é😀\u2028"', id="characters beyond ASCII stand as they are"),
        pytest.param(
            '"\\/\b\f\n\r\t\x01\x7f', '"\\"\\\\/\\b\\f\\n\\r\\t\\u0001\x7f"', id="escapes are JavaScript's"
        ),
        pytest.param("a\ud800b", '"a\\ud800b"', id="a lone surrogate is a six-character escape"),
        pytest.param("\ud83d\ude00", '"😀"', id="two surrogates that make a pair are one character"),
        pytest.param(
            {"\udfff": 1, "a": 2.5}, '{"a":2.5,"\\udfff":1}', id="a lone surrogate in a key is escaped"
        ),
        pytest.param(1.0, "1", id="a whole double has no point"),
        pytest.param(-0.0, "0", id="negative zero is zero"),
        pytest.param(1e21, "1e+21", id="from 1e21 on there is an exponent with its sign"),
        pytest.param(123456789012345680000.0, "123456789012345680000", id="below 1e21 there is none"),
        pytest.param(1.5e300, "1.5e+300", id="digits stand before the exponent"),
        pytest.param(0.000001, "0.000001", id="six decimals are written out"),
        pytest.param(0.0000001, "1e-7", id="seven are not"),
        pytest.param(2**53, "9007199254740992", id="integers up to 2**53 are exact"),
        pytest.param(2**53 + 1, "9007199254740992", id="larger ones are the double they are read as"),
        pytest.param(-(10**25), "-1e+25", id="and are written as doubles"),
        pytest.param(10**400, "null", id="an integer that no double reaches is null"),
        pytest.param(float("inf"), "null", id="infinity is null"),
        pytest.param(float("nan"), "null", id="not a number is null"),
        pytest.param([True, False, None], "[true,false,null]", id="constants"),
        pytest.param({1: (2, 3.5)}, '{"1":[2,3.5]}', id="keys become text and tuples lists"),
        pytest.param(3j, '"3j"', id="what JSON does not have is its text"),
    ],
)
def test_canonical_text(value: object, text: str):
    assert canonical(value) == text


@given(json_values)
def test_it_reads_back_as_the_same_text(value: object):
    assert canonical(json.loads(canonical(value))) == canonical(value)


@given(st.dictionaries(st.text(), json_values))
def test_the_order_of_keys_does_not_matter(value: dict[str, object]):
    assert canonical(dict(reversed(value.items()))) == canonical(value)


def test_nesting_of_any_depth_is_written():
    deep: object = 0
    for _ in range(50_000):
        deep = [deep]
    assert canonical(deep) == "[" * 50_000 + "0" + "]" * 50_000


@pytest.mark.skipif(shutil.which("node") is None, reason="needs node")
@settings(max_examples=25)
@given(
    st.lists(
        st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(2**70), 2**70) | st.text(),
        min_size=50,
    )
)
def test_scalars_agree_with_json_stringify(values: list[float | str]):
    script = "process.stdout.write(JSON.stringify(JSON.parse(require('fs').readFileSync(0,'utf8'))))"
    node = subprocess.run(
        ["node", "-e", script], input=json.dumps(values).encode(), capture_output=True, check=True
    )
    assert canonical(values) == node.stdout.decode()
