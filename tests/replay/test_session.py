"""One session through policies: what its row says, each figure worked out by hand."""

from collections.abc import Sequence
from typing import Any

import pytest
from msgspec.structs import replace
from tests.build import (
    Native,
    assistant,
    bash,
    call,
    flat,
    messages,
    read,
    result,
    shell,
    user,
    with_settings,
)

from prunewise import tools
from prunewise.prices import Prices, Rates, rules_for
from prunewise.recording import Ending, Epoch, LLMCall, Recording
from prunewise.replay.bill import Removal
from prunewise.replay.policies import POLICIES, Conversation, Cut, Policy, Run, of_settings
from prunewise.replay.results import SessionRow
from prunewise.replay.session import Question, billed, replay
from prunewise.tokens import PI
from prunewise.transcript import SHELL_OUTPUT, TOOL_INPUT, TOOL_RESULT, Kind, Message, Usage

CLAUDE = rules_for("claude-opus-5")
NONE = POLICIES["none"]


class Book:
    """A cached token a tenth, a written one 1.25, two dollars a million."""

    def prices_for(self, model: str, provider: str = "", when: float | None = None) -> Prices:  # noqa: ARG002
        assert CLAUDE
        return Prices(model, CLAUDE, Rates(1.0, 0.1, 1.25, 2.0, 5.0), dollars_per_million=2.0)


class Scripted:
    """A run that cuts what it was told to, epoch by epoch."""

    def __init__(self, cuts: Sequence[Sequence[Cut]]) -> None:
        self._cuts, self._epoch = cuts, 0

    def begin(self) -> None:
        self._epoch += 1

    def step(self, new: Sequence[Message], call: int, meeting: object = None) -> list[Cut]:  # noqa: ARG002
        return [cut for cut in self._cuts[self._epoch] if cut.call == call]

    def recalled(self, cut: Cut) -> None:
        assert cut in self._cuts[self._epoch]


def scripted(*cuts: Sequence[Cut]) -> Policy:
    def start(conversation: Conversation) -> Run:  # noqa: ARG001
        return Scripted(cuts)

    return Policy("scripted", "as told", start, start)


def cut(call: int, position: int, removed: int, kind: Kind = TOOL_RESULT, part: int = 0) -> Cut:
    return Cut(call, position, part, kind, removed + 10, 10, "told", "[gone]")


def epoch(*natives: Native, ended_by: Ending = "end", usage: bool = False) -> Epoch:
    """Each answer is that of an LLM call; usage, where there is any, is 5,000 tokens and the messages."""
    made = tuple(messages(natives))
    sizes = [PI.message(message) for message in made]
    calls = tuple(
        LLMCall(at, Usage(5000 + sum(sizes[:at]), 5) if usage else None, 60.0 * at, "claude-opus-5")
        for at, message in enumerate(made)
        if message.role == "assistant"
    )
    return Epoch(made, calls, ended_by)


def recorded(*epochs: Epoch) -> Recording:
    return Recording("pi", "a.jsonl", "s1", epochs, tools.PI)


def asked(made: Recording, *policies: Policy, **more: Any) -> SessionRow:
    return replay(made, Question((NONE, *policies), prices=Book(), **more))


# A user's word (1 token), then answers that run a command (6 tokens: "bash", {"command":"run x"}), each
# with an output of 1,000 tokens.


def commands(count: int) -> list[Native]:
    return flat(user("go"), *(bash(f"c{at}", "run x", "x" * 4000) for at in range(count)))


def test_commands_are_as_large_as_said():
    assert [PI.message(message) for message in messages(commands(2))] == [1, 6, 1000, 6, 1000]


# ---- room


@pytest.mark.parametrize(
    ("ended_by", "removed", "reserve", "avoided"),
    [
        pytest.param("compaction", 500, 500, 1, id="as much as the reserve is free"),
        pytest.param("compaction", 499, 500, 0, id="one token less"),
        pytest.param("rewind", 500, 500, 0, id="no compaction"),
        pytest.param("compaction", 0, 0, 1, id="without a reserve any compaction is"),
    ],
)
def test_compactions_avoided(ended_by: Ending, removed: int, reserve: int, avoided: int):
    made = recorded(epoch(*commands(4), ended_by=ended_by), epoch(*commands(1)))
    row = asked(made, scripted([cut(2, 2, removed)], []), reserve=reserve)
    assert row.figures[1].compactions_avoided == avoided


def test_calls_gained_are_the_room_at_the_end_at_the_epochs_own_pace():
    # From call 1 (1 token) to call 4 (3 x 1,006 more): 1,006 a call.
    row = asked(recorded(epoch(*commands(4))), scripted([cut(1, 2, 900), cut(3, 4, 1114)]))
    assert row.figures[1].calls_gained == pytest.approx(1900 / 1006), "an output holds no more than 1,000"
    assert row.figures[0].calls_gained == 0


def test_calls_gained_add_up_over_epochs_in_the_providers_tokens():
    first, second = epoch(*commands(3), ended_by="compaction"), epoch(*commands(3))
    row = asked(recorded(first, second), scripted([cut(1, 2, 500)], [cut(2, 2, 600)]))
    assert row.figures[1].calls_gained == pytest.approx((500 + 600) / 1006)


def test_one_call_has_no_pace():
    row = asked(recorded(epoch(*commands(1))), scripted([cut(0, 0, 1)]))
    assert row.figures[1].calls_gained == 0


# ---- what was cut


def test_cuts_are_summed_by_strategy_and_tool():
    # The answers at 1 and 3 call bash and read; the shell command at 5 is the user's own.
    made = epoch(
        *flat(
            user(),
            bash("c1", "run x", "x" * 4000),
            assistant(call("c2", "read", path="a.py")),
            result("c2", "x" * 4000),
            shell("ls", "x" * 4000),
            assistant("on"),
        )
    )
    cuts = [cut(2, 2, 300), cut(2, 4, 200), cut(2, 5, 100, SHELL_OUTPUT), cut(2, 1, 5, TOOL_INPUT)]
    row = asked(recorded(made), scripted(cuts))
    assert row.figures[1].removed == 605
    assert row.figures[1].removed_by_strategy == {"told": 605}
    assert row.figures[1].removed_by_tool == {"bash": 305, "read": 200, "shell": 100}


def test_a_result_without_its_call_goes_by_its_own_name_or_none():
    orphans = epoch(*flat(user(), result("x", "x" * 400, name="grep"), result("y", name=""), assistant("on")))
    row = asked(recorded(orphans), scripted([cut(0, 1, 50), cut(0, 2, 40)]))
    assert row.figures[1].removed_by_tool == {"grep": 50, "unknown": 40}


def test_a_cut_makes_peak_final_and_cost_smaller():
    made = recorded(epoch(*commands(3), usage=True))
    row = asked(made, scripted([cut(2, 2, 600)]))
    none, told = row.figures
    # Requests of 5,001, 6,007 and 7,013 tokens, uncached but for the minimum: usage has no cache figures,
    # so the clock decides. The first is written, each next one reads the one before.
    assert (none.peak, none.final) == (7013, 7013)
    assert (told.peak, told.final) == (6413, 6413)
    assert none.cost == pytest.approx(1.25 * 5001 + 0.1 * 5001 + 1.25 * 1006 + 0.1 * 6007 + 1.25 * 1006)
    # The cut at position 2 lies behind the first request, whose entry still holds: 5,001 are read.
    assert told.cost == pytest.approx(1.25 * 5001 + 0.1 * 5001 + 1.25 * 1006 + 0.1 * 5001 + 1.25 * 1412)
    assert told.breaks == 1
    assert none.dollars == pytest.approx(none.cost * 2e-6)


def test_an_epoch_is_cut_by_the_calls_own_numbers():
    made = recorded(epoch(*commands(3), ended_by="compaction"), epoch(*commands(3)))
    first = asked(made, scripted([cut(1, 2, 500)], [])).figures[1]
    second = asked(made, scripted([], [cut(1, 2, 500)])).figures[1]
    assert first.removed == second.removed == 500
    assert first.final == first.peak, "the last request is that of the second epoch"
    assert second.final == second.peak - 500, "the peak is left to the first"


# ---- standing decisions

FREE = with_settings(
    {
        "protections": {"recentTurns": 0},
        "thresholds": {"minCharsSaved": 0},
        "gate": {"mode": "off"},
        "pruning": {"enabled": False},
    }
)


def test_after_a_compaction_what_was_decided_stands_in_what_was_kept():
    before = epoch(*flat(commands(2), assistant("on")), ended_by="compaction")
    after = Epoch(before.messages[1:], (LLMCall(4, None, 500.0, "claude-opus-5"),))
    row = asked(recorded(before, after), of_settings("free", FREE, ""))
    by_strategy = row.figures[1].removed_by_strategy
    assert set(by_strategy) == {"dedupe", "standing"}, "the same command twice, then its decision"
    assert by_strategy["dedupe"] == by_strategy["standing"] == row.figures[1].removed / 2


# ---- recalls


def test_a_recall_is_charged_with_its_call_and_for_as_long_as_it_is_held():
    natives = flat(
        user("go"), bash("c1", "run x", "x" * 3984 + "\nparse_header"), assistant("on"),
        assistant("see parse_header"), assistant("on"),
    )  # fmt: skip
    row = asked(recorded(epoch(*natives)), scripted([cut(2, 2, 990)]))
    told = row.figures[1]
    assert (told.missed.blocks, told.missed.recalls, told.missed.recalls_by_kind) == (
        1,
        1,
        {"reference": 1},
    )
    # Missed at call 2, whose request has 10,000 of prefix, 1 + 6 + 10 + 1 of messages. 1,000 are written;
    # one more call reads all that and writes 150 out; call 3 holds them.
    assert told.recall_cost == pytest.approx(1.25 * 1000 + 0.1 * 10018 + 5 * 150 + 0.1 * 1000)
    assert told.net_cost == told.cost + told.recall_cost
    assert told.dollars == pytest.approx(told.net_cost * 2e-6)
    (worst,) = row.worst
    assert (worst.policy, worst.message, worst.call, worst.key) == ("scripted", 2, 2, "parse_header")


def test_where_loss_is_not_looked_for_no_recall_is_charged():
    natives = flat(
        user(), bash("c1", "run x", "parse_header " * 99), assistant("on"), assistant("parse_header")
    )
    made = recorded(epoch(*natives))
    assert asked(made, scripted([cut(1, 2, 300)])).figures[1].recall_cost > 0
    row = asked(made, scripted([cut(1, 2, 300)]), with_loss=False)
    assert (row.figures[1].recall_cost, row.figures[1].missed.blocks, row.worst) == (0, 0, ())


# ---- the optimum


def test_the_optimum_is_a_row_behind_all_policies_and_never_dearer():
    natives = flat(commands(2), *(assistant("on") for _ in range(30)))
    row = asked(recorded(epoch(*natives)), of_settings("free", FREE, ""), with_optimal=True)
    none, free, optimal = row.figures
    assert optimal.policy == "optimal"
    assert optimal.recall_cost == 0
    assert optimal.suffix_cost == optimal.own_optimum
    assert free.own_optimum is not None
    assert free.own_optimum <= min(free.suffix_cost, none.suffix_cost) + 1e-6


def test_the_optimum_is_never_dearer_where_the_cache_is_found_a_few_steps_back_only():
    """No entry ends near the cut, so that it would write all again, which its own schedule does not know."""
    natives = flat(
        user("x" * 400_000), read("a", "a.py", "frobnicate_all\n" * 1000), commands(14),
        read("b", "a.py", "frobnicate_all\n" * 1000), assistant("frobnicate_all"),
        *((user("go on"), assistant("on")) for _ in range(60)),
    )  # fmt: skip
    free = of_settings("free", FREE, "")
    row = asked(recorded(epoch(*natives)), free, with_optimal=True, with_ceiling=True)
    none, _, optimal, ceiling = row.figures
    assert optimal.suffix_cost < none.suffix_cost
    assert optimal.cost <= none.cost
    assert ceiling.suffix_cost < none.suffix_cost
    assert ceiling.cost <= none.cost


# ---- sessions of which little is known


def test_without_usage_nothing_confirms_the_bill():
    row = asked(recorded(epoch(*commands(3))))
    assert (row.warmth, row.prefix, row.scale) == ("time to live", 10_000, 1)
    assert (row.baseline_error, row.excluded) == (None, False)


def test_usage_is_what_the_bill_is_checked_against():
    row = asked(recorded(epoch(*commands(3), usage=True)))
    assert (row.prefix, row.scale) == (5000, 1)
    # Without cache figures the input counts as uncached: 18,021 tokens, against those of the clock.
    cost = row.figures[0].cost
    assert row.baseline_error == pytest.approx(abs(cost - 18021) / 18021)
    assert row.excluded, "that is more than a quarter"


def test_failed_calls_count_as_calls_and_cost_nothing():
    made = epoch(*commands(3))
    calls = (made.calls[0], replace(made.calls[1], failed=True), made.calls[2])
    failed, whole = asked(recorded(replace(made, calls=calls))), asked(recorded(made))
    assert failed.llm_calls == whole.llm_calls == 3
    # It would have read 10,001 and written 1,006; the next one writes those, and reads them no more.
    assert whole.figures[0].cost - failed.figures[0].cost == pytest.approx(0.1 * 11007)
    assert failed.figures[0].final == whole.figures[0].final


@pytest.mark.parametrize(
    "made",
    [
        pytest.param(recorded(), id="no epoch"),
        pytest.param(recorded(epoch()), id="no message"),
        pytest.param(recorded(epoch(user())), id="no answer"),
        pytest.param(
            recorded(replace(epoch(*commands(2)), calls=(LLMCall(1, failed=True),))), id="no answered call"
        ),
    ],
)
def test_an_empty_session_costs_nothing_under_any_policy(made: Recording):
    row = replay(made, Question(tuple(POLICIES.values()), with_optimal=True, with_timeline=True))
    assert [one.policy for one in row.figures] == [*POLICIES, "optimal"]
    for one in row.figures:
        assert (one.cost, one.peak, one.final, one.breaks, one.calls_gained) == (0, 0, 0, 0, 0)
    assert row.lineage == "" or made.epochs[0].calls
    assert row.model == ""


def test_what_a_row_says_of_the_session():
    made = recorded(
        epoch(*commands(2), ended_by="compaction"),
        epoch(*flat(user(), bash("c9", "run", "no", error=True), assistant("on")), ended_by="rewind"),
        epoch(user(), assistant("on")),
    )
    row = replay(
        replace(made, warnings=("a.jsonl:3: odd, left out",)), Question((NONE,)), size=7, project="p"
    )
    assert (row.source, row.session, row.format, row.project, row.bytes) == ("a.jsonl", "s1", "pi", "p", 7)
    assert (row.llm_calls, row.tool_calls, row.tool_errors, row.compactions) == (5, 3, 1, 1)
    assert (row.model, row.started, row.warnings) == ("claude-opus-5", 60.0, ("a.jsonl:3: odd, left out",))


def test_sessions_that_began_alike_share_a_lineage():
    long, short = asked(recorded(epoch(*commands(3)))), asked(recorded(epoch(*commands(2))))
    other = asked(recorded(epoch(user("something else"), *commands(2)[1:])))
    assert long.lineage == short.lineage != other.lineage


def test_a_bill_takes_what_is_cut_again_where_its_recall_stood():
    first = Cut(1, 2, 0, TOOL_RESULT, 1000, 10, "test", "[left out]")
    again = replace(first, call=9, again=7)
    assert billed([[first], [again]]) == [[first], [Removal(9, 7, -10)]]
