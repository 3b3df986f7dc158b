"""A PostgreSQL server for tests: a cluster of its own in a temporary folder, reached by a socket there."""

import contextlib
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

_NOT_ROOT = "postgres"
"""The user that Debian's package makes: PostgreSQL refuses to run as root."""


def programs() -> Path | None:
    """The folder with PostgreSQL's programs; None where there is none."""
    on_path = shutil.which("initdb")
    found = [Path(on_path).resolve().parent] if on_path else []
    found += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return next((folder for folder in found if (folder / "postgres").exists()), None)


def missing() -> str | None:
    """Why no server can be started; None where one can."""
    if programs() is None:
        return "PostgreSQL is not installed (Debian's package is postgresql)"
    if os.getuid() == 0 and _user() is None:
        return f"PostgreSQL does not run as root, and there is no user {_NOT_ROOT}"
    return None


def _user() -> pwd.struct_passwd | None:
    with contextlib.suppress(KeyError):
        return pwd.getpwnam(_NOT_ROOT)
    return None


@contextlib.contextmanager
def postgres() -> Iterator[str]:
    """A running server: its URL."""
    folder = programs()
    assert folder is not None
    place = Path(tempfile.mkdtemp(prefix="pw-pg-", dir="/tmp"))
    other = None
    if os.getuid() == 0:
        user = _user()
        assert user is not None
        os.chown(place, user.pw_uid, user.pw_gid)
        other = user.pw_name
    data = place / "data"

    def run(name: str, *arguments: str) -> None:
        subprocess.run(
            [str(folder / name), *arguments],
            user=other,
            group=other,
            extra_groups=[] if other else None,
            cwd=place,
            check=True,
            stdout=subprocess.DEVNULL,
            env={"PATH": os.defpath, "LC_ALL": "C", "HOME": str(place)},
        )

    try:
        run("initdb", "-D", str(data), "-U", "test", "-A", "trust", "-E", "UTF8", "--no-sync")
        options = f"-k {place} -c listen_addresses= -c fsync=off -c max_connections=50"
        run("pg_ctl", "-D", str(data), "-w", "-l", str(place / "log"), "-o", options, "start")
        try:
            yield f"postgresql://test@/postgres?host={place}"
        finally:
            run("pg_ctl", "-D", str(data), "-w", "-m", "immediate", "stop")
    finally:
        shutil.rmtree(place, ignore_errors=True)
