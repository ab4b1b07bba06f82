"""The tools of `agent.Agent` over the Model Context Protocol, by its Python SDK, on standard input and output.

The SDK is of the extra `mcp`. No model is called: a client with one connects.
"""

from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from trainwreck.evaluation.detectors.registry import AllowedCauses
from trainwreck.evaluation.errors import InputError
from trainwreck.evaluation.replay.sandbox.limits import Limits
from trainwreck.scenarios.rescue.actions import Kind
from trainwreck.scenarios.rescue.outcomes import Case
from trainwreck.scenarios.rescue.remote.agent import Agent
from trainwreck.scenarios.spec.registry import scenarios

SDK = "mcp"
INSTRUCTIONS = f"""Training runs of a small transformer are under way, one after another. Some fail, some are healthy,
some only look as if they failed. Save the failing ones, cheaply, and leave the others alone. Call observe to see the
rows that were logged, then act once a block. A run ends by itself; observe then begins the next, until none is left.
Actions: {", ".join(kind.value for kind in Kind if not kind.value.startswith("ask"))}; with a value as rate=0.3, clip=1,
skip=50, roll_back=50, roll_back_and_skip=50, precision=fp32, loss_scale=dynamic, z_loss=0.001, restore=mask (or
positions, data, model, updates, settings). Steps trained again cost what they are, restore a tenth of a run."""


def agent_of(names: Sequence[str], taken: Sequence[str], out: Path | None) -> Callable[..., Agent]:
    """What makes an agent of runs, limits, profile and block.

    names: one at most, `agent` without. taken: names of policies. Raises InputError for other names, no file, and where
    the SDK is not installed.
    """
    name, *others = names or ["agent"]
    if others or name in taken or not name.isprintable() or not 1 <= len(name) <= 80:
        raise InputError(
            f"policy: {', '.join(names)[:80]!r} is not allowed beside --mcp; allowed: one name of the agent"
        )
    if out is None:
        raise InputError("out: none is not allowed beside --mcp; allowed: a file to keep the episodes in")
    if find_spec(SDK) is None:
        raise InputError(f"mcp: {SDK} is not installed; pip install 'trainwreck[{SDK}]'")

    def made(cases: Sequence[Case], limits: Limits, *, profile: str, block: int) -> Agent:
        known = AllowedCauses(tuple(scenarios()))
        return Agent(name, cases, out, limits, known, profile=profile, block=block)

    return made


def server_of(agent: Agent) -> Any:
    """An `mcp.server.mcpserver.MCPServer` with the tools of an agent."""
    from mcp.server.mcpserver import MCPServer

    server = MCPServer("trainwreck-rescue", instructions=INSTRUCTIONS, log_level="WARNING")
    for tool in (agent.observe, agent.ask, agent.act, agent.diagnose):
        server.tool()(tool)
    return server


def serve(agent: Agent) -> None:
    """Until the client closes its end; what is under way then goes on untouched."""
    try:
        server_of(agent).run("stdio")
    finally:
        agent.leave()
