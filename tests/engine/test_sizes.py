"""The sizes that the engine tells."""

from tests import build
from tests.build import assistant, user
from tests.engine.support import MASKABLE, STALE, decide

from prunewise.engine import Engine, Rules
from prunewise.settings import Settings
from prunewise.tokens import PI, text_tokens


def test_sizes_follow_the_rules_estimator():
    rules = Rules(Settings(), estimator=PI)
    engine = Engine(rules, lambda message, _: message)
    messages = build.messages(MASKABLE)
    engine.extend(messages)
    assert engine.message_tokens == [PI.message(message) for message in messages]
    assert engine.total_tokens == sum(engine.message_tokens)


def test_the_context_is_the_host_s_estimate_of_the_messages_so_far():
    engine = build.engine(user("x" * 40))
    assert engine.context.estimate == 10
    engine.extend(build.messages([user(), assistant("x", usage=build.usage(5000))])[1:])
    assert engine.context.estimate == 5000


def test_the_saving_at_a_place():
    engine = build.engine(STALE, entries=[decide("dedupe", "d")])
    assert engine.saving_at((4, 0)) == 225 - text_tokens("[gone]") == engine.removed_tokens
    assert engine.saving_at((4, 1)) == 0
