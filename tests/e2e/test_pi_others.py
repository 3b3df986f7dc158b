"""The real pi with other extensions that have tools or commands of the same names, or prune too."""

import os
import signal
import time

import pytest
from tests.e2e.model_server import ModelServer
from tests.e2e.pi_agent import Pi, engine_of
from tests.e2e.test_pi_failures import reading_twice

pytestmark = pytest.mark.e2e

TOOL = """pi.registerTool({
	name: "recall", label: "R", description: "Look something up.",
	parameters: { type: "object", properties: {} },
	async execute() { return { content: [{ type: "text", text: "of the other" }] }; },
});"""
LOADED = f"export default function (pi) {{ {TOOL} }}"
STARTED = f'export default function (pi) {{ pi.on("session_start", () => {{ {TOOL} }}); }}'
COMMANDS = """export default function (pi) {
	for (const name of ["prune", "pruning", "context-pruning"]) {
		pi.registerCommand(name, { description: "of another", async handler() {} });
	}
}"""


@pytest.mark.parametrize("name", ["aaa.ts", "zzz.ts"])
@pytest.mark.parametrize("mode", ["print", "rpc"])
def test_another_tool_recall_has_prunewise_stand_down(pi: Pi, model: ModelServer, name: str, mode: str):
    """Whichever of the two pi loads first: it starts, and the tool is the other one's."""
    (pi.agent / "extensions" / name).write_text(LOADED)
    reading_twice(pi, model)
    if mode == "print":
        done = pi.run("-p", "Read it twice.")
        assert (done.returncode, done.stdout.strip()) == (0, "Done.")
        said = done.stderr
        assert said.count("prunewise:") == 1
    else:
        with pi.rpc() as rpc:
            rpc.prompt("Read it twice.")
            (said,) = rpc.notes()
            (refused,) = rpc.command("/context-pruning status")
            assert "a tool recall too" in refused
    assert f"another extension has a tool recall too ({pi.agent / 'extensions' / name})" in said
    assert model.asked[-1].tools.count("recall") == 1
    assert model.asked[-1].results["call_1_0"].startswith("a line")
    assert "Look something up." in str(model.asked[-1].body["tools"])
    assert pi.custom("decision") == []


@pytest.mark.parametrize("name", ["aaa.ts", "zzz.ts"])
def test_another_tool_recall_that_comes_later_is_never_named_in_a_marker(
    pi: Pi, model: ModelServer, name: str
):
    (pi.agent / "extensions" / name).write_text(STARTED)
    reading_twice(pi, model)
    done = pi.run("-p", "Read it twice.")
    assert (done.returncode, done.stdout.strip()) == (0, "Done.")
    ours = "marker of the form" in str(model.asked[-1].body["tools"])
    assert model.asked[-1].results["call_1_0"].startswith("[prunewise") == ours
    assert ours or done.stderr.count("prunewise:") == 1


@pytest.mark.parametrize("name", ["aaa.ts", "zzz.ts"])
def test_commands_of_two_extensions_never_reach_the_model(pi: Pi, model: ModelServer, name: str):
    other = pi.agent / "extensions" / name
    other.write_text(COMMANDS)
    reading_twice(pi, model)
    with pi.rpc() as rpc:
        rpc.prompt("Read it twice.")
        warnings = [note for note in rpc.notes() if "prunes too" in note]
        assert len(warnings) == 1
        assert str(other) in warnings[0]
        for command in ("/prune", "/pruning settings", "/context-pruning off"):
            (said,) = rpc.command(command)
            assert f"there are two commands {command.split()[0]}: give /" in said
        asked = rpc.ask(type="get_commands")["data"]["commands"]
        (own,) = [one["name"] for one in asked if one["description"].startswith("Status and control")]
        assert "enabled: on" in rpc.command(f"/{own} status")[0]
    assert len(model.asked) == 3
    assert model.asked[-1].results["call_1_0"].startswith("[prunewise")


def test_a_request_that_is_aborted_waits_for_no_engine(pi: Pi, model: ModelServer):
    reading_twice(pi, model)
    with pi.rpc(PRUNEWISE_DEADLINE_MS="30000") as rpc:
        rpc.prompt("Read it twice.")
        engine = engine_of(rpc)
        os.kill(engine, signal.SIGSTOP)
        started = time.monotonic()
        rpc.ask(type="prompt", message="And now?")
        time.sleep(1)
        rpc.ask(type="abort")
        assert time.monotonic() - started < 15
        assert len(model.asked) == 3
        assert not [note for note in rpc.notes() if "unpruned" in note]
        os.kill(engine, signal.SIGCONT)
        rpc.prompt("Go on.")
        assert engine_of(rpc) == engine
    assert model.asked[-1].results["call_1_0"].startswith("[prunewise")
    assert model.breaks == 1
