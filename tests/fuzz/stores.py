"""The stores that histories are run over, each with what another process would have of it."""

import copy
import re
from functools import cache
from pathlib import Path
from typing import Any

from tests.histories import PiFile

from prunewise.stores.memory import Memory

_PAGE = Path(__file__).parents[2] / "docs/how-to/own-python-agent.md"


class InMemory:
    """A store that lives as long as its object; another process would have to be handed a copy."""

    def __init__(self, _folder: Path) -> None:
        self.store: Any = Memory("c")

    def another(self) -> Any:
        """What another process would have."""
        other = Memory(self.store.conversation, copy.copy(self.store.ledger()))
        other._originals.update(self.store._originals)
        return other

    def reopened(self) -> Any:
        """The store after a restart."""
        self.store = self.another()
        return self.store


@cache
def _file_store() -> Any:
    """The store of the how-to page, as it stands there."""
    blocks = re.findall(r"```python\n(.*?)```", _PAGE.read_text(encoding="utf-8"), re.DOTALL)
    names: dict[str, Any] = {}
    exec(next(block for block in blocks if "class FileStore" in block), names)
    return names["FileStore"]


class InFile(InMemory):
    """The file that the how-to page shows, which keeps ledger and originals."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "talk.jsonl"
        self.path.unlink(missing_ok=True)
        self.store = _file_store()(self.path)

    def another(self) -> Any:
        return _file_store()(self.path)


class InSession(InMemory):
    """pi's own session file, which holds the messages too."""

    def __init__(self, folder: Path) -> None:
        path = folder / "s.jsonl"
        path.unlink(missing_ok=True)
        self.file = PiFile(path)
        self.store = self.file.open()

    def another(self) -> Any:
        return self.file.open()
