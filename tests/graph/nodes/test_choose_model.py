"""A chat model sees what was measured and may prefer another base model that is possible; without its answer code decides."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chat_server import Call, Refuse, Reply, chat_server
from tuneloop.core.run_spec import RunSpec
from tuneloop.core.settings import Settings
from tuneloop.graph.context import Context
from tuneloop.graph.nodes.choose_model import decide
from tuneloop.graph.state import State
from tuneloop.tools.benchmark_items.resolve import check_benchmark
from tuneloop.tools.hub.base_models import JudgedModel
from tuneloop.tools.llm_proxy.ledger import read_ledger
from tuneloop.tools.runs.manifest import write_manifest

FACTS = {"licence": "MIT", "why": "", "here": True, "memory": 1, "items": 16}
JUDGED = [
    JudgedModel(name="large", parameters=9_000_000, rank=9, value=50, **FACTS),
    JudgedModel(name="small", parameters=1_000_000, rank=1, value=45, **FACTS),
    JudgedModel(name="huge", parameters=99_000_000, rank=99, refused="this machine has 1 GiB", **FACTS),
]


@pytest.mark.parametrize(
    ("prefers", "chosen", "by"),
    [("small", "small", "model_selector"), ("huge", "large", "code"), ("x", "large", "code")],
)
def test_chat_model_may_prefer_what_is_possible(tmp_path: Path, prefers: str, chosen: str, by: str) -> None:
    answer = Call("ModelPreference", {"base_model": prefers, "reason": "it is quick"})
    with chat_server(lambda _: Reply("", (answer,), usage=(100, 10, 0))) as chat:
        ctx = context(tmp_path, chat.url)
        found = decide(ctx, JUDGED, check_benchmark("wordproblems", ctx.settings))
    assert (found.base_model, found.chosen_by) == (chosen, by)
    assert (found.reason == "it is quick") == (by != "code")
    assert read_ledger(ctx.run.ledger)


def test_code_decides_where_no_chat_model_answers(tmp_path: Path) -> None:
    with chat_server(lambda _: Refuse(400, "no")) as chat:
        ctx = context(tmp_path, chat.url)
        found = decide(ctx, JUDGED, check_benchmark("wordproblems", ctx.settings))
    assert (found.base_model, found.chosen_by) == ("large", "code")
    assert "gave no answer" in found.reason


def context(home: Path, url: str) -> Context:
    settings = Settings(FT_FILE_PATH=home, CHAT_MODEL="m", OPENAI_API_KEY="k", OPENAI_API_BASE=url)
    run = settings.home.run("r1")
    write_manifest(run, RunSpec(benchmark="gsm8k", base_model="auto", loop_n=2))
    return Context(run, settings, State(run_id="r1"))
