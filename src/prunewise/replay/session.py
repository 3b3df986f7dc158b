"""One recorded session through any number of policies: what each would have saved, cost and lost."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from hashlib import blake2b

import msgspec

from prunewise.engine import Rules
from prunewise.recording import Epoch, LLMCall, Recording
from prunewise.replay import ceiling
from prunewise.replay.bill import (
    DEFAULT_PRICES,
    Bill,
    Book,
    Removal,
    check,
    lookback_bill,
    open_account,
    recall_charge,
    stretches,
    suffix_bill,
)
from prunewise.replay.copies import encoded
from prunewise.replay.harness import Found, candidates
from prunewise.replay.loss import (
    Loss,
    Tally,
    Watch,
    largest_first_cuts,
    losses,
    oldest_first_cuts,
    random_cuts,
    summed,
)
from prunewise.replay.needs import DETECTOR, UPPER, Need, Ruler, needs_of
from prunewise.replay.optimum import Candidate, Optimum, optimum
from prunewise.replay.policies import CEILING, OPTIMAL, POLICIES, Conversation, Cut, Meeting, Policy, Run
from prunewise.replay.results import Detected, Figures, Missed, SessionRow, WorstRecall
from prunewise.replay.timeline import FEWEST_CALLS, Series, Timeline, series, timeline
from prunewise.settings import DEFAULTS, Settings
from prunewise.transcript import Message, ToolCall, ToolResult

_Baseline = Callable[[Epoch, Iterable[Cut], str], tuple[Cut, ...]]
_Cuts = list[tuple[Cut, ...]]
"""Epoch by epoch."""

MOST_WORST = 5
"""How many of a policy's worst recalls a row keeps."""


KEY_LENGTH = 400
"""How much a row keeps of what was missed, in characters."""


class Question(msgspec.Struct, frozen=True):
    """What to find out about each session."""

    policies: tuple[Policy, ...]
    with_optimal: bool = False
    """Whether to find the hindsight optimum, for each policy's supply and for the documented one."""
    with_ceiling: bool = False
    """Whether to find what could be saved with no loss, in hindsight."""
    with_loss: bool = True
    with_timeline: bool = False
    """Whether sessions of some length are to be plotted call by call."""
    settings: Settings = DEFAULTS
    """Of the documented harness."""
    prices: Book = DEFAULT_PRICES
    window: int = 200_000
    """The context window where the model's is not known, in tokens."""
    reserve: int = 16_384
    worst: int = MOST_WORST


def replay(recording: Recording, question: Question, *, size: int = 0, project: str = "") -> SessionRow:
    """Replay one session under all policies."""
    return _Replay(recording, question).row(size, project)


class Net:
    """One session, opened once, and what any policy comes to on it under the provider's own rules."""

    def __init__(self, recording: Recording, question: Question) -> None:
        self._replay = _Replay(recording, msgspec.structs.replace(question, with_loss=True))

    def of(self, policy: Policy, ruler: Ruler = UPPER) -> tuple[float, float, int, int]:
        """The cost without pruning, what the policy saves of it net of breaks and recalls, in base input
        tokens; how many blocks it takes out, and how many of them come back.
        """
        replay = self._replay
        cuts, lost = replay.run(policy, ruler)
        bill = lookback_bill(replay.account, billed(cuts))
        tally = summed(lost)
        base = replay.bare.total
        saved = base - bill.total - replay.recall_cost(lost, bill)
        return base, saved, tally.blocks, sum(tally.recalls.values())


class _Replay:
    """The parts of one session that all policies share."""

    def __init__(self, recording: Recording, question: Question) -> None:
        self.recording = recording
        self.question = question
        self.account = open_account(stretches(recording), question.prices)
        self.bare = lookback_bill(self.account)
        self.needs: list[tuple[Need, ...]] = []
        if question.with_loss:
            self.needs = needs_of(recording)
        self.names = [_names(epoch) for epoch in recording.epochs]
        """The tool of each call, epoch by epoch."""
        self._optima: dict[str, Optimum] = {}
        self._untaught: dict[str, _Cuts] = {}
        """What policies cut that learn from no recall, by name."""

    def row(self, size: int, project: str) -> SessionRow:
        """All that is to be said of the session."""
        recording, question = self.recording, self.question
        found = check(self.account, self.bare)
        calls = [call for epoch in recording.epochs for call in epoch.calls]
        answered = next((call for call in reversed(calls) if call.model and not call.failed), None)
        prices = [price for page in self.account.pages for price in page.prices]
        figures: list[Figures] = []
        worst: list[WorstRecall] = []
        plotted: list[Series] = []
        for policy in question.policies:
            cuts, lost = self.run(policy, UPPER)
            if question.with_timeline and len(calls) >= FEWEST_CALLS and any(cuts):
                bill = lookback_bill(self.account, billed(cuts))
                plotted.append(series(policy.name, self.account, billed(cuts), bill))
            figures.append(self.figures(policy, cuts, lost))
            worst += self.worst(policy.name, lost)
        if question.with_optimal:
            figures.append(self.optimal())
        if question.with_ceiling:
            figures.append(self.ceiling())
        parts = [part for epoch in recording.epochs for message in epoch.messages for part in message.parts]
        return SessionRow(
            recording.source,
            recording.session,
            project,
            recording.format,
            answered.model if answered else "",
            answered.provider if answered else "",
            next((call.time for call in calls if call.time is not None), None),
            lineage_of(recording),
            size,
            len(calls),
            recording.copied,
            recording.aside,
            sum(isinstance(part, ToolCall) for part in parts),
            sum(isinstance(part, ToolResult) and part.is_error for part in parts),
            sum(epoch.ended_by == "compaction" for epoch in recording.epochs),
            self.account.warmth,
            self.account.calibration.prefix,
            self.account.calibration.scale,
            None if found is None else max(found.cost_error, found.token_error),
            found is not None and found.excluded,
            bool(prices) and not any(price.default for price in prices),
            tuple(self.harness()),
            tuple(figures),
            tuple(worst),
            recording.warnings,
            self.timeline(plotted) if question.with_timeline and len(calls) >= FEWEST_CALLS else None,
        )

    def timeline(self, plotted: Sequence[Series]) -> Timeline:
        """The session call by call."""
        bare = timeline(self.recording, self.account, self.bare)
        return msgspec.structs.replace(bare, series=tuple(plotted))

    def harness(self) -> Iterable[Found]:
        """The documented harness's candidates, epoch by epoch."""
        rules = Rules(self.question.settings)
        for epoch in self.recording.epochs:
            recording = self.recording
            copied = bool(recording.copied)
            yield from candidates(epoch, rules, recording.vocabulary, recording.cwd, copied=copied)

    def run(self, policy: Policy, ruler: Ruler) -> tuple[_Cuts, list[Loss]]:
        """What a policy cuts, told of the recalls that its cuts lead to, and what that loses."""
        if policy.name in self._untaught:
            cuts = self._untaught[policy.name]
            return cuts, self.losses(cuts, ruler)
        watches = self._watches(ruler)
        cuts = self._run(policy.start, watches)
        if not policy.learns:
            self._untaught[policy.name] = cuts
        return cuts, [watch.loss() for watch in watches] if self.needs else []

    def supply(self, policy: Policy) -> list[list[Candidate]]:
        """What a policy could cut, and from when on, epoch by epoch; no recall is held against it."""
        return [
            [Candidate(cut.position, cut.removed, cut.call) for cut in made if cut.removed > 0]
            for made in self._run(policy.eager, [Watch(epoch, (), UPPER) for epoch in self.recording.epochs])
        ]

    def _watches(self, ruler: Ruler) -> list[Watch]:
        epochs = self.recording.epochs
        needs = self.needs or [()] * len(epochs)
        return [Watch(epoch, needed, ruler) for epoch, needed in zip(epochs, needs, strict=True)]

    def _run(self, start: Callable[[Conversation], Run], watches: Sequence[Watch]) -> _Cuts:
        recording, question = self.recording, self.question
        fitted = self.account.calibration
        conversation = Conversation(
            recording.vocabulary,
            recording.cwd,
            question.window,
            question.reserve,
            fitted.prefix,
            fitted.scale,
            question.prices,
        )
        run = start(conversation)
        return [
            _run_epoch(run, epoch, watch, first=index == 0)
            for index, (epoch, watch) in enumerate(zip(recording.epochs, watches, strict=True))
        ]

    def losses(self, cuts: Sequence[tuple[Cut, ...]], ruler: Ruler = UPPER) -> list[Loss]:
        """What the cuts lose, epoch by epoch."""
        return [
            losses(epoch, made, needs, ruler)
            for epoch, made, needs in zip(self.recording.epochs, cuts, self.needs, strict=False)
        ]

    def figures(self, policy: Policy, cuts: _Cuts, lost: list[Loss]) -> Figures:
        """What a policy comes to under the upper bound, and beside it under the detector."""
        bill, suffix = lookback_bill(self.account, billed(cuts)), suffix_bill(self.account, billed(cuts))
        recalls = self.recall_cost(lost, bill)
        best = None
        if self.question.with_optimal:
            best = self.optimum(policy).cost
        return Figures(
            policy.name,
            bill.total,
            suffix.total,
            recalls,
            self.dollars(bill, recalls),
            best,
            bill.breaks,
            bill.peak,
            _last(bill),
            sum(cut.removed for made in cuts for cut in made),
            _summed((cut.strategy, cut.removed) for made in cuts for cut in made),
            _summed(
                (self.tool_of(index, cut), cut.removed) for index, made in enumerate(cuts) for cut in made
            ),
            *self.room(bill),
            _missed(summed(lost)) if lost else Missed(),
            *(
                self.missed_by(baseline, cuts)
                for baseline in (random_cuts, oldest_first_cuts, largest_first_cuts)
            ),
            detected=self.detected(policy),
        )

    def detected(self, policy: Policy) -> Detected | None:
        """What a policy comes to where only the needs that the detector finds lead to recalls."""
        if not self.needs:
            return None
        cuts, lost = self.run(policy, DETECTOR)
        bill, suffix = lookback_bill(self.account, billed(cuts)), suffix_bill(self.account, billed(cuts))
        recalls = self.recall_cost(lost, bill)
        missed = _missed(summed(lost))
        dollars = self.dollars(bill, recalls)
        return Detected(bill.total, suffix.total, recalls, bill.breaks, missed, dollars)

    def optimal(self) -> Figures:
        """The hindsight optimum over the documented supply, as if it were a policy."""
        return self.hindsight(OPTIMAL, self.optimum(POLICIES["documented"]))

    def ceiling(self) -> Figures:
        """What could be saved with no loss, as if it were a policy."""
        supply = [
            ceiling.candidates(epoch, needs, UPPER)
            for epoch, needs in zip(self.recording.epochs, self.needs, strict=False)
        ]
        return self.hindsight(CEILING, optimum(self.account, supply))

    def hindsight(self, name: str, best: Optimum) -> Figures:
        """A schedule that knows the future, as if it were a policy.

        It is the cheapest where any unchanged beginning stays cached. Where the provider's own rules make
        an epoch dearer by it than without, that epoch is left as it was.
        """
        cuts = self._worthwhile(best.cuts)
        bill = lookback_bill(self.account, cuts)
        removed = sum(cut.removed for made in cuts for cut in made)
        return Figures(
            name,
            bill.total,
            best.cost,
            0.0,
            self.dollars(bill, 0.0),
            best.cost,
            bill.breaks,
            bill.peak,
            _last(bill),
            round(removed),
            {},
            {},
            *self.room(bill),
        )

    def _worthwhile(self, cuts: Sequence[tuple[Removal, ...]]) -> list[tuple[Removal, ...]]:
        """The cuts of those epochs that cost less with them."""
        before, after = self.bare.cost, lookback_bill(self.account, cuts).cost
        kept: list[tuple[Removal, ...]] = []
        first = 0
        for page, made in zip(self.account.pages, cuts, strict=True):
            end = first + len(page.calls)
            kept.append(made if math.fsum(after[first:end]) < math.fsum(before[first:end]) else ())
            first = end
        return kept

    def optimum(self, policy: Policy) -> Optimum:
        """The cheapest schedule for what a policy could cut."""
        if policy.name not in self._optima:
            self._optima[policy.name] = optimum(self.account, self.supply(policy))
        return self._optima[policy.name]

    def dollars(self, bill: Bill, recalls: float) -> float | None:
        """The bill with its recalls in US dollars."""
        total = bill.total_dollars
        if total is None or not bill.total:
            return total
        return total * (bill.total + recalls) / bill.total

    def recall_cost(self, lost: Sequence[Loss], bill: Bill) -> float:
        """What all recalls cost, in base input tokens."""
        charges: list[float] = []
        offset = 0
        for index, one in enumerate(lost):
            page = self.account.pages[index]
            for recall in one.recalls:
                context = float(bill.tokens[offset + recall.call])
                charges.append(
                    recall_charge(
                        self.account,
                        index,
                        recall.call,
                        page.scale * recall.tokens,
                        recall.until,
                        context=context,
                    )
                )
            offset += len(page.calls)
        return math.fsum(charges)

    def room(self, bill: Bill) -> tuple[int, float]:
        """Compactions that would not have been needed, and LLM calls that the saved room would have held.

        A compaction came at what was then the limit, and is avoided where the request is smaller than
        that by the reserve.
        """
        avoided, gained, offset = 0, 0.0, 0
        for epoch, page in zip(self.recording.epochs, self.account.pages, strict=True):
            billed = [offset + index for index in range(len(page.calls)) if page.billed[index]]
            offset += len(page.calls)
            if not billed:
                continue
            first, last = billed[0], billed[-1]
            free = float(self.bare.tokens[last] - bill.tokens[last])
            avoided += epoch.ended_by == "compaction" and free >= self.question.reserve
            pace = float(self.bare.tokens[last] - self.bare.tokens[first]) / max(1, len(billed) - 1)
            gained += free / pace if pace > 0 else 0.0
        return avoided, gained

    def tool_of(self, epoch: int, cut: Cut) -> str:
        """The tool whose exchange was cut."""
        part = self.recording.epochs[epoch].messages[cut.position].parts[cut.part]
        if isinstance(part, ToolCall):
            return part.name
        if isinstance(part, ToolResult):
            return self.names[epoch].get(part.call_id, part.name) or "unknown"
        return "shell"

    def missed_by(self, baseline: _Baseline, cuts: Sequence[tuple[Cut, ...]]) -> Missed:
        """What another rule would have missed at equal tokens."""
        if not self.needs or not any(cuts):
            return Missed()
        made = [
            baseline(epoch, mine, self.recording.session)
            for epoch, mine in zip(self.recording.epochs, cuts, strict=True)
        ]
        return _missed(summed(self.losses(made)))

    def worst(self, policy: str, lost: Sequence[Loss]) -> list[WorstRecall]:
        """The recalls that a person should look at."""
        found = [
            WorstRecall(
                policy,
                epoch,
                recall.call,
                recall.position,
                recall.part,
                recall.tokens,
                recall.evidence.kind,
                recall.evidence.key[:KEY_LENGTH],
                recall.serves,
                recall.strategy,
            )
            for epoch, one in enumerate(lost)
            for recall in one.worst(self.question.worst)
        ]
        return sorted(found, key=lambda one: (-one.serves, -one.tokens, one.epoch, one.call))[
            : self.question.worst
        ]


def _run_epoch(run: Run, epoch: Epoch, watch: Watch, *, first: bool) -> tuple[Cut, ...]:
    """What goes from one epoch. The policy learns of a recall before the next call."""
    if not first:
        run.begin()
    cuts: list[Cut] = []
    read = 0
    answered: list[LLMCall] = []
    for number, call in enumerate(epoch.calls):
        new = epoch.messages[read : call.position]
        made = run.step(new, number, meet(call, new, answered))
        for cut in watch.step(number, made):
            run.recalled(cut)
        cuts += made
        read = max(read, call.position)
        if not call.failed:
            answered.append(call)
    return tuple(cuts)


def billed(cuts: Iterable[Iterable[Cut]]) -> list[list[Cut | Removal]]:
    """The cuts as a bill takes them: what takes out again what a recall brought breaks the cache there."""
    return [
        [cut if cut.again is None else Removal(cut.call, cut.again, cut.removed) for cut in made]
        for made in cuts
    ]


def meet(call: LLMCall, new: Sequence[Message], answered: Sequence[LLMCall]) -> Meeting:
    """What a policy may know of a call beforehand: nothing of its own usage."""
    if not answered:
        return Meeting(model=call.model, provider=call.provider, cold=True)
    last = answered[-1]
    times = [message.time for message in new if message.time is not None]
    asked = max(times) if times else call.time
    if asked is not None and call.time is not None:
        asked = min(asked, call.time)
    return Meeting(
        None if asked is None or last.time is None else max(0.0, asked - max(last.time, call.warmed or 0.0)),
        call.model,
        call.provider,
        call.answerer != last.answerer,
    )


def _names(epoch: Epoch) -> dict[str, str]:
    return {
        part.id: part.name
        for message in epoch.messages
        for part in message.parts
        if isinstance(part, ToolCall)
    }


def lineage_of(recording: Recording) -> str:
    """A digest of everything up to the first answer, the answer and its time included; empty where there is
    none. Copies and forks share it.
    """
    for epoch in recording.epochs:
        for place, message in enumerate(epoch.messages):
            if message.role == "assistant":
                begun = [one.parts for one in epoch.messages[: place + 1]]
                return blake2b(encoded([begun, message.time]), digest_size=12).hexdigest()
    return ""


def _missed(tally: Tally) -> Missed:
    return Missed(
        tally.blocks,
        tally.tokens,
        sum(tally.recalls.values()),
        sum(tally.faults.values()),
        dict(sorted((kind, count) for kind, count in tally.recalls.items() if count)),
    )


def _summed(pairs: Iterable[tuple[str, int]]) -> dict[str, int]:
    totals: dict[str, int] = {}
    for name, tokens in pairs:
        totals[name] = totals.get(name, 0) + tokens
    return dict(sorted(totals.items()))


def _last(bill: Bill) -> float:
    sent = bill.tokens[bill.tokens > 0]
    return float(sent[-1]) if len(sent) else 0.0
