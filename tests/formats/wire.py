"""What the tests of the API formats share: JSON that comes close to messages, and what an edit may change."""

from collections.abc import Sequence

from hypothesis import strategies as st

from prunewise.formats import Format, Native
from prunewise.formats.reading import Json
from prunewise.transcript import (
    TOOL_INPUT,
    TOOL_RESULT,
    Message,
    ReplacePart,
    ToolCall,
    ToolResult,
    Transcript,
)

_WORDS = [
    *("user", "assistant", "tool", "function", "system", "developer", "model", "text", "thinking"),
    *("redacted_thinking", "image", "document", "tool_use", "tool_result", "tool_reference", "base64"),
    *("image_url", "input_text", "output_text", "input_image", "refusal", "message", "reasoning"),
    *("function_call", "function_call_output", "custom_tool_call", "custom_tool_call_output"),
    *("local_shell_call", "local_shell_call_output", "shell_call", "shell_call_output", "failed", "custom"),
    *("apply_patch_call", "apply_patch_call_output", "a", "b", '{"path":"x"}', "{broken", "\ud800", ""),
]
_KEYS = [
    *("role", "content", "type", "text", "thinking", "signature", "source", "data", "media_type", "id"),
    *("tool_use_id", "is_error", "name", "input", "cache_control", "tool_calls", "function", "custom"),
    *("arguments", "tool_call_id", "call_id", "image_url", "url", "reasoning", "reasoning_content"),
    *("output", "action", "operation", "command", "commands", "diff", "stdout", "stderr", "summary"),
    *("encrypted_content", "success", "status", "parts", "functionCall", "function_call", "args"),
    *("functionResponse", "function_response", "response", "error", "result", "inlineData", "inline_data"),
    *("mimeType", "thought", "thoughtSignature", "other"),
]
_SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.sampled_from(_WORDS)
)
json_values: st.SearchStrategy[Json] = st.recursive(
    _SCALARS,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(_KEYS) | st.text(max_size=3), inner, max_size=6)
    ),
    max_leaves=25,
)


def transcript(format: Format, request: Json) -> Transcript:
    """The transcript of a request, its messages named m0, m1, ..."""
    natives = format.messages(request)
    return Transcript(
        [format.read(native, f"m{index}") for index, native in enumerate(natives)],
        vocabulary=format.vocabulary,
    )


def edits_of(message: Message, position: int = 0, *, keep_images: bool = False) -> list[ReplacePart]:
    """Every edit that this message could get."""
    kinds = {ToolCall: TOOL_INPUT, ToolResult: TOOL_RESULT}
    return [
        ReplacePart(message.id, position, index, kinds[type(part)], "[marker]", keep_images)
        for index, part in enumerate(message.parts)
        if type(part) in kinds
    ]


def pruned(format: Format, request: Json, *, keep_images: bool = False) -> Json:
    """The request with everything replaced that can be."""
    natives = format.messages(request)
    outgoing = []
    for index, native in enumerate(natives):
        message = format.read(native, f"m{index}")
        outgoing.append(format.apply(native, edits_of(message, index, keep_images=keep_images)))
    return format.replace(request, outgoing)


def same(old: Json, new: Json) -> bool:
    """Whether it is the same object, or an equal scalar."""
    return old is new or (type(old) is type(new) and not isinstance(old, (dict, list)) and old == new)


def changed_paths(old: Json, new: Json, path: tuple[Json, ...] = ()) -> list[tuple[Json, ...]]:
    """Where two JSON values differ: the paths of everything that is not the same object. Keys and
    their order must be the same on the way there."""
    if same(old, new):
        return []
    if isinstance(old, dict) and isinstance(new, dict) and list(old) == list(new):
        return [found for key in old for found in changed_paths(old[key], new[key], (*path, key))]
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        pairs = enumerate(zip(old, new, strict=True))
        return [found for index, (a, b) in pairs for found in changed_paths(a, b, (*path, index))]
    return [path]


def check_reads_anything(format: Format, value: Json) -> None:
    """Reading never raises, and one message has one part at most for each edit that it takes."""
    message = format.read(value, "m0")
    assert message.id == "m0"
    if isinstance(value, dict):
        for edit in edits_of(message):
            assert same_but_one(value, format.apply(value, [edit]))


def same_but_one(old: Native, new: Native) -> bool:
    """Whether at most one key of the message differs, and in a list under it at most one member."""
    differing = [key for key in old if old[key] is not new[key]]
    if list(old) != list(new) or len(differing) > 1:
        return False
    for key in differing:
        a, b = old[key], new[key]
        if key in ("content", "parts", "tool_calls") and isinstance(a, list) and len(a) == len(b) > 1:
            return sum(x is not y for x, y in zip(a, b, strict=True)) == 1
    return True


def check_request(format: Format, request: Json) -> None:
    """A request without edits is itself, and a replaced one keeps every other field."""
    natives: Sequence[Native] = format.messages(request)
    replaced = format.replace(request, natives)
    assert changed_paths(request, replaced) == []
