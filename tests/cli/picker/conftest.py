import pytest
from tests.cli.support import TEXT, Sample


@pytest.fixture
def session(sample: Sample) -> Sample:
    """Five exchanges: a file read twice, two commands (one failed), and another file. Oldest first."""
    sample.user("begin")
    sample.read("call_first", "a.py")
    sample.call("call_make", "bash", {"command": "make all"}, TEXT * 90)
    sample.call(
        "call_wrong", "bash", {"command": "make " + "all " * 100}, "no such target\n" * 30, failed=True
    )
    sample.read("call_other", "lib/b.py", TEXT * 10)
    sample.read("call_second", "a.py")
    sample.turns(5)
    return sample
