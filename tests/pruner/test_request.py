"""A request, and what it becomes."""

import pytest
from tests.build import flat, read, user
from tests.pruner.support import pruner_of, twice_read

from prunewise import ledger
from prunewise.stores.memory import Memory


def test_a_list_goes_in_and_a_list_comes_out():
    history = twice_read()
    out = pruner_of().prune(history)
    assert out is not history
    assert [position for position, one in enumerate(out) if one is not history[position]] == [2]
    assert pruner_of().prune(history[:3]) == history[:3]


def test_a_body_with_messages_keeps_its_other_fields_and_their_order():
    body = {"system": "be brief", "messages": twice_read(), "extra": [1]}
    done = pruner_of().project(body)
    assert list(done.request) == list(body)
    assert done.request["extra"] is body["extra"]
    assert len(done.edits) == 1
    assert pruner_of(data={"enabled": False}).project(body).request is body


def test_nothing_to_prune_gives_the_request_itself():
    for history in ([], [user()], flat(user(), read("c1", "a.py"))):
        done = pruner_of().project(history)
        assert done.request is history
        assert (done.edits, done.decisions, done.saved, done.changed, done.error) == ((), (), 0, False, None)


def test_a_request_says_what_it_took_out():
    history = twice_read()
    pruner = pruner_of()
    done = pruner.project(history)
    [decision] = done.decisions
    [savings] = [one for one in pruner.store.ledger() if isinstance(one, ledger.Savings)]
    assert decision.placeholder == done.edits[0].text == done.request[2]["content"][0]["text"]
    assert savings.tokens_removed == done.saved > 0
    stats = pruner.stats
    assert (stats.saved_tokens, stats.standing, stats.masked) == (done.saved, 1, 0)
    assert stats.raw_tokens - stats.effective_tokens == done.saved
    assert stats.removed_by_strategy == {"dedupe": done.saved}
    assert pruner.project(history).decisions == ()
    assert pruner.stats.removed_by_strategy == {"dedupe": done.saved}, "counted once"


def test_a_decision_carries_what_the_ledger_documents():
    history = twice_read()
    store = Memory("the-conversation")
    [decision] = pruner_of(store).project(history, ids=list("abcdefg"), now=0.5).decisions
    kind, data = ledger.to_data(decision)
    assert kind == "dynamic-context-pruning:decision"
    assert data["idempotencyKey"] == "dedupe:tool_result_content:c1"
    assert data["correlation"] == {"type": "toolCallId", "toolCallId": "c1"}
    assert (data["strategyId"], data["kind"], data["source"]) == ("dedupe", "tool_result_content", "auto")
    assert data["createdAt"] == "1970-01-01T00:00:00.500Z"
    assert data["entryId"] == "c"
    assert data["sessionId"] == "the-conversation"


def test_a_read_that_fails_half_way_leaves_nothing_half_read():
    history = twice_read()
    ids = [f"e{position}" for position in range(len(history))]
    pruner = pruner_of()
    pruner.read(history, ids=ids)
    with pytest.raises(ValueError, match="shorter"):
        pruner.read([*history[:3], user("another way"), user("and another")], ids=ids[:4])
    pruner.read(history, ids=ids)
    assert [message.id for message in pruner.transcript.messages] == ids
