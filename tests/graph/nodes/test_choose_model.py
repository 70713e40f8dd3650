"""A chat model sees what was measured and may prefer another base model that is possible; without its answer code decides."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.chat_server import Call, Refuse, Reply, chat_server
from tests.conftest import ROOT
from tuneloop.core.files import read_model
from tuneloop.core.run_spec import RunSpec
from tuneloop.core.settings import Settings
from tuneloop.graph.context import Context
from tuneloop.graph.nodes.choose_model import ITEMS, chosen_model, decide
from tuneloop.graph.state import State
from tuneloop.tools.benchmark_items.resolve import check_benchmark, resolve_benchmark
from tuneloop.tools.hub.base_models import JudgedModel, ModelChoice
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


# Chooses between the embedded model and one that cannot be had, and is gone in the middle of its measurement where it is told so.
CHOOSE = """\
import os, signal, sys
from pathlib import Path
from tests.graph.nodes.test_choose_model import run_without_model
from tuneloop.graph.nodes import choose_model
from tuneloop.tools.benchmark_items.resolve import resolve_benchmark
from tuneloop.tools.hub.base_models import find_candidates
ctx = run_without_model(Path(sys.argv[1]))
(tiny,) = (one for one in find_candidates(ctx.settings) if one.name == "tiny")
choose_model.find_candidates = lambda settings: [tiny, tiny.model_copy(update={"name": "tiny-2"})]
def say(what, done, total):
    if sys.argv[2] == "killed" and list(ctx.settings.home.root.rglob("jobs/*/lock")):
        os.kill(os.getpid(), signal.SIGKILL)
print(choose_model.chosen_model(ctx, resolve_benchmark("wordproblems", ctx.settings.home, settings=ctx.settings), (), say))
"""


def test_choice_goes_on_after_a_kill_in_the_middle_of_a_probe(warm_home: Path) -> None:
    run = run_without_model(warm_home).run

    def choose(how: str) -> subprocess.CompletedProcess[str]:
        argv = [sys.executable, "-c", CHOOSE, str(warm_home), how]
        env = {**os.environ, "PYTHONPATH": str(ROOT)}
        return subprocess.run(argv, env=env, capture_output=True, text=True, check=False, timeout=300)

    assert choose("killed").returncode == -signal.SIGKILL
    assert not run.model_choice.exists(), "nothing is chosen by half a measurement"
    after = choose("whole")
    assert after.stdout.strip() == "tiny", after.stderr[-2000:]
    found = read_model(run.model_choice, ModelChoice)
    assert [(one.name, one.items) for one in found.judged if not one.refused] == [("tiny", ITEMS)]
    assert found.judged[0].value is not None
    assert choose("killed").stdout.strip() == "tiny", "what is chosen is not measured again"
    assert len(list(warm_home.rglob("jobs/evaluate.*/command.json"))) == 1, "the job that went on was waited for"


def test_where_the_nodes_alone_have_gpus_nothing_is_measured_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TUNELOOP_DEVICE", "cuda")
    monkeypatch.setattr("tuneloop.graph.nodes.choose_model.gpu_memory", dict)
    settings = Settings(FT_FILE_PATH=tmp_path, TUNELOOP_GPU_MEMORY=str(80 << 30))
    run = settings.home.run("r1")
    write_manifest(run, RunSpec(benchmark="wordproblems", base_model="auto", loop_n=1, executor="slurm"))
    folder = resolve_benchmark("wordproblems", settings.home, settings=settings)
    ctx = Context(run, settings, State(run_id="r1"))
    chosen = chosen_model(ctx, folder, (), lambda *_: None)
    found = read_model(run.model_choice, ModelChoice)
    best = max((one for one in found.judged if not one.refused), key=lambda one: one.rank)
    assert (chosen, best.value) == (best.name, None) and best.parameters > 10**9
    assert "none was measured" in found.reason


def run_without_model(home: Path) -> Context:
    """A run that names no base model; nobody thinks."""
    settings = Settings(FT_FILE_PATH=home)
    run = settings.home.run("r1")
    if not run.spec.is_file():
        write_manifest(run, RunSpec(benchmark="wordproblems", base_model="auto", loop_n=1))
    return Context(run, settings, State(run_id="r1"))


def context(home: Path, url: str) -> Context:
    settings = Settings(FT_FILE_PATH=home, CHAT_MODEL="m", OPENAI_API_KEY="k", OPENAI_API_BASE=url)
    run = settings.home.run("r1")
    write_manifest(run, RunSpec(benchmark="gsm8k", base_model="auto", loop_n=2))
    return Context(run, settings, State(run_id="r1"))
