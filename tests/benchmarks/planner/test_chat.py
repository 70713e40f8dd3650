"""A chat model plays in the same space, through the planner of the loop."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

from tests.chat_server import Call, Reply, chat_server
from tuneloop.core.layout import RunFolder
from tuneloop.core.settings import Settings

if TYPE_CHECKING:
    from planner.simulated_task import SimulatedTask


def test_a_chat_model_is_asked_as_in_the_loop(simulated: SimulatedTask, tmp_path: Path) -> None:
    from planner.players import chat
    from planner.simulate import Trial

    idea = simulated.arena.space.hypothesis(simulated.arena.space.draw(Random(11)))

    def say(asked: dict[str, Any]) -> Reply:
        offered = {tool["function"]["name"] for tool in asked["tools"]}
        if "Critique" in offered:
            return Reply("", (Call("Critique", {"explanation": "e", "lesson": "l", "blame": "none"}),))
        assert "data_profile_dataset" in offered
        assert "evaluation_evaluate" not in offered
        return Reply("", (Call("Hypothesis", json.loads(idea.model_dump_json())),))

    with chat_server(say) as server:
        settings = Settings.model_validate(
            {"FT_FILE_PATH": tmp_path, "CHAT_MODEL": "m", "OPENAI_API_KEY": "k", "OPENAI_API_BASE": server.url}
        )
        run = RunFolder(tmp_path / "runs" / "x")
        run.root.mkdir(parents=True)
        player = chat(settings, run, tmp_path / "calls")
        trial = Trial(simulated, 2, 1)
        player.play(trial, 1)
    assert [row.hypothesis.data_plan for row in trial.journal] == [idea.data_plan] * 2
    assert [row.lesson for row in trial.journal] == ["l", "l"]
    first = json.dumps(server.seen[0])
    assert "What a recipe can be here" in first
    assert "require_steps" in first
    assert len(list((tmp_path / "calls").glob("*/*.calls.jsonl"))) == 4
