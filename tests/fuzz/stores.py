"""The stores that histories are run over, each with what another process would have of it."""

from pathlib import Path
from typing import Any

from tests.histories import PiFile

from prunewise.stores.file import FileStore
from prunewise.stores.memory import Memory


class InMemory:
    """A store that lives as long as its object; another process would have to be handed a copy."""

    def __init__(self, _folder: Path) -> None:
        self.store: Any = Memory("c")

    def another(self) -> Any:
        """What another process would have."""
        other = Memory(self.store.conversation, self.store.ledger())
        other._originals.update(self.store._originals)
        return other

    def reopened(self) -> Any:
        """The store after a restart."""
        self.store = self.another()
        return self.store


class InFile(InMemory):
    """A file that keeps ledger and originals."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "talk.jsonl"
        self.path.unlink(missing_ok=True)
        self.store = FileStore(self.path)

    def another(self) -> Any:
        return FileStore(self.path)


class InSession(InMemory):
    """pi's own session file, which holds the messages too."""

    def __init__(self, folder: Path) -> None:
        path = folder / "s.jsonl"
        path.unlink(missing_ok=True)
        self.file = PiFile(path)
        self.store = self.file.open()

    def another(self) -> Any:
        return self.file.open()
