"""What is left out of an output as noise, and all that stays."""

import base64
import random
from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prunewise import condense
from prunewise.condense import KEPT_AT_END, without_noise

END = [f"closing remark {chr(97 + n)}" for n in range(KEPT_AT_END)]
RANDOM = random.Random(7)
BASE64 = base64.b64encode(RANDOM.randbytes(6000)).decode()
HEX = RANDOM.randbytes(3000).hex()

PROGRESS: dict[str, Callable[[int], str]] = {
    "ninja": lambda n: f"[{n}/900] Building CXX object lib/CMakeFiles/core.dir/part{n * 7 % 100}.cpp.o",
    "a compiler by number": lambda n: f"[{n}/400] compiling unit_{n}.c -O2 -Wall",
    "cmake": lambda n: f"[{n:3}%] Building C object src/CMakeFiles/a.dir/f{n}.c.o",
    "swift": lambda n: f"({n}/80) Compiling Swift source Sources/App/File{n}.swift",
    "pip": lambda n: f"   ━━━━━━━╸━━━━━ {n / 10:.1f}/10.0 MB 3.{n % 10} MB/s eta 0:00:0{n % 10}",
    "tqdm": lambda n: f" {n}%|█████     | {n}/100 [00:0{n % 10}<00:09,  9.9it/s]",
    "git": lambda n: f"remote: Counting objects: {n}% ({n}/100)",
    "git with speed": lambda n: f"Receiving objects: {n}% ({n}/100), {n}.20 MiB | 3.10 MiB/s",
    "wget": lambda n: f"  {n * 50}K .......... .......... .......... .......... {n}% 1.2M {99 - n}s",
    "curl": lambda n: f" {n}  123M  {n}  1.2M    0     0  3.1M      0  0:00:39  0:00:09  0:00:30 3.1M",
    "docker pull": lambda n: f"a1b2c3d4e5f6: Downloading [====>      ]  {n}.2MB/103.4MB",
    "buildkit": lambda n: f"#7 sha256:{'ab' * 32} {n}.05MB / 129.5MB {n / 10:.1f}s",
    "webpack": lambda n: f"<s> [webpack.Progress] {n}% building {n}/100 modules",
    "gradle": lambda n: f"<====------> {n}% EXECUTING [{n}s]",
    "apt": lambda n: f"(Reading database ... {n}%",
    "dots": lambda n: "." * 60 + f" [{n:3}%]",
    "bare dots": lambda _: "." * 60,
    "a download": lambda n: f"Downloading model.bin: {n} MB of 100 MB ({n}%)",
    "maven": lambda n: f"Progress (1): {n}/100 kB",
    "a copy": lambda n: f"Copying disk.img {n} MB",
    "coloured": lambda n: f"\x1b[32mDownloading\x1b[0m index.tgz {n}%",
}


def lines(form: Callable[[int], str], start: int = 1, stop: int = 60) -> list[str]:
    return [form(n) for n in range(start, stop)]


def left(rows: list[str]) -> list[str]:
    text = without_noise("\n".join(rows))
    return rows if text is None else text.split("\n")


@pytest.mark.parametrize("form", PROGRESS.values(), ids=PROGRESS.keys())
def test_of_progress_the_first_and_the_last_line_stay(form: Callable[[int], str]):
    rows = lines(form)
    note = f"[{len(rows) - 2} progress lines left out]"
    assert left(["start", *rows, *END]) == ["start", rows[0], note, rows[-1], *END]


FAILURES = [
    "ValueError: invalid literal for int() with base 10: 'x7'",
    "ModuleNotFoundError: No module named 'foo'",
    "Traceback (most recent call last):",
    "E   assert 3 == 4",
    "FAILED tests/test_a.py::test_b - assert 3 == 4",
    "1 failed, 12 passed in 0.3s",
    "not ok 7 - rounds the total down",
    "Bail out! no database",
    "  ✕ adds two numbers (5 ms)",
    "  ● adds two numbers",
    "  1) adds two numbers:",
    "--- FAIL: TestAdd (0.00s)",
    "FAIL\texample.org/pkg\t0.01s",
    "panic: runtime error: index out of range [3] with length 3",
    "goroutine 1 [running]:",
    "thread 'main' panicked at src/main.rs:4",
    "error[E0432]: unresolved import `foo`",
    "error: could not compile `foo` (lib) due to 1 previous error",
    "test sums::negative ... FAILED",
    "> Task :compileJava FAILED",
    "BUILD FAILED in 3s",
    "[ERROR] COMPILATION ERROR :",
    "java.lang.NullPointerException",
    "\tat com.example.Main.main(Main.java:5)",
    "Caused by: java.io.IOException: Stream closed",
    "TypeError: Cannot read properties of undefined (reading 'a')",
    "    at Object.<anonymous> (/srv/a.js:3:5)",
    "src/a.ts(3,5): error TS2322: Type 'string' is not assignable to type 'number'.",
    "  3:5  error  'x' is never used  no-unused-vars",
    "✖ 2 problems (2 errors, 0 warnings)",
    "3 errors, 0 warnings",
    "a.c:3:5: error: expected ';' before 'return'",
    "a.obj : fatal error LNK1120: 1 unresolved externals",
    "undefined reference to `main'",
    "collect2: error: ld returned 1 exit status",
    "npm ERR! code ELIFECYCLE",
    "npm error code E404",
    "ERROR: Could not find a version that satisfies the requirement foo",
    "failed to solve: process did not complete successfully: exit code: 1",
    "make: *** [Makefile:3: all] Error 2",
    "ninja: build stopped: subcommand failed.",
    "The following tests FAILED:",
    "Segmentation fault (core dumped)",
    "Killed",
    "Out of memory: Killed process 4711 (cc1plus)",
    "Bus error",
    "Aborted",
    "Terminated",
    "exit status 1",
    "timed out after 30s",
    "Permission denied (publickey)",
    "fatal: not a git repository",
    "CONFLICT (content): Merge conflict in a.py",
    "curl: (6) Could not resolve host: example.org",
    "bash: foo: command not found",
    "No space left on device",
    "Failure/Error: expect(sum).to eq(4)",
    "PHP Fatal error:  Uncaught Error: Call to undefined function f()",
    "FAILURES!",
    "Tests: 3, Assertions: 3, Failures: 1.",
    "  Failed Sums.Negative [3 ms]",
    "NoMethodError: undefined method `x' for nil:NilClass",
    "Fehler beim Übersetzen von unit_3.c",
    "la compilation a échoué",
    "fallo al compilar unit_3.c",
    "构建失败",
    "コンパイルに失敗しました",
    "ошибка сборки",
    "❌ deploy",
    "it broke, sorry",
    "[45/900] gave up on unit_45.c",
    "[45/900] Building CXX object a.cpp.o  # went wrong",
    "[45/900] compiling unit_45.c kaputt",
    "[45/900] FAILED: unit_45.o",
    "[45/900] compiling unit_45.c: see the log",
    "[45/900] Hashing unit_45.c",
    "Downloading model.bin: 45 MB of 100 MB (45%) - connection reset by peer",
    "Downloading model.bin: 45 MB of 100 MB (45%) again",
    "a1b2c3d4e5f6: Retrying in 3 seconds",
    " 45%|█████     | 45/100 [00:05<00:09,  9.9it/s, loss=nan]",
    "." * 30 + "F" + "." * 29 + " [ 45%]",
    "." * 30 + "s" + "." * 29 + " [ 45%]",
    "warning: unused variable",
    "W: GPG error: http://example.org stable InRelease",
    "remote: Counting objects: 45% (45/100) rejected",
    "   ━━━━━━━╸━━━━━ 4.5/10.0 MB incomplete",
]


@pytest.mark.parametrize("failure", FAILURES)
@pytest.mark.parametrize(
    "form", ["ninja", "a compiler by number", "a download", "dots", "tqdm", "docker pull"]
)
def test_what_may_tell_of_failure_stays_in_the_midst_of_progress(form: str, failure: str):
    before, after = lines(PROGRESS[form], 1, 40), lines(PROGRESS[form], 40, 80)
    found = left([*before, failure, *after, *END])
    assert failure in found
    assert len(found) < KEPT_AT_END + 8


@pytest.mark.parametrize(
    "line",
    [
        *["deploy unsuccessful", "service unavailable", "container unhealthy", "unmet dependency a@1"],
        *["insufficient memory", "limit exceeded", "too many open files", "throttled by the server"],
        *[
            "wrong password",
            "3 packets dropped",
            "node offline",
            "rolled back to v1",
            "giving up after 3 tries",
        ],
        *["ValueError: x", "stderr", "npm ERR! x", "E0432", "TS2322", "didn't start", "could not", "killed"],
        *[
            "Zeitüberschreitung: Fehler",
            "échec",
            "falló",
            "błąd",
            "ошибка",
            "失败",
            "エラー",
            "실패",
            "✖",
            "❌",
        ],
    ],
)
def test_a_line_tells_of_failure(line: str):
    assert condense.tells_of_failure(line)


@pytest.mark.parametrize("line", ["fine", "installing", "designed", "changes", "Building a.o", "100% done"])
def test_a_line_tells_of_none(line: str):
    assert not condense.tells_of_failure(line)


@pytest.mark.parametrize("failure", [one for one in FAILURES if not one.startswith(" ")])
@pytest.mark.parametrize("times", [1, 30])
def test_a_failure_stays_that_was_drawn_over(failure: str, times: int):
    drawn = "\r".join([*["Downloading 4%"] * times, failure, *[f"Downloading {n}%" for n in range(5, 60)]])
    if condense.tells_of_failure(failure):
        assert failure in "\n".join(left([drawn, *END]))


def test_a_failure_that_repeats_stays_once_with_its_count():
    assert left([*["error: no route"] * 9, *END]) == [
        "error: no route",
        "[the line above repeats 8 times more]",
        *END,
    ]


STAYS = {
    "code": [f"def method_{n}(self):\n    return self.values[{n}] * 100 / 7" for n in range(40)],
    "numbered code": [f"{n:6}\treturn {n}" for n in range(1, 90)],
    "search hits": [f"src/a{n}.py:{n}:    loading = {n} / 100" for n in range(90)],
    "a list with numbers": [f"[{n}/90] user{n} alice{n}" for n in range(90)],
    "packages": [f"Compiling serde{n} v1.0.{n}" for n in range(90)],
    "numbered packages": [f"[{n}/90] Installing left-pad{n}" for n in range(90)],
    "downloads of files": [f"Downloading pkg{n}-1.2.tar.gz (1.2 MB)" for n in range(90)],
    "tests": [f"tests/test_a.py::test_{n} PASSED [{n:3}%]" for n in range(90)],
    "tests by file": [f"tests/test_{n}.py .......... [{n:3}%]" for n in range(90)],
    "percentages": [f"{n}%" for n in range(90)],
    "measurements": [f"cpu: {n}%" for n in range(90)],
    "sizes": [f"{n}M\t./folder{n}" for n in range(90)],
    "a table": ["| a | b |", "|---|---|"] + [f"| {n} | {n}% |" for n in range(90)],
    "rules of tables": [row for n in range(40) for row in (f"| r{n} |", "|--------|")],
    "training": [f"Epoch 1: {n}/90 [====>    ] - ETA: 3s - loss: 0.{n}" for n in range(90)],
    "hashes": [RANDOM.randbytes(32).hex() for _ in range(90)],
    "shorter hashes": [RANDOM.randbytes(20).hex() for _ in range(150)],
    "keys": [base64.b64encode(RANDOM.randbytes(48)).decode() for _ in range(90)],
    "times": [f"{n}.25s call test_{n}" for n in range(90)],
    "a log": [f"12:00:{n % 60:02} GET /index.html 200" for n in range(90)],
    "one long line of words": ["word " * 5000],
    "one long word": ["x" * 9000],
    "a long path": ["/".join(["Some", "Folder12", "inSide"] * 400)],
    "long names": ["camelCaseName12" * 600],
    "a sequence": ["".join(RANDOM.choices("ACGT", k=9000))],
    "digits": ["".join(RANDOM.choices("0123456789", k=9000))],
    "a short key": [base64.b64encode(RANDOM.randbytes(2400)).decode()],
    "a certificate": ["-----BEGIN CERTIFICATE-----", *[BASE64[n : n + 64] for n in range(0, 1280, 64)]],
    "blank lines": [""] * 90,
    "braces": ["}"] * 30,
    "a few repeats": ["this line is to be seen more than once"] * 4,
    "a few repeated blocks": ["first line of the block", "and its second line, longer"] * 5,
    "lines that end as on old computers": ["\r".join(f"{n},{n + 1},name{n}" for n in range(90))],
    "lines that end as on Windows": [f"row {n}\r" for n in range(90)],
    "a log of old computers": ["\r".join(f"12:00:{n % 60:02} started" for n in range(90))],
    "two bars": [f"[====>  ] {n}% [=====> ] {n}%" for n in range(90)],
    "a bar alone": ["[====>  ]"] * 2,
    "too little progress": [f"Downloading a.bin: {n}%" for n in range(4)],
    "very long lines": [f"Downloading {'a' * 400} {n}%" for n in range(90)],
}


@pytest.mark.parametrize("run", ["\\n", "\\r\\n", "\\n\\n=="])
def test_a_run_of_line_ends_is_no_encoded_data(run: str):
    assert without_noise("\n".join(["text", run * 2500, *END])) is None


@pytest.mark.parametrize("rows", STAYS.values(), ids=STAYS.keys())
def test_what_is_no_noise_stays(rows: list[str]):
    assert without_noise("\n".join([*rows, *END])) is None


def test_the_end_stays():
    rows = lines(PROGRESS["ninja"])
    assert left(rows) == [rows[0], f"[{len(rows) - 22} progress lines left out]", *rows[-21:]]
    assert without_noise("\n".join(rows[:20])) is None
    same = ["waiting for the server"] * 90
    assert left(same) == [same[0], "[the line above repeats 69 times more]", *same[:20]]


def test_progress_that_begins_anew_is_counted_anew():
    rows = lines(PROGRESS["a download"], 1, 30)
    note = "[27 progress lines left out]"
    assert left([*rows, *rows, *END]) == [rows[0], note, rows[-1], rows[0], note, rows[-1], *END]


def test_units_are_understood():
    rows = [f"Downloading a.bin: {n} kB/4 MB" for n in range(100, 999, 50)]
    rows += [f"Downloading a.bin: {n}.5 MB/4 MB" for n in range(1, 4)]
    assert left([*rows, *END]) == [rows[0], f"[{len(rows) - 2} progress lines left out]", rows[-1], *END]


def test_one_line_is_counted_as_one():
    rows = lines(PROGRESS["a download"], 1, 6)
    found = left([rows[0], "x", rows[1], "y", rows[2], "z", *rows[3:], *END])
    note = "[1 progress line left out]"
    assert found == [rows[0], "x", note, "y", note, "z", note, rows[4], *END]


def test_repeated_blocks_are_counted():
    block = ["waiting for the server", "no answer yet", "  sleeping"]
    assert left(["a", *block * 30, "b", *END]) == [
        "a",
        *block,
        "[the 3 lines above repeat 29 times more]",
        "b",
        *END,
    ]


def test_a_line_that_comes_twice_in_a_block_is_no_shorter_block():
    block = ["tick", "tick", "and then the bell rings"]
    assert left([*block * 30, *END]) == [*block, "[the 3 lines above repeat 29 times more]", *END]


def test_lines_that_repeat_far_apart_stay():
    rows = [row for n in range(10) for row in ["the same line again", *[f"{n} {m}" for m in range(50)]]]
    assert without_noise("\n".join([*rows, *END])) is None


# ---- encoded data


@pytest.mark.parametrize(
    ("before", "data", "after"),
    [
        ('{"data": "', BASE64, '", "name": "a"}'),
        ("", BASE64, ""),
        ('<img src="data:image/png;base64,', BASE64, '">'),
        ("data:font/woff;base64,", "A" * 4000, ""),
        ('{"mappings":"', "AAAA,SAAS;" * 500, '"}'),
        ('{"mappings": "', "AAAA,SAAS;" * 500, '"}'),
        ("payload=", HEX, " end"),
        ("payload=", HEX.upper(), " end"),
        ('{"content": "', "\\n".join(BASE64[n : n + 60] for n in range(0, 6000, 60)), '"}'),
    ],
)
def test_encoded_data_within_a_line_is_left_out(before: str, data: str, after: str):
    note = f"[encoded data, {len(data):,} characters, left out]"
    assert without_noise(f"first\n{before}{data}{after}\nlast") == f"first\n{before}{note}{after}\nlast"


@pytest.mark.parametrize(("width", "head"), [(76, "text"), (60, "text"), (64, "-----BEGIN PRIVATE KEY-----")])
@pytest.mark.parametrize("size", [5700, 5707])
def test_encoded_data_over_many_lines_is_left_out(width: int, head: str, size: int):
    rows = [BASE64[n : min(n + width, size)] for n in range(0, size, width)]
    note = f"[encoded data, {size:,} characters, left out]"
    assert left([head, *rows, "tail, more"]) == [head, note, "tail, more"]


def test_encoded_data_at_the_very_end_is_left_out():
    rows = [BASE64[n : n + 76] for n in range(0, 7600, 76)]
    assert left(rows) == [f"[encoded data, {sum(map(len, rows)):,} characters, left out]"]


# ---- what a terminal overwrote


def test_only_the_last_state_of_a_line_stays():
    drawn = "\r".join(f"Counting objects: {n}% ({n}/99)" for n in range(1, 99))
    end = "Counting objects: 100% (99/99), done."
    assert without_noise(f"a\n{drawn}\r{end}\nb") == (
        f"a\n[97 earlier states of the line below left out]\nCounting objects: 98% (98/99)\r{end}\nb"
    )


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Fetching a great many things from afar, far away", "\x1b[Kdone"),
        ("Fetching a great many things from afar, far away", "\x1b[0m\x1b[2Kdone"),
        ("Fetching a great many things from afar, far away\x1b[2K", "done"),
        (
            "Fetching a great many things from afar, far away",
            "Fetching a great many things from afar, far away ✓",
        ),
        (" " * 70, "done"),
        (
            "⠋ Fetching a great many things from afar, far away",
            "⠙ Fetching a great many things from afar, far away",
        ),
    ],
)
def test_a_state_that_was_erased_or_redrawn_goes(old: str, new: str):
    assert without_noise(f"{old}\r{new}\r\nb") == f"[1 earlier state of the line below left out]\n{new}\r\nb"


def test_a_state_that_says_something_else_stays():
    assert without_noise("Fetching a great many things from afar, far away\rdone\nb") is None
    assert without_noise("ab\rabc\nb") is None


def test_lines_that_were_overwritten_go():
    frames = [("\x1b[2A" if n else "") + f"\x1b[2K a {n}\n\x1b[2K b {n}" for n in range(50)]
    assert without_noise("\n".join([*frames, "end"])) == (
        "[98 lines that were overwritten left out]\n\x1b[2A\x1b[2K a 49\n\x1b[2K b 49\nend"
    )


@pytest.mark.parametrize(
    "erase", ["\x1b[2K\x1b[1A\x1b[2K\x1b[1A\x1b[2K\x1b[G", "\x1b[2F\x1b[J", "\x1b[2A\x1b[0J"]
)
def test_lines_that_were_erased_go(erase: str):
    rows = ["first", "a, which is drawn first", "b, which is drawn below it", f"{erase}c", "d"]
    assert left(rows) == ["first", "[2 lines that were overwritten left out]", f"{erase}c", "d"]


def test_a_failure_that_was_overwritten_stays():
    rows = ["error: no", "b, which is drawn below it and goes for it", "\x1b[2A\x1b[Jc", "d"]
    assert left(rows) == ["error: no", "[1 line that was overwritten left out]", *rows[2:]]


def test_a_line_stays_that_a_shorter_one_hides_in_part():
    assert without_noise("a long line of some importance, it says more\n\x1b[1Ashort\nend") is None


# ---- any text


NOISY = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(list(PROGRESS)), st.integers(1, 40)).map(
            lambda one: lines(PROGRESS[one[0]], 1, one[1] + 1)
        ),
        st.tuples(st.sampled_from([*FAILURES, "fine", "", "}"]), st.integers(1, 30)).map(
            lambda one: [one[0]] * one[1]
        ),
        st.sampled_from(FAILURES).map(lambda one: [one]),
        st.text(max_size=30).map(lambda one: one.replace("\r", "").replace("\x1b", "").split("\n")),
    ),
    max_size=12,
)


@given(NOISY)
def test_nothing_goes_but_repeats_of_what_stays_and_progress(parts: list[list[str]]):
    rows = [row for part in parts for row in part]
    found = left(rows)
    assert found[-KEPT_AT_END:] == rows[-KEPT_AT_END:]
    kept = set(found)
    progress = {row for form in PROGRESS.values() for row in lines(form, 1, 41)}
    for row in set(rows) - kept:
        assert row in progress
        assert not condense.tells_of_failure(row)
    places = iter(rows)
    assert all(any(row == one for one in places) for row in found if not row.startswith("[") or row in rows)


@given(st.text())
def test_any_text_is_taken(text: str):
    found = without_noise(text)
    assert found is None or len(found) < len(text)


def test_the_samples_of_progress_rise():
    for form in PROGRESS.values():
        assert all(len(one) and len(two) for one, two in pairwise(lines(form)))
