"""Stores by URL."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote, unquote, urlsplit

from prunewise.errors import InputError
from prunewise.stores import Store
from prunewise.stores.file import FileStore


def open_store(url: str, conversation: str) -> Store:
    """The store of a conversation.

    Args:
        url: `file:talk.jsonl`, or a folder with a file for each conversation (`file:talks/`);
            `sqlite:prunewise.db`; `postgresql://user@host/database`. Paths may be absolute.
        conversation: its id.

    Raises:
        InputError: no store has such a URL, or what it needs is not installed.
        PrunewiseError: the store cannot be used.
    """
    scheme = url.partition(":")[0]
    if scheme == "file":
        path = _path(url)
        if path.is_dir() or urlsplit(url).path.endswith("/"):
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
            path /= f"{quote(conversation, safe=' ', errors='surrogatepass')}.jsonl"
        return FileStore(path, conversation)
    if scheme == "sqlite":
        from prunewise.stores.sqlite import SQLiteDatabase

        return SQLiteDatabase(_path(url)).store(conversation)
    if scheme in ("postgresql", "postgres"):
        try:
            from prunewise.stores.postgres import PostgresDatabase
        except ImportError as error:
            raise InputError("a store in PostgreSQL needs prunewise[postgres]") from error
        return PostgresDatabase(url).store(conversation)
    raise InputError(
        f"{scheme or 'an empty URL'}: no kind of store; there are file:, sqlite: and postgresql:"
    )


def _path(url: str) -> Path:
    parts = urlsplit(url)
    if parts.netloc or not parts.path or parts.query or parts.fragment:
        raise InputError(f"{url}: no path of a file; one looks like {parts.scheme}:folder/name")
    return Path(unquote(parts.path))
