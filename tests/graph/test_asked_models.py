"""A run whose data script asks models: a provider that is gone pauses it, and then it goes on where it was."""

from __future__ import annotations

from typing import Any

import pytest

from tests.chat_server import chat_server, text_of
from tests.conftest import WholeRun
from tests.graph.outcomes.test_repair import Scripted, nodes, prepared_as, read_state
from tuneloop.core.errors import InfrastructureError
from tuneloop.core.event_log import read_events
from tuneloop.core.events import JobProgress, RunPaused
from tuneloop.core.experiment import DataScript
from tuneloop.core.settings import Settings
from tuneloop.graph.lifecycle.drive import drive

ASKS = """import json, os, sys
from tuneloop_models import ask_many
rows = [json.loads(line) for line in open(os.environ["DATASETS_DIR"] + "/wordproblems/textbook.csv.jsonl")]
rows = rows[:100] if "--debug" in sys.argv else rows[:200]
found = ask_many([row["problem"] for row in rows], temperature=0.7)
data = [
    {"instruction": row["problem"] + "\\nEnd with \\\\boxed{answer}.", "input": "", "output": answer.text}
    for row, answer in zip(rows, found) if answer.text
]
json.dump(data, open("data.json", "w"))
"""


def test_a_provider_that_takes_no_key_pauses_the_run(short_run: WholeRun, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FT_FILE_PATH", str(short_run.home))
    run, _ = prepared_as(short_run, "asks-models")
    planner = Scripted("data_engineer", [DataScript(code=ASKS)])
    monkeypatch.setattr("tuneloop.graph.context.make_planner", lambda *_: planner)
    refused: list[Any] = [(401, {"error": {"message": "no", "code": "invalid_api_key"}})]

    def say(asked: dict[str, Any]) -> Any:
        return refused[0] if refused else f"{len(text_of(asked))}+1={len(text_of(asked)) + 1}\n\\boxed{{7}}"

    with chat_server(say) as chat:
        for name, value in {"API_KEY": "k", "API_BASE": chat.url}.items():
            monkeypatch.setenv(f"OPENAI_{name}", value)
        monkeypatch.setenv("FT_STRONG_MODELS", "big")
        settings = Settings(FT_FILE_PATH=short_run.home)
        with pytest.raises(InfrastructureError, match="it refuses the key"):
            drive(run, settings)
        events = read_events(run.events)[0]
        assert isinstance(events[-1], RunPaused)
        assert "no answer is paid twice" in events[-1].reason
        refused.clear()
        chat.seen.clear()
        drive(run, settings, step_n=1)
        assert len(chat.seen) == 10, "what a try asks"
    assert nodes(run).count("engineer_data") == 1, "nobody has to write it again"
    assert read_state(run) == "build_data"
    told = [event for event in read_events(run.events)[0] if isinstance(event, JobProgress)]
    assert (told[-1].done, told[-1].total, told[-1].unit) == (10, 10, "answers")
