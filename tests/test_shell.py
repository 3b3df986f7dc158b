"""What shell commands read and write, as far as it is certain."""

import math
from typing import Any

import pytest

from prunewise import shell
from prunewise.tools import FileOperation

END = math.inf


def read(path: Any, first: Any = 1, last: Any = END):
    return FileOperation("read", path, first, last)


def write(path: Any):
    return FileOperation("write", path)


@pytest.mark.parametrize(
    ("command", "operations"),
    [
        ("cat a.py", [read("/w/a.py")]),
        ("cat -n a.py", [read("/w/a.py")]),
        ("cat a.py 'b c.py'", [read("/w/a.py"), read("/w/b c.py")]),
        ("cd src && sed -n '1,20p' a.py", [read("/w/src/a.py", 1, 20)]),
        ("sed -n '5p;7,9p' a.py", [read("/w/a.py", 5, 5), read("/w/a.py", 7, 9)]),
        ("sed -n '5,$p' /x/a.py", [read("/x/a.py", 5)]),
        ("head -20 a.py", [read("/w/a.py", 1, 20)]),
        ("head -n 7 a.py", [read("/w/a.py", 1, 7)]),
        ("head a.py", [read("/w/a.py", 1, 10)]),
        ("tail -n +5 a.py", [read("/w/a.py", 5)]),
        ("nl -ba a.py", [read("/w/a.py")]),
        ("nl -ba a.py | sed -n '3,9p'", [read("/w/a.py", 3, 9)]),
        ("cat a.py | head -30", [read("/w/a.py", 1, 30)]),
        ("cat a.py || echo none", [read("/w/a.py")]),
        ("nl -b a a.py", [read("/w/a.py")]),
        ("sudo cat /etc/hosts; echo '---'; cat b", [read("/etc/hosts"), read("/w/b")]),
    ],
)
def test_reads(command: Any, operations: Any):
    script = shell.read(command, "/w")
    assert list(script.operations) == operations
    assert script.only_reads
    assert script.sort == "read"


@pytest.mark.parametrize(
    "command",
    [
        "cat $FILE",
        "cat *.py",
        "cat ~/a.py",
        "tail -5 a.py",
        "sed -n '/x/p' a.py",
        "sed -n 'q' a.py",
        "sed 5q a.py",
        "head -c 10 a.py",
        "sed -n '1,5p' b.py a.py",
        "bat -r 10:20 a.py",
        "bat --line-range=1:5 a.py",
        "nl -b t a.py",
        "cat a.py > /dev/null",
        "test -f b.py || cat a.py",
        "pushd src && cat a.py",
        "head -n 3 -q a.py",
        "nl -w3 a.py",
        "tail -n +x a.py",
        "cat a | grep x",
        "cat a b | head -3",
        "cat a | head -3 b",
        "cd $X && cat a.py",
        "cd ~ && cat a.py",
        "cat",
        "$CAT a.py",
        "for i in a; do cat $i; done",
        "cat 'unclosed",
        "",
        " " * 3 + "\n",
        "x" * 30_000,
        'echo "$(date)"',
    ],
)
def test_what_is_not_known_is_not_guessed(command: Any):
    script = shell.read(command, "/w")
    assert not script.only_reads
    assert not any(one.path in ("/w/a.py", "/w/$FILE") for one in script.operations)


@pytest.mark.parametrize(
    ("command", "paths"),
    [
        ("cat a > b", ["/w/b"]),
        ("cat a >> b", ["/w/b"]),
        ("cat <<'EOF' > x.py\nhi\nEOF", ["/w/x.py"]),
        ("cat > x.py <<'EOF'\nhi\nEOF", ["/w/x.py"]),
        ("echo hi | tee out.txt", ["/w/out.txt"]),
        ("sed -i 's/a/b/' f g", ["/w/f", "/w/g"]),
        ("sed -i -e 's/a/b/' f", ["/w/s/a/b", "/w/f"]),
        ("mv a b", ["/w/a", "/w/b"]),
        ("cp a b", ["/w/b"]),
        ("rm -f a", ["/w/a"]),
        ("touch a", []),
        ("git restore --staged a.py", []),
        ("git rm --cached a.py", []),
        ("cp -t lib a", []),
        ("test -f a || rm a", []),
        ("rm a || rm b", ["/w/a"]),
        ("test -f a && rm a || true", []),
        ("cd lib && rm a || true", ["/w/lib/a"]),
        ("(cd lib && rm x); rm y", ["/w/lib/x", "/w/y"]),
        ("rm a || cd lib; rm b", ["/w/a"]),
        ("rm a || rm b 2> log", ["/w/a"]),
        ("if x; then cd lib; fi; rm a", []),
        ("git checkout -- a.py", ["/w/a.py"]),
        ("git restore a.py", ["/w/a.py"]),
        ("git checkout main", []),
        ("make 2> log", []),
        ("make > /dev/null 2>&1", []),
        ("cd src; (cd lib && rm x)", ["/w/src/lib/x"]),
        ("FOO=1; export BAR=2; rm x", ["/w/x"]),
        ("cd / && cd w && rm x", ["/w/x"]),
        ("rm x  # gone", ["/w/x"]),
        ("timeout 5 rm x", ["/w/x"]),
    ],
)
def test_writes(command: Any, paths: Any):
    script = shell.read(command, "/w")
    assert [one.path for one in script.operations if one.action == "write"] == paths
    assert not script.only_reads


@pytest.mark.parametrize(
    ("command", "sort"),
    [
        ("rg foo src", "search"),
        ("git grep foo", "search"),
        ("find . | xargs grep foo", "search"),
        ("xargs rg foo", "search"),
        ("xargs", "other"),
        ("ls -la", "list"),
        ("git diff", "git"),
        ("curl https://x", "web"),
        ("npm run test", "test"),
        ("npm run test:unit", "test"),
        ("npm install", "other"),
        ("python -m pytest", "test"),
        ("cd pkg && npm run check 2>&1 | tail -5", "test"),
        ("sed -i s/a/b/ x", "change"),
        ("apply_patch <<'E'\n*** Begin Patch\nE", "change"),
        ("cat > x <<'E'\n1\nE", "change"),
        ("for i in a; do x; done", "other"),
        ("cd a && rm x 2>&1", "change"),
        ("{ ls; }", "list"),
        ("frobnicate", "other"),
        ("(ls) | cat", "other"),
    ],
)
def test_sorts(command: Any, sort: Any):
    assert shell.read(command, "/w").sort == sort


@pytest.mark.parametrize(
    ("command", "paths"),
    [
        ("rm a", ["/w/a"]),
        ("ls; rm a", ["/w/a"]),
        ("ls\nrm a  # gone", ["/w/a"]),
        ("make && rm a && mv b c", ["/w/a", "/w/b", "/w/c"]),
        ("make || rm b && rm a", []),  # nothing is named behind ||
        ("rm a && make || true", []),
        ("(cd s && rm a)", ["/w/s/a"]),
        ("{ ls; rm a; }", ["/w/a"]),
        ("cd s && rm a", ["/w/s/a"]),
        ("cd s; rm a /b", ["/b"]),
        ("(cd s; ls); rm a", ["/w/a"]),
        ("ls && rm a > log", ["/w/log", "/w/a"]),
        ("make | tee log", ["/w/log"]),
        ("make | tee -a log", []),
        ("tee log | cat", []),
        ("echo >> a", []),
        ("echo >| a", ["/w/a"]),
        ("make &> a", ["/w/a"]),
        ("timeout 5 rm a", ["/w/a"]),
        ("sudo -n rm a", []),
        ("/bin/rm a", ["/w/a"]),
        ("./rm a", []),
        ("git rm -q a", ["/w/a"]),
        ("git rm -n a", []),
        ("git restore a", []),
        ("sed -i s/a/b/ a", []),
        ("rm -rf a", ["/w/a"]),
        ("rm -i a", []),
        ("rm a; ls", []),
        ("rm a &", []),
        ("rm a & wait", []),
        ("exit; rm a", []),
        ("if x; then exit; fi; rm a", []),
        ("f() { ls; }; rm a", []),
        ("$X; rm a", []),
        ("$(echo exit); rm a", []),
    ],
)
def test_changes_that_success_proves(command: str, paths: list[str]):
    assert [one.path for one in shell.read(command, "/w").proven if one.action == "write"] == paths


def test_reads_that_success_proves():
    assert shell.read("cat a b", "/w").proven == (read("/w/a"), read("/w/b"))
    assert shell.read("cat a; cat b", "/w").proven == (read("/w/b"),)
    assert shell.read("cat a | head -5", "/w").proven == ()


def test_nothing_is_known_of_relative_paths_where_the_folder_is_lost():
    assert shell.read("rm a /b", "/w", lost=True).operations == (write("/b"),)
    assert shell.read("cd /x && rm a", "/w", lost=True).operations == (write("/x/a"),)
    assert shell.read("cd x && rm a", "/w", lost=True).operations == ()


@pytest.mark.parametrize(
    "command",
    [
        "cat <<'EOF' > f; echo done\nhello\nEOF",
        "cat <<EOF > f; echo done\nhello; rm g\nEOF",
        'cat <<"E O F" > f; echo done\nhello\nE O F',
        "cat <<-EOF > f; echo done\n\thello\n\tEOF",
        "cat > f <<EOF; make; echo done\nhello\nEOF\nls",
        "cat <<A > f; cat <<B\nhello\nA\nhello\nB",
    ],
)
def test_a_heredoc_whose_first_line_goes_on(command: str):
    script = shell.read(command, "/w")
    assert [one for one in script.operations if one.action == "write"] == [write("/w/f")]
    assert not script.only_reads
    assert write("/w/f") not in script.proven


def test_a_heredoc_with_nothing_to_name():
    assert shell.read("cat f <<'EOF' 2>&1 | tail -5\nx\nEOF", "/w") == shell.Script("read")
    assert shell.read("cat <<'EOF' > f; if\nx\nEOF", "/w") == shell.UNKNOWN


def test_long_lists_are_read_and_deep_brackets_are_not():
    assert shell.read(" && ".join(["rm x"] * 2000), "/w").operations == (write("/w/x"),) * 2000
    assert shell.read("{ " * 3000 + "rm x" + "; }" * 3000, "/w") == shell.UNKNOWN


def test_without_the_parser_nothing_is_known(monkeypatch: Any):
    shell.read.cache_clear()
    monkeypatch.setattr(shell, "_parser", lambda: None)
    assert shell.read("cat a.py", "/nowhere") == shell.UNKNOWN
    assert "prunewise[priced]" in (shell.problem() or "")
    shell.read.cache_clear()


def test_with_the_parser_there_is_no_problem():
    assert shell.problem() is None


def test_without_the_extra_there_is_no_parser(monkeypatch: Any):
    monkeypatch.setitem(__import__("sys").modules, "tree_sitter_bash", None)
    assert shell._parser.__wrapped__() is None


@pytest.mark.parametrize(
    ("command", "paths"),
    [
        ("cd $X && cd src && rm a /b", ["/b"]),
        ("rm $X b", ["/w/b"]),
        (r"rm a\ b", ["/w/a b"]),
        (r'rm "a\"b"', ['/w/a"b']),
        ("rm a'b'\"c\"", ["/w/abc"]),
        ("rm a$X", []),
        ("(ls) > x", []),
        ("{ a; b; } | c > x", []),
        ("> x cat a", ["/w/x"]),
        ("ls && (cd x) > y", []),
        ("cat <<< hi > x", ["/w/x"]),
        ("FOO=1 rm x", ["/w/x"]),
        ("git mv a b", ["/w/a", "/w/b"]),
        ("truncate -s 0 a", ["/w/0", "/w/a"]),
    ],
)
def test_writes_of_unusual_commands(command: Any, paths: Any):
    assert [one.path for one in shell.read(command, "/w").operations if one.action == "write"] == paths


@pytest.mark.parametrize("command", ["cat a > b", "cat a | tee b", "cat a | sort > a", "cat a; rm b"])
def test_what_goes_elsewhere_or_changes_more_is_no_read_alone(command: Any):
    assert not shell.read(command, "/w").only_reads


@pytest.mark.parametrize(
    "command", ["rm -r $(ls)", "rm `ls`", "rm <(ls)", "rm a*", "mv a b c", "cp a b c", "tee"]
)
def test_changes_that_are_not_known_are_not_guessed(command: Any):
    assert shell.read(command, "/w").operations == ()
