"""Totals and rows without anything that tells whose sessions they are: no path, project, text, key or id.

Sessions are known by a hashed label, policies from files and models without a listed price by a neutral
one, and tools by name only where a known agent has them.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b

import msgspec

from prunewise import tools
from prunewise.replay.policies import CEILING, OPTIMAL, POLICIES
from prunewise.replay.report.words import YOURS
from prunewise.replay.results import ErrorRow, Figures, Row, SessionRow
from prunewise.replay.timeline import Timeline
from prunewise.replay.totals import Block, LeftOut, PolicyTotals, Totals, sentences
from prunewise.tools import Vocabulary

_OTHER = "other"
_POLICIES = frozenset((*POLICIES, OPTIMAL, CEILING, YOURS))
_STRATEGIES = frozenset(
    (
        *POLICIES,
        "dedupe",
        "error-purge",
        "superseded-file-ops",
        "birth-trim",
        "noise",
        "stale-outputs",
        "repeated-output",
        "masking",
        "manual",
    )
)
_VOCABULARIES = [one for one in vars(tools).values() if isinstance(one, Vocabulary)]
_TOOLS = frozenset(name.lower() for one in _VOCABULARIES for name in (*one.files, *one.shell)) | {
    "shell",
    "unknown",
}


def label(source: str, session: str, lineage: str) -> str:
    """A name for a session that tells nothing of it, and is the same in all reports.

    The digest of its beginning is hashed along, so that nobody can find out a path by trying.
    """
    whole = "\0".join((lineage, source, session)).encode("utf-8", "surrogatepass")
    return f"session {blake2b(whole, digest_size=5).hexdigest()}"


class Sharing:
    """Anonymous totals and rows, policies called the same in all of them."""

    def __init__(self) -> None:
        self._policies: dict[str, str] = {}

    def policy(self, name: str) -> str:
        """The name of a known policy, or the number of a settings file."""
        if name in _POLICIES:
            return name
        return self._policies.setdefault(name, f"settings {len(self._policies) + 1}")

    def totals(self, totals: Totals) -> Totals:
        """The totals without what tells whose they are."""
        policies = tuple(self.policy(one) for one in totals.policies)
        whole = self._block(totals.all)
        verdict = msgspec.structs.replace(
            totals.verdict,
            policy=self.policy(totals.verdict.policy),
            better=tuple(
                msgspec.structs.replace(one, policy=self.policy(one.policy)) for one in totals.verdict.better
            ),
        )
        said = sentences(verdict, whole, with_loss=totals.with_loss)
        return msgspec.structs.replace(
            totals,
            active=self.policy(totals.active),
            policies=policies,
            errors=tuple(ErrorRow("", "", one.bytes) for one in totals.errors),
            excluded=tuple(_left_out(one) for one in totals.excluded),
            copies=tuple(_left_out(one) for one in totals.copies),
            empty=tuple(_left_out(one) for one in totals.empty),
            warned=("",) * len(totals.warned),
            all=whole,
            long=self._block(totals.long),
            clients={name: self._block(block) for name, block in totals.clients.items()},
            sessions=tuple(
                msgspec.structs.replace(
                    one, source="", session=label(one.source, one.session, one.lineage), lineage=""
                )
                for one in totals.sessions
            ),
            worst_sessions=tuple(
                msgspec.structs.replace(
                    one,
                    policy=self.policy(one.policy),
                    source="",
                    session=label(one.source, one.session, one.lineage),
                    lineage="",
                )
                for one in totals.worst_sessions
            ),
            worst_recalls=tuple(
                msgspec.structs.replace(
                    one,
                    source="",
                    session=label(one.source, one.session, one.lineage),
                    lineage="",
                    recall=msgspec.structs.replace(
                        one.recall,
                        policy=self.policy(one.recall.policy),
                        key="",
                        strategy=_strategy(one.recall.strategy),
                    ),
                )
                for one in totals.worst_recalls
            ),
            harness=msgspec.structs.replace(
                totals.harness,
                by_session=tuple(
                    msgspec.structs.replace(
                        one, source="", session=label(one.source, one.session, one.lineage), lineage=""
                    )
                    for one in totals.harness.by_session
                ),
            ),
            verdict=msgspec.structs.replace(verdict, sentences=said),
        )

    def _block(self, block: Block) -> Block:
        return msgspec.structs.replace(
            block,
            policies=tuple(self._policy_totals(one) for one in block.policies),
            recommended=block.recommended and self.policy(block.recommended),
        )

    def _policy_totals(self, one: PolicyTotals) -> PolicyTotals:
        return msgspec.structs.replace(
            one,
            policy=self.policy(one.policy),
            removed_by_strategy=_known(one.removed_by_strategy, _STRATEGIES),
            removed_by_tool=_known(one.removed_by_tool, _TOOLS),
        )

    def row(self, row: Row) -> Row:
        """A row without what tells whose it is."""
        if isinstance(row, ErrorRow):
            return ErrorRow("", "", row.bytes)
        return SessionRow(
            source="",
            session=label(row.source, row.session, row.lineage),
            project="",
            format=row.format,
            model=row.model if row.price_known else _OTHER,
            provider=row.provider if row.price_known else _OTHER,
            started=None,
            lineage="",
            bytes=row.bytes,
            llm_calls=row.llm_calls,
            copied=row.copied,
            aside=row.aside,
            tool_calls=row.tool_calls,
            tool_errors=row.tool_errors,
            compactions=row.compactions,
            warmth=row.warmth,
            prefix=row.prefix,
            scale=row.scale,
            baseline_error=row.baseline_error,
            excluded=row.excluded,
            price_known=row.price_known,
            candidates=tuple(msgspec.structs.replace(one, call="") for one in row.candidates),
            figures=tuple(self._figures(one) for one in row.figures),
            timeline=row.timeline and self._timeline(row.timeline),
        )

    def _figures(self, one: Figures) -> Figures:
        return msgspec.structs.replace(
            one,
            policy=self.policy(one.policy),
            removed_by_strategy=_known(one.removed_by_strategy, _STRATEGIES),
            removed_by_tool=_known(one.removed_by_tool, _TOOLS),
        )

    def _timeline(self, timeline: Timeline) -> Timeline:
        return msgspec.structs.replace(
            timeline,
            series=tuple(
                msgspec.structs.replace(one, policy=self.policy(one.policy)) for one in timeline.series
            ),
        )


def anonymous(totals: Totals) -> Totals:
    """Totals that may be shown to anybody."""
    return Sharing().totals(totals)


def _left_out(one: LeftOut) -> LeftOut:
    return msgspec.structs.replace(one, source="", session="")


def _strategy(name: str) -> str:
    return name if name in _STRATEGIES else _OTHER


def _known(counts: Mapping[str, int], names: frozenset[str]) -> dict[str, int]:
    found: dict[str, int] = {}
    for name, many in counts.items():
        shown = name if name.lower() in names else _OTHER
        found[shown] = found.get(shown, 0) + many
    return found
