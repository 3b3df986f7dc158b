"""Fitting the priced policy to recorded sessions."""

from typing import Any

import msgspec
from tests import build
from tests.build import flat, used, user

from prunewise import tools
from prunewise.recording import Epoch, LLMCall, Recording
from prunewise.replay.calibrate import calibrate, is_first, tried
from prunewise.replay.session import Question
from prunewise.settings import DEFAULTS

TEXT = "".join(f"row_{n} of it\n" for n in range(500))


def recording(name: Any):
    steps = [used(f"{name}{n}", "bash", {"command": f"frob {n}"}, f"{name} {n}\n{TEXT}") for n in range(22)]
    messages = build.messages(flat(user(), *steps))
    calls = [LLMCall(at) for at, one in enumerate(messages) if one.role == "assistant"]
    return Recording("pi", name, name, (Epoch(tuple(messages), tuple(calls)),), tools.PI)


def test_it_fits_on_one_half_and_reports_on_the_other():
    sessions = [recording(f"s{n}") for n in range(4)]
    short = msgspec.structs.replace(sessions[0], epochs=())
    found = calibrate([*sessions, short], Question(()), {"trim_lines": (8, 2)})
    assert found.fitted_on == sum(map(is_first, sessions))
    assert found.held_out == 4 - found.fitted_on
    assert found.saved >= found.by_default > 0.3
    assert found.gains
    assert found.settings.trim_lines == 2


def test_without_sessions_the_defaults_stay():
    found = calibrate([], Question(()))
    assert found.settings == DEFAULTS.priced
    assert not found.gains


def test_the_defaults_are_tried_first():
    assert tried()[0] == DEFAULTS.priced
    assert len(tried()) == len({str(one) for one in tried()})
