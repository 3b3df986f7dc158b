"""Masking in the engine: what it takes, beside what has been decided."""

from tests import build
from tests.build import assistant, bash, edit, flat, image, proposed, shell, user
from tests.engine.support import BIG, MASKABLE, RESULT, data, decide, follow, texts, undo

from prunewise import markers
from prunewise.tokens import text_tokens
from prunewise.transcript import SHELL_OUTPUT


def test_masking_replaces_large_outputs_with_their_markers():
    engine = build.engine(MASKABLE)
    masked = engine.mask()
    assert [(output.call_id, reference) for output, reference in masked] == [
        ("1", "#m2"),
        ("2", "#m4"),
        ("m5", "#m5"),
        ("3", "#m7"),
    ]
    edits = [part for parts in engine.edits.values() for part in parts.values()]
    assert [(one.position, one.part, one.kind, one.keep_images) for one in edits] == [
        (2, 0, RESULT, True),
        (4, 0, RESULT, True),
        (5, 0, SHELL_OUTPUT, True),
        (7, 0, RESULT, True),
    ]
    assert [markers.reference_in(one.text) for one in edits] == ["#m2", "#m4", "#m5", "#m7"]
    assert engine.masked == {
        ("1", RESULT): (2, 0),
        ("2", RESULT): (4, 0),
        ("m5", SHELL_OUTPUT): (5, 0),
        ("3", RESULT): (7, 0),
    }
    assert engine.removed_tokens == sum(1350 - text_tokens(one.text) for one in edits)


def test_masking_again_gives_what_is_new():
    engine = build.engine(MASKABLE)
    engine.mask()
    assert engine.mask() == []
    engine.extend(build.messages(flat(MASKABLE, bash("4", "pwd", BIG)))[len(MASKABLE) :])
    assert engine.mask() == []
    engine.extend(build.messages([*MASKABLE, *bash("4", "pwd", BIG), user(), assistant("done")])[-2:])
    assert [output.call_id for output, _ in engine.mask()] == ["4"]


def test_what_masking_could_save_is_known_before():
    engine = build.engine(MASKABLE)
    could = engine.unmasked_saving
    assert engine.edits == {}
    engine.mask()
    assert engine.removed_tokens == could > 0
    assert engine.unmasked_saving == 0


def test_masking_takes_what_remains():
    engine = build.engine(MASKABLE, entries=[decide("dedupe", "1"), undo("dedupe", "2")])
    saving = engine.unmasked_saving
    assert [output.call_id for output, _ in engine.mask()] == ["m5", "3"]
    assert texts(engine)["m2"] == "[gone]"
    assert "m4" not in texts(engine)
    assert saving == engine.removed_tokens - (1350 - text_tokens("[gone]"))


def test_a_masked_output_is_proposed_no_more():
    engine = build.engine(MASKABLE)
    assert proposed(engine) == [("dedupe", RESULT, "1")]
    engine.mask()
    assert proposed(engine) == []
    assert engine.verdict().earliest is None
    engine.extend(build.messages([*MASKABLE, *edit("5", "f")])[len(MASKABLE) :])
    assert proposed(engine) == []


def test_a_decision_takes_a_masked_output_over():
    engine = build.engine(MASKABLE)
    engine.mask()
    before = engine.message_tokens
    follow(engine, decide("manual", "2"))
    assert texts(engine)["m4"] == "[gone]"
    assert ("2", RESULT) not in engine.masked
    assert not engine.edits[4][0].keep_images
    assert engine.message_tokens[4] == text_tokens("[gone]") < before[4]


def test_a_restored_output_is_masked_no_more():
    engine = build.engine(MASKABLE)
    engine.mask()
    assert follow(engine, decide("manual", "1"), undo("manual", "1"))
    assert "m2" not in texts(engine)
    assert ("1", RESULT) not in engine.masked
    assert engine.mask() == []
    assert follow(engine, decide("manual", "1"), undo("manual", "1"), decide("manual", "1"))
    assert texts(engine)["m2"] == "[gone]"


def test_a_decision_without_effect_leaves_a_masked_output_masked():
    engine = build.engine(MASKABLE)
    engine.mask()
    masked = texts(engine)["m2"]
    follow(engine, decide("manual", "1", entry_id="m99"))
    assert texts(engine)["m2"] == masked
    follow(engine, decide("manual", "1", entry_id="m99", placeholder="[other]"))
    assert texts(engine)["m2"] == masked


def test_what_is_pruned_again_without_effect_takes_a_fresh_engine_since_it_may_be_masked():
    engine = build.engine(MASKABLE)
    engine.mask()
    assert follow(engine, decide("manual", "1"), undo("manual", "1"))
    without_effect = decide("manual", "1", entry_id="m99")
    assert not follow(engine, decide("manual", "1"), undo("manual", "1"), without_effect)


def test_a_mask_that_is_not_smaller_is_not_used():
    # Twenty lines of a shell output all stay, so its marker is larger.
    lines = "\n".join(["x" * 200] * 20)
    engine = build.engine(user(), shell("ls", lines), user(), data=data(pruning={"minResultTokens": 1}))
    assert engine.unmasked_saving == 0
    assert engine.mask() == []
    assert engine.edits == {}


def test_images_beside_a_masked_text_stay_and_are_not_saved():
    engine = build.engine(user(), bash("1", "x", BIG, image()), assistant("done"), user())
    engine.mask()
    (edit_,) = engine.edits[2].values()
    assert edit_.keep_images
    assert engine.message_tokens[2] == 1200 + text_tokens(edit_.text)


def test_a_message_that_counts_nothing_never_counts_less():
    # The documented estimate leaves shell commands of the user out.
    engine = build.engine(user("x"), shell("make", BIG), user("x"))
    engine.mask()
    assert engine.message_tokens == [1, 0, 1]
    assert engine.tail_tokens(0) == 2
