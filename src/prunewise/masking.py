"""Two-level masking: when the context nears the window, large outputs give way to short references.

The first level stands in front of the host's own compaction. It is a pure function of the messages
and thresholds; the one state is whether it has engaged, which its owner keeps. Sizes are pi's
estimates, in tokens.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from prunewise import markers
from prunewise.settings import Pruning
from prunewise.tokens import PI, text_tokens
from prunewise.tools import Vocabulary
from prunewise.transcript import SHELL_OUTPUT, TOOL_RESULT, Exchange, Kind, Message, Shell, Transcript


class Output(msgspec.Struct, frozen=True):
    """An output that masking may replace: a tool result of an exchange, or a shell command's."""

    message: str
    position: int
    part: int
    kind: Kind
    call_id: str
    """The call's id; for a shell command the message's own."""
    tokens: int
    """Its text's size; images stay and do not count."""
    exchange: Exchange | None = None
    shell: Shell | None = None

    @property
    def text(self) -> str:
        """What it would replace."""
        if self.exchange is not None:
            return self.exchange.result.text
        assert self.shell is not None
        return self.shell.output

    def marker(self, vocabulary: Vocabulary, reference: str) -> str:
        """The marker that would stand in for it."""
        if self.exchange is not None:
            return markers.mask(self.exchange, vocabulary, reference)
        assert self.shell is not None
        return markers.mask_shell(self.shell, reference)


def result_output(exchange: Exchange, message: str) -> Output:
    """The result of an exchange, in the message of this id."""
    tokens = text_tokens(exchange.result.text)
    place = (exchange.result_position, exchange.result_part)
    return Output(message, *place, TOOL_RESULT, exchange.call.id, tokens, exchange)


def shell_output(message: Message, position: int) -> Output | None:
    """The output of a shell command that the user ran in the host; None where the model does not get it."""
    for index, part in enumerate(message.parts):
        if type(part) is Shell and part.sent:
            tokens = text_tokens(part.output)
            return Output(message.id, position, index, SHELL_OUTPUT, message.id, tokens, shell=part)
    return None


class Outputs:
    """The maskable outputs of one transcript, collected as it grows, in the order of their messages."""

    def __init__(self, pruning: Pruning) -> None:
        self._pruning = pruning
        self._seen = 0
        self._exchanges = 0
        self._last_user = -1
        self._large: list[Output] = []
        self._given = 0

    def advance(self, transcript: Transcript) -> Iterator[Output]:
        """What masking may replace from now on: large, and not of the current turn if that is protected."""
        for position in range(self._seen, len(transcript)):
            message = transcript.messages[position]
            if message.role == "user":
                self._last_user = position
            elif message.role == "shell":
                output = shell_output(message, position)
                if output is not None and output.tokens > self._pruning.min_result_tokens:
                    self._large.append(output)
        self._seen = len(transcript)
        for index in range(self._exchanges, len(transcript.exchanges)):
            exchange = transcript.exchanges[index]
            tokens = text_tokens(exchange.result.text)
            if tokens > self._pruning.min_result_tokens and not exchange.reused_id:
                message = transcript.messages[exchange.result_position]
                self._large.append(result_output(exchange, message.id))
        self._exchanges = len(transcript.exchanges)
        self._large[self._given :] = sorted(self._large[self._given :], key=lambda output: output.position)
        end = self._last_user if self._pruning.protect_current_turn else len(transcript)
        while self._given < len(self._large) and self._large[self._given].position < end:
            yield self._large[self._given]
            self._given += 1


def engages(context_tokens: int, window: int, reserve: int) -> bool:
    """Whether the first level engages: strictly above the host's own compaction threshold."""
    return context_tokens > window - reserve


def cancels_compaction(context_tokens: int, savings: int, window: int, reserve: int) -> bool:
    """The compaction check: whether a threshold compaction is not needed, since pruning brings the
    context to the window less twice the reserve. `savings` are those that `context_tokens` lacks.
    """
    return context_tokens - savings <= window - 2 * reserve


class Context:
    """The context estimate of one transcript, in tokens, brought up to date as it grows."""

    def __init__(self) -> None:
        self.raw = 0
        """Every message by its estimate: what a request without any pruning holds, fixed prefix aside."""
        self.usage = 0
        """The last valid usage, 0 where there is none."""
        self.usage_position = -1
        self.trailing = 0
        """The estimate of the messages after the one that carries that usage."""
        self._seen = 0
        self._summary_time = 0.0

    def advance(self, transcript: Transcript) -> None:
        """Take in the messages that were appended since the last call."""
        for position in range(self._seen, len(transcript)):
            message = transcript.messages[position]
            tokens = PI.message(message)
            self.raw += tokens
            if message.role == "other" and message.time is not None:
                self._summary_time = max(self._summary_time, message.time)
            if message.usage is not None and not self._is_stale(message):
                self.usage = message.usage.context_tokens
                self.usage_position = position
                self.trailing = 0
            else:
                self.trailing += tokens
        self._seen = len(transcript)

    @property
    def estimate(self) -> int:
        """The last usage and what came after it, as pi's footer and compaction see the context."""
        return self.usage + self.trailing if self.usage else self.raw

    def _is_stale(self, message: Message) -> bool:
        # A kept answer that is older than the summary before it was given before the compaction:
        # its usage counts messages that are gone.
        return message.time is not None and message.time < self._summary_time
