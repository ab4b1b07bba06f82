"""An agent's tools: what they show, what counts as an action, what is kept; and over the SDK's own client."""

import asyncio
import json
import os
import sys

import pytest

from trainwreck.evaluation.replay.sandbox.limits import Limits
from trainwreck.scenarios.rescue.board import play
from trainwreck.scenarios.rescue.kept import read
from trainwreck.scenarios.rescue.policies import Never
from trainwreck.scenarios.rescue.remote.agent import NONE_LEFT, NOT_BEGUN, Agent

KNOWN = ("mask_missing", "high_lr")


@pytest.fixture
def agent(pair, tmp_path):
    def made(cases=pair, **limits):
        return Agent("agent", cases, tmp_path / "out.jsonl", Limits(**limits), KNOWN, profile="common", block=10)

    return made


def kept(tmp_path):
    return {one.run_id: one for one in read(tmp_path / "out.jsonl")[1]}


def to_the_end(agent):
    while not (found := agent.act("continue"))["ended"]:
        pass
    return found


def test_an_agent_sees_each_row_once_and_its_episodes_are_those_of_a_policy(pair, agent, tmp_path):
    class Same(Never):
        causes = ("mask_missing",)

        def reset(self, seed):
            self.gone_back = False

        def act(self, seen):
            if seen.step == 30 and not self.gone_back:
                self.gone_back = True
                return "roll_back=20"
            return "rate=0.5" if seen.step == 20 else "continue"

    played, gone_back = agent(), False
    assert played.act("stop") == {"message": NOT_BEGUN}
    for number in (1, 2):
        steps, gone_back = [], False
        seen = played.observe()
        assert (seen["episode"], seen["left"], seen["rows"]) == (number, 2 - number, [])
        assert not {one.spec.run_id for one in pair} & set(json.dumps(seen).split('"'))
        while not seen["ended"]:
            action = {20: "rate=0.5", 30: "continue" if gone_back else "roll_back=20"}.get(seen["step"], "continue")
            gone_back = gone_back or action == "roll_back=20"
            if played.act(action)["ended"]:
                break
            seen = played.observe()
            steps.append((seen["rolled_back"], [row["step"] for row in seen["rows"]]))
        assert steps[:4] == [
            (False, list(range(10))), (False, list(range(10, 20))), (False, list(range(20, 30))),
            (True, list(range(10, 20))),
        ]  # fmt: skip
        assert played.diagnose(["mask_missing"])["causes"] == ["mask_missing"]
    assert played.observe() == {"left": 0, "message": NONE_LEFT}
    for one in play(Same, pair):
        mine = kept(tmp_path)[one.run_id]
        assert (mine.policy, mine.status) == ("agent", "ok")
        assert mine.to_json() | {"policy": ""} == one.to_json() | {"policy": ""}


def test_whatever_goes_wrong_is_a_status_and_the_run_goes_on_untouched(pair, agent, tmp_path):
    (untouched,) = play(Never, pair[:1])
    played = agent(pair[:1])
    played.observe()
    found = played.act("explode")
    assert found["refused"].startswith("garbage: action: 'explode' is not allowed")
    assert found["step"] == 10
    assert played.act("rate=99")["refused"].startswith("garbage: action rate: 99 is not allowed")
    assert played.act("x" * 300)["refused"].startswith("garbage: action: 300 characters are not allowed")
    assert played.ask("gremlins")["refused"].startswith("garbage: ask: 'gremlins' is not allowed")
    assert played.diagnose(["gremlins"])["refused"].startswith("garbage: causes: 'gremlins' not allowed")
    assert to_the_end(played)["status"].startswith("garbage: action: 'explode'")
    assert "the episode has ended (end)" in played.act("stop")["refused"]
    (one,) = kept(tmp_path).values()
    assert (one.final, one.trained, one.spent, one.acted) == (untouched.final, 60, 0, None)
    assert one.status == found["status"]


def test_an_action_after_the_end_is_a_status(pair, agent, tmp_path):
    played = agent(pair[:1])
    played.observe()
    assert played.act("stop")["ended"] == "stopped"
    played.act("rate=0.5")
    (one,) = kept(tmp_path).values()
    assert one.status == "garbage: action: rate=0.5 is not allowed; the episode has ended (stopped)"
    assert [text for _, text, _ in one.actions] == ["stop", "continue"]


def test_a_late_call_and_a_client_that_leaves_are_statuses(pair, agent, tmp_path):
    untouched = {one.run_id: one for one in play(Never, pair)}
    late = agent(row_seconds=1e-9)
    late.observe()
    assert late.act("stop")["ended"] == "end"
    (one,) = kept(tmp_path).values()
    assert one.status == "timeout: no call within 1e-09 s"
    assert one.final == untouched[one.run_id].final
    leaves = agent()
    assert leaves.observe()["left"] == 0  # one of two is kept already
    leaves.act("continue")
    leaves.leave()
    (other,) = (found for found in kept(tmp_path).values() if found.run_id != one.run_id)
    assert other.status == "crashed: the client left"
    assert other.final == untouched[other.run_id].final


def test_questions_are_answered_and_priced(pair, agent):
    played = agent(pair[:1])
    played.observe()
    played.act("continue")
    assert played.ask("nonfinite_loss")["answer"] == "nonfinite_loss: no alarm"
    assert played.ask("attention_entropy")["step"] == 10
    played.act("continue")
    seen = played.observe()
    assert seen["spent"] == pytest.approx(0.01)
    assert [("attention_entropy" in row) for row in seen["rows"]] == [False] * 10 + [True] * 10


def test_a_scripted_agent_plays_over_the_sdk(tmp_path):
    """The command as a client starts it, every tool, and the table of what was kept."""
    from mcp import Client, StdioServerParameters

    words = ["rescue", "sample", "--runs", "1", "--block", "100", "--mcp", "--out", str(tmp_path / "out.jsonl")]

    async def script():
        answers = []
        parameters = StdioServerParameters(
            command=sys.executable,
            args=["-m", "trainwreck", *words, "--policy", "scripted"],
            cwd=str(tmp_path),
            env=dict(os.environ),
        )

        async with Client(parameters) as client:

            async def call(name, **arguments):
                found = await client.call_tool(name, arguments)
                answers.append(json.loads(found.content[0].text))
                return answers[-1]

            tools = {tool.name: tool for tool in (await client.list_tools()).tools}
            while (await call("observe")).get("rows") is not None:
                await call("ask", what="playbook")
                await call("diagnose", causes=["high_lr"])
                while not (await call("act", action="rate=0.5"))["ended"]:
                    await call("observe")
        return tools, answers

    tools, answers = asyncio.run(asyncio.wait_for(script(), 300))
    assert set(tools) == {"observe", "ask", "act", "diagnose"}
    assert all(tool.description for tool in tools.values())
    assert answers[-1] == {"left": 0, "message": NONE_LEFT}
    head, found = read(tmp_path / "out.jsonl")
    assert head == {"profile": "common", "block": 100}
    assert [(one.policy, one.status, one.diagnosis) for one in found] == [("scripted", "ok", ("high_lr",))] * 3
    assert not {one.run_id for one in found} & set(json.dumps(answers).split('"'))
