"""Faults that users of tools like ours have reported in public, each with the test that holds it off here.

`COVERED` has for each report the tests, as `path::name` under tests/; `ELSEWHERE` has the reason why a
report says nothing about what is built. The tests at the end are those that stand nowhere else.
"""

import ast
import copy
import csv
import functools
from pathlib import Path
from typing import Any

import pytest
from tests.build import (
    LONG,
    Native,
    assistant,
    bash,
    call,
    flat,
    image,
    read,
    result,
    text,
    thinking,
    turns,
    used,
    user,
    write,
)
from tests.histories import SETTINGS

from prunewise import Policy, Pruner, markers, recall
from prunewise.stores.memory import Memory

EAGER = SETTINGS["eager"]

_HERE = "test_fault_reports.py::"
_RULES = "test_house_rules.py::"
_BY_HAND = "pruner/test_by_hand.py::"
_ENGAGEMENT = "pruner/test_engagement.py::"
_SESSION = "stores/test_pi_session.py::"
_FILES = "stores/test_settings_files.py::"

_IN_PLACE = _RULES + "test_untouched_messages_are_the_same_objects_and_nothing_else_differs"
_RESOLVES = _RULES + "test_every_marker_that_goes_out_resolves_to_its_original"
_RESTART = _RULES + "test_a_session_file_gives_the_same_bytes_to_a_process_that_starts_now"
_CHANGED = "pruner/test_changed_prefix.py::test_after_a_changed_prefix_it_sends_what_a_fresh_one_would"
_APART = "pruner/test_changed_prefix.py::test_interleaved_conversations_under_one_policy_keep_apart"
_ODD = _HERE + "test_odd_pairings_go_out_as_they_came"
_BREAKPOINTS = _HERE + "test_cache_breakpoints_stay_where_and_as_they_are"
_STUBS = _HERE + "test_an_output_that_refers_to_an_earlier_one_does_not_replace_it"
_RESPONSES = "formats/test_openai_responses.py::"
_CHAT = "formats/test_openai_chat.py::"

COVERED: dict[str, tuple[str, ...]] = {
    # what a provider accepts
    "A01": (_ODD, _IN_PLACE),
    "A02": (_CHANGED, _ODD),
    "A03": (_IN_PLACE,),
    "A04": (_IN_PLACE, _ODD),
    "A05": (_HERE + "test_the_open_turn_s_own_messages_are_never_changed", _IN_PLACE),
    "A06": (_IN_PLACE, "test_masking.py::test_the_context_estimate"),
    "A07": (_IN_PLACE,),
    "A08": ("formats/test_gemini.py::test_an_edit_changes_its_part_alone",),
    "A09": (
        _RESPONSES + "test_an_answer_may_name_either_of_two_ids",
        _CHAT + "test_a_result_may_name_either_of_two_ids",
    ),
    "A11": (_HERE + "test_ids_of_two_halves_are_told_apart_by_both",),
    "A12": (_ODD,),
    "A13": (
        "formats/test_pi.py::test_a_purged_input_is_an_object_with_one_key_and_other_blocks_are_the_same_objects",
        "engine/test_standing.py::test_an_input_s_marker_is_the_one_value_of_an_object",
    ),
    "A14": (_CHAT + "test_arguments_that_are_no_json_stay_text",),
    "A15": (_RESPONSES + "test_pairs_of_every_kind_keep_their_shape",),
    "A16": (_HERE + "test_a_call_without_an_output_goes_out_as_it_came_in_every_format",),
    "A17": (_RESPONSES + "test_an_output_without_an_id_goes_out_as_it_came",),
    "A18": (_HERE + "test_an_empty_output_is_never_replaced_and_no_marker_is_empty",),
    "A19": (_IN_PLACE,),
    "A20": (_IN_PLACE,),
    "A21": (
        "test_transcript.py::test_results_that_stand_in_a_user_message_belong_to_their_calls",
        "formats/test_anthropic.py::test_an_edit_changes_its_part_alone",
    ),
    "A22": (_ODD, "test_transcript.py::test_pairing"),
    "A23": (_HERE + "test_a_denied_or_failed_call_has_its_result",),
    "A24": (
        "test_markers.py::test_a_cut_splits_no_character",
        "test_recall.py::test_a_cut_never_splits_a_character_nor_passes_the_limit",
    ),
    "A26": (_IN_PLACE,),
    "A27": (_BREAKPOINTS, "formats/test_anthropic.py::test_calls_of_the_providers_own_tools_are_opaque"),
    "A28": (_BREAKPOINTS,),
    "A29": (_BREAKPOINTS,),
    "A30": (_IN_PLACE, _HERE + "test_an_empty_output_is_never_replaced_and_no_marker_is_empty"),
    "A31": (_IN_PLACE,),
    "A32": ("formats/test_anthropic.py::test_a_result_that_brings_tools_is_opaque",),
    # what is out of date
    "B01": ("strategies/test_superseded_file_ops.py::test_what_is_stale",),
    "B04": ("test_tools.py::test_covering", "strategies/test_dedupe.py::test_what_is_stale"),
    "B07": (_HERE + "test_equal_contents_of_two_files_are_two_outputs",),
    "B08": ("test_tools.py::test_paths_are_resolved_lexically",),
    "B09": (
        _HERE + "test_the_error_message_of_a_failed_call_stays",
        "engine/test_size_floor.py::test_a_marker_that_is_not_smaller_is_not_used",
    ),
    "B10": (_HERE + "test_a_pruned_read_still_names_its_file_and_older_ones_go_too",),
    "B11": (_ODD, "test_transcript.py::test_pairing"),
    "B12": ("test_protections.py::test_default_tools_without_letter_case",),
    "B13": (_HERE + "test_only_the_very_same_command_makes_a_run_stale",),
    "B14": (_APART, _CHANGED),
    "B15": (_STUBS,),
    "B16": (_STUBS,),
    "B17": (
        "pruner/test_fail_open.py::test_a_message_of_a_wrong_type_goes_out_as_it_came_and_the_others_are_pruned",
    ),
    "B19": (_HERE + "test_an_older_copy_of_a_screenshot_goes_and_the_newest_stays",),
    "B20": (
        _BY_HAND + "test_a_second_prune_is_refused_and_a_restore_of_nothing_too",
        _SESSION + "test_the_ledger_is_the_branchs",
    ),
    # session files
    "D01": ("formats/test_claude_code.py::test_lines_repeated_after_a_resume_count_once",),
    "D02": ("formats/test_claude_code.py::test_lines_of_one_answer_are_one_answer_with_the_last_output",),
    "D03": (_SESSION + "test_a_damaged_line_costs_one_warning_and_nothing_else",),
    "D04": (
        _SESSION + "test_a_damaged_line_costs_one_warning_and_nothing_else",
        _SESSION + "test_an_unfinished_last_line_is_closed_first",
    ),
    "D05": (_SESSION + "test_two_outputs_glued_onto_one_line_go_by_their_ids",),
    "D06": ("formats/test_copilot.py::test_an_event_torn_by_line_feeds_leaves_its_neighbours_alone",),
    "D09": ("formats/test_pi.py::test_reading",),
    "D10": ("formats/test_jsonl.py::test_a_line_of_several_megabytes_is_read",),
    "D11": (_SESSION + "test_at_a_gap_the_entry_before_it_in_the_file_is_followed_with_one_warning",),
    "D12": ("formats/test_claude_code.py::test_progress_lines_are_transparent_in_the_chain",),
    "D13": (
        _SESSION + "test_two_processes_that_add_at_once_make_one_branch",
        _SESSION + "test_the_active_leaf_is_the_last_entry_and_any_entry_may_be_asked_for",
    ),
    "D14": (
        "formats/test_codex.py::test_a_compaction_begins_an_epoch_with_the_history_that_replaces_the_old_one",
    ),
    "D15": (
        "formats/test_codex.py::test_a_compaction_begins_an_epoch_with_the_history_that_replaces_the_old_one",
    ),
    # what a cache holds
    "C02": ("e2e/test_pi_content.py::test_the_prefix_changes_with_each_new_decision_and_never_else",),
    "C05": (_RESTART, "e2e/test_pi.py::test_a_session_goes_on_in_a_new_process"),
    # state
    "E01": (
        _SESSION + "test_in_a_fork_references_are_ids",
        _SESSION + "test_a_copied_decision_says_what_its_reference_stands_for",
    ),
    "E02": (_RESTART,),
    "E03": (_RESTART, "cli/test_prune.py::test_the_beginning_of_an_id_is_enough"),
    "E04": (
        "engine/test_laws.py::test_after_any_edits_and_undos_sizes_are_what_goes_out",
        "cli/test_prune.py::test_the_effect_is_measured_in_the_file_and_told",
    ),
    "E06": (_ENGAGEMENT + "test_at_session_start_the_larger_of_usage_and_raw_estimate_counts",),
    "E07": ("cli/test_prune.py::test_processes_that_prune_at_once_lose_nothing",),
    "E08": (_FILES + "test_a_shorter_file_leaves_nothing_of_the_longer_one",),
    "E09": (_FILES + "test_processes_that_write_at_the_same_time_lose_nothing",),
    "E10": ("e2e/test_pi_branches.py::test_another_session_in_the_same_process_and_back",),
    "E11": (_APART,),
    "E12": (_BY_HAND + "test_what_another_process_adds_stands_once_the_ledger_is_followed",),
    "E13": ("pruner/test_masking.py::test_neither_document_acts_on_a_marker_that_the_host_sends_back",),
    "E14": (_CHANGED,),
    # recall and markers
    "G01": (
        _RESOLVES,
        "pruner/test_fail_open.py::test_masking_whose_originals_cannot_be_kept_sends_the_original",
    ),
    "G02": ("test_markers.py::test_every_marker_gives_its_reference_back",),
    "G04": (
        "engine/test_standing.py::test_a_marker_of_ours_is_never_replaced",
        "test_recall.py::test_an_output_that_looks_like_a_marker_is_itself",
    ),
    "G05": (_RESOLVES, "test_recall.py::test_an_unknown_reference_is_said"),
    "G06": (_IN_PLACE,),
    "G07": ("pruner/test_recall.py::test_a_recalled_output_that_is_pruned_again_leads_to_what_was_recalled",),
    "G08": (_HERE + "test_a_recall_through_another_tool_is_an_output_like_any_other",),
    "G09": ("e2e/test_pi_recall.py::test_where_the_model_is_not_offered_recall_nothing_is_pruned",),
    "G10": ("cli/test_recall.py::test_the_reference_in_a_marker_leads_back",),
    "G11": (_RESTART,),
    "G12": ("test_markers.py::test_a_marker_says_what_went_how_large_it_was_and_why",),
    "G13": ("test_markers.py::test_of_more_the_first_and_the_last_ten_stay",),
    "G15": ("e2e/test_pi.py::test_duplicates_go_out_as_markers_and_recall_gives_them_back",),
    "G16": (_HERE + "test_outputs_without_an_id_are_kept_apart_by_being_left_alone",),
    "G17": (
        "test_recall.py::test_a_longer_one_is_cut_and_names_the_full_form_in_one_more_line",
        "pruner/test_recall.py::test_a_recalled_output_that_is_pruned_again_leads_to_what_was_recalled",
    ),
    "G18": ("e2e/test_pi_recall.py::test_where_the_model_is_not_offered_recall_nothing_is_pruned",),
    "G19": ("cli/test_recall.py::test_a_long_output_is_cut_and_the_hint_says_how_to_get_all",),
    "G20": ("test_markers.py::test_each_reason_has_words_of_its_own",),
    "G21": (_APART,),
    # compaction
    "H03": ("e2e/test_pi_recall.py::test_all_forms_on_this_branch_and_on_another",),
    "H05": ("e2e/test_pi_failures.py::test_a_dead_engine_never_leaves_a_compaction_out",),
    # settings and what a person sees
    "I01": (
        "cli/test_prune.py::test_the_effect_is_measured_in_the_file_and_told",
        "cli/test_prune.py::test_a_prune_while_pruning_is_off_says_that_it_has_no_effect",
    ),
    "I02": (_FILES + "test_each_key_knows_the_file_it_comes_from",),
    "I04": (_ENGAGEMENT + "test_window_and_reserve_come_from_the_settings_where_the_host_says_none",),
    "I05": (
        _ENGAGEMENT + "test_masking_can_be_switched_off_alone",
        _RULES + "test_an_applied_edit_keeps_its_bytes_whatever_is_set_later",
    ),
    "I07": (
        _SESSION + "test_appended_entries_are_pis_own_and_follow_the_last_entry",
        _ENGAGEMENT + "test_savings_that_the_usage_lacks_already_are_not_counted_again",
    ),
}

ELSEWHERE = {
    "A33": "no streamed answer is ever put together again: only requests pass through",
    "B18": "no strategy goes by count; to back off where pruned outputs are read again is a gate's business",
    "D08": "a session is read whole; a benchmark holds its memory to a multiple of the file",
    "G14": "no host shows or stops what a model writes yet; the grammar that would tell a marker is tested",
    "I03": "the model is never told to prune, nor that the context grows full",
    "I06": "a subagent has a session of its own, for which its own settings hold",
    "I08": "a claim about measured costs, which the benchmarks and their page have to answer",
}

CLASSES = "ABDEGI"


def test_a_report_is_covered_or_says_why_not():
    assert COVERED.keys().isdisjoint(ELSEWHERE)
    assert len(ELSEWHERE) <= (len(COVERED) + len(ELSEWHERE)) / 4
    assert all(tests for tests in COVERED.values())


@pytest.mark.parametrize("name", sorted({name for tests in COVERED.values() for name in tests}))
def test_the_test_that_is_named_exists(name: str, root: Path):
    path, _, test = name.partition("::")
    assert test in _tests_in(root / "tests" / path)


@functools.cache
def _tests_in(path: Path) -> frozenset[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return frozenset(one.name for one in tree.body if isinstance(one, ast.FunctionDef))


@pytest.mark.corpus
def test_every_report_of_these_classes_is_in_the_table(shared: Path):
    with (shared / "bugs" / "LOG.tsv").open(encoding="utf-8", newline="") as file:
        rows = [row["id"] for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)]
    assert [row for row in rows if row[0] in CLASSES and row not in COVERED.keys() | ELSEWHERE.keys()] == []
    assert (COVERED.keys() | ELSEWHERE.keys()) - set(rows) == set()


# ---- the tests that stand nowhere else


def sent(history: Any, setup: Any = EAGER, format: str = "pi", **options: Any) -> tuple[Any, list[int]]:
    """What goes out of a request, and the positions of what is different in it."""
    before = copy.deepcopy(history)
    done = Pruner(format, Policy(setup), Memory("c")).project(history, **options)
    assert done.error is None
    assert history == before
    return done.request, [one.position for one in done.edits]


PAIRINGS: dict[str, list[Native]] = {
    "a call that never got a result": flat(user(), assistant(call("x", "bash", {"command": LONG})), user()),
    "a result whose call is gone": flat(user(), result("x", LONG), user()),
    "a call whose result comes before it": flat(
        user(), result("x", LONG), assistant(call("x", "read")), user()
    ),
    "results in the order in which they came": flat(
        user(),
        assistant(call("1", "a"), call("2", "b"), call("3", "c")),
        result("3"),
        result("1"),
        result("2"),
    ),
    "an answer that stands there twice": flat(
        user(), assistant(call("x", "bash")), assistant(call("x", "bash")), result("x"), user()
    ),
    "a result that stands there twice": flat(
        user(), assistant(call("x", "bash")), result("x"), result("x"), user()
    ),
    "the user speaks before the result": flat(
        user(), assistant(call("x", "bash")), user("stop"), result("x")
    ),
}


@pytest.mark.parametrize("case", list(PAIRINGS))
def test_odd_pairings_go_out_as_they_came(case: str):
    """And they stop nothing: what may go beside them still goes."""
    history = PAIRINGS[case]
    request, _ = sent(history)
    assert request is history
    around = flat(user(), read("c1", "a.py"), history, read("c2", "a.py"), turns(7))
    request, edited = sent(around)
    assert edited == [2]
    assert [one is other for one, other in zip(request, around, strict=True)].count(False) == 1


def test_the_open_turn_s_own_messages_are_never_changed():
    """Its thinking belongs to its calls: however eager the settings, its inputs stay."""
    failing = used("c1", "bash", {"command": LONG}, "no", error=True)
    failing[0]["content"].insert(0, thinking("so", "signed"))
    history = flat(user(), failing, used("c2", "bash", {"command": LONG}, "no", error=True))
    assert sent(history)[1] == []
    request, edited = sent(flat(history, user()))
    assert edited == [1, 3]
    assert request[1]["content"][0] is history[1]["content"][0]


def test_ids_of_two_halves_are_told_apart_by_both():
    history = flat(
        user(),
        assistant(
            call("call_a|fc_1", "bash", {"command": "ls"}), call("call_a|fc_2", "bash", {"command": "pwd"})
        ),
        result("call_a|fc_1", LONG, name="bash"),
        result("call_a|fc_2", LONG, name="bash"),
        used("call_b|fc_1", "bash", {"command": "ls"}, LONG),
        user(),
    )
    assert sent(history)[1] == [2]


FORMATS: dict[str, list[Any]] = {
    "pi": flat(user(), assistant(call("x", "bash", {"command": LONG})), user()),
    "anthropic": [
        {"role": "user", "content": "go"},
        {
            "role": "assistant",
            "content": [{"type": "tool_use", "id": "x", "name": "bash", "input": {"c": LONG}}],
        },
        {"role": "user", "content": "on"},
    ],
    "openai-chat": [
        {"role": "user", "content": "go"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "x", "type": "function", "function": {"name": "bash", "arguments": LONG}}],
        },
        {"role": "user", "content": "on"},
    ],
    "openai-responses": [
        {"type": "message", "role": "user", "content": "go"},
        {"type": "function_call", "call_id": "x", "name": "bash", "arguments": LONG},
        {"type": "message", "role": "user", "content": "on"},
    ],
    "gemini": [
        {"role": "user", "parts": [{"text": "go"}]},
        {"role": "model", "parts": [{"functionCall": {"name": "bash", "args": {"command": LONG}}}]},
        {"role": "user", "parts": [{"text": "on"}]},
    ],
}


@pytest.mark.parametrize("format", list(FORMATS))
def test_a_call_without_an_output_goes_out_as_it_came_in_every_format(format: str):
    history = FORMATS[format]
    request, edited = sent(history, format=format, window=100, reserve=0)
    assert request is history
    assert edited == []


@pytest.mark.parametrize("output", ["", " \n", "\t"])
def test_an_empty_output_is_never_replaced_and_no_marker_is_empty(output: str):
    pruned = {"protections": {"recentTurns": 0}, "thresholds": {"minCharsSaved": -(10**6)}}
    for setup in (EAGER, pruned):
        history = flat(user(), read("c1", "a.py", output), read("c2", "a.py", output), turns(3))
        assert sent(history, setup, window=1, reserve=0)[1] == []
    request, [position] = sent(flat(user(), read("c1", "a.py"), read("c2", "a.py"), user()))
    assert request[position]["content"][0]["text"].strip()


@pytest.mark.parametrize("said", ["denied by the user", "cancelled", "Command exited with code 130"])
def test_a_denied_or_failed_call_has_its_result(said: str):
    """It completes its call, which is old enough to lose its input; what it says stays."""
    history = flat(user(), used("c1", "bash", {"command": LONG}, said, error=True), user())
    request, edited = sent(history)
    assert edited == [1]
    assert request[2] is history[2]


def breakpoints(messages: list[Any]) -> list[tuple[int, int, Any]]:
    return [
        (position, part, block["cache_control"])
        for position, message in enumerate(messages)
        for part, block in enumerate(message["content"])
        if "cache_control" in block
    ]


def test_cache_breakpoints_stay_where_and_as_they_are():
    short, long = {"type": "ephemeral"}, {"type": "ephemeral", "ttl": "1h"}

    def asked(id: str, **more: Any) -> dict[str, Any]:
        block = {"type": "tool_use", "id": id, "name": "Read", "input": {"file_path": "a.py"}, **more}
        return {"role": "assistant", "content": [block]}

    def answered(id: str, **more: Any) -> dict[str, Any]:
        block = {"type": "tool_result", "tool_use_id": id, "content": LONG, **more}
        return {"role": "user", "content": [block]}

    by_code = {"caller": {"type": "code_execution_20250825", "tool_id": "s"}}
    history: list[Any] = [
        {"role": "user", "content": [{"type": "text", "text": "go", "cache_control": long}]},
        asked("c1", cache_control=long),
        answered("c1", cache_control=short),
        asked("c2", **by_code),
        answered("c2"),
        {"role": "user", "content": [{"type": "text", "text": "on", "cache_control": short}]},
    ]
    request, edited = sent(history, format="anthropic")
    assert edited == [2]
    assert breakpoints(request) == breakpoints(history)
    assert len(breakpoints(request)) == 4


def test_equal_contents_of_two_files_are_two_outputs():
    history = flat(user(), read("c1", "/repo/main.ts"), read("c2", "/repo-wt/main.ts"), turns(2))
    assert sent(history)[1] == []


def test_the_error_message_of_a_failed_call_stays():
    history = flat(user(), used("c1", "bash", {"command": LONG}, LONG, error=True), turns(9))
    request, edited = sent(history)
    assert edited == [1]
    assert request[2] is history[2]


def test_a_pruned_read_still_names_its_file_and_older_ones_go_too():
    pruner = Pruner("pi", Policy(EAGER), Memory("c"))
    history = flat(user(), read("c1", "AGENTS.md"), read("c2", "b.py"), read("c3", "b.py"), user())
    assert [one.position for one in pruner.project(history).edits] == [4]
    longer = flat(history, read("c4", "AGENTS.md"), user())
    done = pruner.project(longer)
    assert [one.position for one in done.edits] == [2, 4], "older than what was pruned already"
    assert done.request[1] is longer[1], "the call names its file as before"


def test_only_the_very_same_command_makes_a_run_stale():
    history = flat(
        user(),
        bash("c1", "npm test", LONG, error=True),
        bash("c2", "npm test -- a.test.ts"),
        bash("c3", "git status"),
        write("c4", "b.ts", "ok"),
        bash("c5", "npm  test"),
        user(),
    )
    assert 2 not in sent(history)[1]
    assert sent(flat(history, bash("c6", "npm test"), user()))[1] == [2]


@pytest.mark.parametrize("setup", ["eager", "always, unprotected"])
def test_an_output_that_refers_to_an_earlier_one_does_not_replace_it(setup: str):
    """Some hosts answer a second read with a line that says: as before. The first one is all there is."""

    def asked(id: str) -> dict[str, Any]:
        function = {"name": "read_file", "arguments": '{"file_path": "/w/a.py"}'}
        return {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": id, "type": "function", "function": function}],
        }

    def answered(id: str, content: str) -> dict[str, Any]:
        return {"role": "tool", "tool_call_id": id, "content": content}

    start = [{"role": "user", "content": "go"}, asked("c1"), answered("c1", LONG), asked("c2")]
    last = {"role": "user", "content": "on"}
    stub = "[File unchanged since last read of a.py, which is still what the file holds]"
    unchanged = [*start, answered("c2", stub), last]
    assert sent(unchanged, SETTINGS[setup], "openai-chat")[0] is unchanged
    changed = [*start, answered("c2", LONG), last]
    assert sent(changed, SETTINGS[setup], "openai-chat")[1] == [2]


def test_an_older_copy_of_a_screenshot_goes_and_the_newest_stays():
    shots = [
        used(f"c{number}", "screenshot", {}, text(f"shot {number}"), image(9_000)) for number in range(4)
    ]
    history = flat(user(), *shots, user())
    request, edited = sent(history, window=1_000, reserve=0)
    assert edited == [2, 4, 6]
    assert request[8] is history[8]


def test_a_recall_through_another_tool_is_an_output_like_any_other():
    """Under a name of its own it goes by its own reference: nothing is lost, and nothing goes in a circle."""
    wrapped = used("c2", "exec", {"code": "recall('c1')"}, LONG * 9)
    history = flat(user(), bash("c1", "make", LONG * 9), wrapped, assistant("on"), user())
    store = Memory("c")
    done = Pruner("pi", Policy(EAGER), store).project(history, window=100, reserve=0)
    references = [markers.reference_in(one.text) for one in done.edits]
    assert references == ["c1", "c2"]
    assert [recall.recall(store, f"{one}:full") for one in references] == [LONG * 9] * 2


def test_outputs_without_an_id_are_kept_apart_by_being_left_alone():
    history = flat(user(), [result("", LONG * 9), result("", LONG * 8)], user())
    assert sent(history, window=100, reserve=0)[0] is history
