"""Token estimators: how large a part or message is, in tokens, without a tokenizer.

Two are specified: `DOCUMENTED` prices strategies and the gate, `PI` is pi's own and speaks for
context size and masking. Both count characters as UTF-16 units, as their hosts do, and divide by four.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from prunewise.transcript import Image, Message, Part, Shell, Text, Thinking, ToolCall, ToolResult


def utf16_length(text: str) -> int:
    """The length in UTF-16 units, as JavaScript counts; lone surrogates count one."""
    if text.isascii():
        return len(text)
    # Beyond the basic plane a character has two units; in UTF-8, which is encoded fastest, it has four bytes.
    encoded = text.encode("utf-8", "surrogatepass")
    return len(text) + sum(encoded.count(first) for first in range(0xF0, 0xF5))


def text_tokens(text: str) -> int:
    """A quarter of the UTF-16 length, rounded up."""
    return (utf16_length(text) + 3) // 4


class Estimator(msgspec.Struct, frozen=True):
    """How one host estimates. `message` is a whole message in tokens; `image` is one image in tokens."""

    name: str
    message: Callable[[Message], int]
    image: int

    def content(self, result: ToolResult) -> int:
        """A result's content in tokens, part by part, images included."""
        content = result.content
        if len(content) == 1 and type(content[0]) is Text:
            return text_tokens(content[0].text)
        return sum(text_tokens(part.text) if type(part) is Text else self.image for part in content)


_DOCUMENTED_IMAGE = 1200
_PI_IMAGE_CHARACTERS = 4800
_COUNTED = frozenset({"user", "assistant", "tool"})


def _documented_part(part: Part) -> int:
    """A part that is neither text, call nor result."""
    if type(part) is Thinking:
        return text_tokens(part.text)
    return _DOCUMENTED_IMAGE if type(part) is Image else 0


def _documented_message(message: Message) -> int:
    if message.role not in _COUNTED:
        return 0
    total = 0
    for part in message.parts:
        if type(part) is Text or type(part) is ToolCall:  # nearly all there is, so without the detour
            text = part.text
            total += ((len(text) if text.isascii() else utf16_length(text)) + 3) // 4
        elif type(part) is ToolResult:
            total += DOCUMENTED.content(part)
        else:
            total += _documented_part(part)
    return total


def _pi_characters(part: Part) -> int:
    match part:
        case Text() | Thinking():
            return utf16_length(part.text)
        case ToolCall():
            return utf16_length(part.name) + utf16_length(part.text)
        case ToolResult():
            return sum(
                utf16_length(piece.text) if type(piece) is Text else _PI_IMAGE_CHARACTERS
                for piece in part.content
            )
        case Image():
            return _PI_IMAGE_CHARACTERS
        case Shell():
            return utf16_length(part.command) + utf16_length(part.output) if part.sent else 0
        case _:
            return 0


def _pi_message(message: Message) -> int:
    return (sum(_pi_characters(part) for part in message.parts) + 3) // 4


DOCUMENTED = Estimator("documented", _documented_message, _DOCUMENTED_IMAGE)
"""Each text, thinking and arguments rounded up by itself; an image 1,200; roles other than user,
assistant and tool 0 (dynamic-context-pruning 0.1.6)."""

PI = Estimator("pi", _pi_message, _PI_IMAGE_CHARACTERS // 4)
"""Each message rounded up as a whole; an image 4,800 characters; a call its name and arguments (pi 1.6.0)."""
