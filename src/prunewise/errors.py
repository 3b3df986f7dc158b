"""The errors that prunewise raises: one small hierarchy, each message saying what, where and what to do."""

from __future__ import annotations


class PrunewiseWarning(UserWarning):
    """Something went wrong, and things go on without it; said once."""


class PrunewiseError(Exception):
    """The root of every error that prunewise raises on purpose."""


class InputError(PrunewiseError):
    """An input that cannot be read: not a session, a broken file, an unknown format."""


class SettingsError(PrunewiseError):
    """A setting that was given explicitly and cannot be used."""


class RecallError(PrunewiseError):
    """A recall reference that does not lead to an output."""


class ConflictError(PrunewiseError):
    """Another process has added to the ledger since it was read, so nothing was written."""


class RefusedError(PrunewiseError):
    """A manual prune or restore that is not allowed, with the reason."""
