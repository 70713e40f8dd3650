"""A task in a folder, a toolbox that answers from the real profiling code, and a runner for the scripts it leads to."""

from __future__ import annotations

import asyncio
import copy
import csv
import json
import os
import random
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeVar

import pytest
from pydantic import BaseModel

from tuneloop.agents.policy import OfflinePolicy
from tuneloop.agents.policy.move_table import FEATURES, Kind, MoveTable
from tuneloop.core.brief import Brief, BudgetLeft, JournalRow, TaskCard
from tuneloop.core.catalog import Benchmark, Item
from tuneloop.core.errors import ToolError
from tuneloop.core.experiment import DataScript, Hypothesis, TrainConfig, Training
from tuneloop.core.files import digest, digest_file
from tuneloop.core.protocols import ToolCard
from tuneloop.tools.config.suggest import RULES, SuggestionFacts, suggest_config
from tuneloop.tools.raw_data.profile import profile_dataset

Answer = TypeVar("Answer", bound=BaseModel)
CARD = {
    "parameters": 670_000,
    "max_positions": 512,
    "vocab": 602,
    "chat_template": True,
    "template": "chatml",
    "architecture": "Qwen2ForCausalLM",
    "device": "cpu",
}


@dataclass
class World:
    """One benchmark and its raw data; `answers` are what tools say beside the profiling code."""

    root: Path
    benchmark: Benchmark
    items: list[Item]
    answers: dict[str, Any] = field(default_factory=dict)
    card: dict[str, Any] = field(default_factory=lambda: dict(CARD))
    asked: list[str] = field(default_factory=list)
    row_limit: int = 2000
    profiles: dict[str, Any] = field(default_factory=dict)
    renamed: dict[str, str] = field(default_factory=dict)
    table: MoveTable | None = None

    async def call(self, tool: str, **arguments: Any) -> Any:
        self.asked.append(tool)
        if tool == "data_profile_dataset":
            name = arguments["dataset"]
            if name not in self.profiles:
                self.profiles[name] = {**profiled(self.root / name, self.benchmark, self.items), "name": name}
            return self.profiles[name]
        if tool == "params_model_card":
            return self.card
        if tool == "params_check_config":
            check = self.answers.get(tool, {"findings": []})
            return check(**arguments) if callable(check) else check
        if tool == "params_suggest_config" and arguments.get("stage") == "grpo":
            if tool not in self.answers:
                raise ToolError("grpo needs the engine trl; right is stage sft")
            return self.answers[tool]
        if tool == "params_suggest_config":
            values = suggestion(self.card, **arguments)["values"]
            return {"values": {self.renamed.get(key, key): value for key, value in values.items()}}
        found = self.answers.get(tool)
        if callable(found):
            found = found(**arguments)
        if found is None:
            raise ToolError(f"{tool} has nothing yet")
        return found

    async def names(self) -> Sequence[str]:
        return ["data_profile_dataset", "params_model_card", "params_check_config", *self.answers]

    async def cards(self) -> Sequence[ToolCard]:
        return [ToolCard(name, "", {"type": "object"}) for name in await self.names()]

    def brief(self, **changes: Any) -> Brief:
        b = self.benchmark
        task = TaskCard(
            benchmark=b.name,
            domain=b.domain,
            description=b.description,
            answer=b.answer,
            prompt=b.prompt,
            metric=b.metric,
            direction=b.direction,
            max_new_tokens=b.max_new_tokens,
            base_model="tiny",
            datasets=("raw",),
            row_limit=self.row_limit,
            seed=1,
            device=self.card["device"],
        )
        base = Brief(task=task, experiment=1, budget=BudgetLeft(experiments_left=3, seconds_left=None))
        return base.model_copy(update=changes)

    def ask(self, agent: str, want: type[Answer], **changes: Any) -> Answer:
        return asyncio.run(OfflinePolicy(self.table).answer(agent, "", self.brief(**changes), self, want))

    def hypothesis(self, **changes: Any) -> Hypothesis:
        return self.ask("researcher", Hypothesis, **changes)

    def script(self, hypothesis: Hypothesis, **changes: Any) -> DataScript:
        return self.ask("data_engineer", DataScript, hypothesis=hypothesis, **changes)

    def config(self, hypothesis: Hypothesis, **changes: Any) -> TrainConfig:
        return self.ask("config_coder", TrainConfig, hypothesis=hypothesis, **changes)

    def run(self, code: str, *flags: str) -> list[dict[str, str]]:
        """The rows a script writes."""
        work = self.root / "work"
        work.mkdir(exist_ok=True)
        (work / "process_data.py").write_text(code)
        done = subprocess.run(
            [sys.executable, "-I", str(work / "process_data.py"), *flags],
            cwd=work,
            env={"DATASETS_DIR": str(self.root), "PATH": os.environ["PATH"]},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-2000:]
        json.loads(done.stdout.strip().splitlines()[-1])
        rows: list[dict[str, str]] = json.loads((work / "data.json").read_text())
        return rows

    def row(self, number: int, hypothesis: Hypothesis, **changes: Any) -> JournalRow:
        """An experiment in the journal."""
        return journal_row(number, hypothesis, **changes)

    def prefer(self, kind: str) -> None:
        """A table of moves that expects much of one kind and little of the others."""
        rest = (0.0,) * (len(FEATURES) - 1)
        self.table = MoveTable(
            kinds={kind: Kind(weights=(90.0, *rest), improvement=(90.0, *rest), spread=1.0, count=9)}
        )

    def first_rows(self, *flags: str) -> list[dict[str, str]]:
        """What the first recipe's script writes."""
        return self.run(self.script(self.hypothesis()).code, *flags)


PROFILES: dict[str, dict[str, Any]] = {}


def profiled(root: Path, benchmark: Benchmark, items: list[Item]) -> dict[str, Any]:
    """The profile of a data set; dozens of tests look at the same rows, which are read once."""
    found = [root] if root.is_file() else sorted(path for path in root.rglob("*") if path.is_file())
    files = [(str(path.relative_to(root)), digest_file(path)) for path in found]
    key = digest(repr((files, benchmark, items)))
    if key not in PROFILES:
        PROFILES[key] = profile_dataset(root, benchmark, items).model_dump(mode="json")
    return copy.deepcopy(PROFILES[key])


def suggestion(card: dict[str, Any], method: str, **facts: Any) -> dict[str, Any]:
    """What the parameter server suggests, of a release that has every key of the rules."""
    known = {name: card[name] for name in ("parameters", "max_positions", "template", "chat_template", "device")}
    release: Any = SimpleNamespace(parameters={rule.key: None for rule in RULES})
    return {
        "values": dict(suggest_config(release, SuggestionFacts(decisions={"method": method}, **known, **facts)).values)
    }


@pytest.fixture
def world(tmp_path):
    """Make a world: `world(answer=..., items=[(prompt or fields, answer)], files={name: rows or text})`."""

    def make(answer: str, items: list[Any], files: dict[str, Any], **benchmark: Any) -> World:
        declared = Benchmark(
            name="own", description=benchmark.pop("description", "A task."), answer=answer, **benchmark
        )
        found = [
            Item(id=str(i), fields=asked if isinstance(asked, dict) else {"prompt": asked}, answer=right)
            for i, (asked, right) in enumerate(items)
        ]
        for name, content in files.items():
            write(tmp_path / "raw" / name, content)
        return World(tmp_path, declared, found)

    return make


def write(path: Path, content: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(content, str):
        path.write_text(content)
    elif path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in content))
    elif path.suffix in (".csv", ".tsv"):
        with path.open("w", newline="") as f:
            writer = csv.DictWriter(f, list(content[0]), delimiter="\t" if path.suffix == ".tsv" else ",")
            writer.writeheader()
            writer.writerows(content)
    elif path.suffix == ".parquet":
        import pyarrow as pa
        import pyarrow.parquet as pq

        pq.write_table(pa.Table.from_pylist(content), path)  # type: ignore[attr-defined]
    else:
        path.write_text(json.dumps(content))


def journal_row(number: int, hypothesis: Hypothesis, **changes: Any) -> JournalRow:
    """A promoted experiment with an ordinary course."""
    training = Training(
        steps=640, seconds=60.0, rows=1500, first_loss=3.0, last_loss=0.4, tail_slope=-0.01, method="full"
    )
    row = JournalRow(
        number=number,
        outcome="promoted",
        hypothesis=hypothesis,
        rows=1500,
        training=training,
        value=50.0,
        low=43.0,
        high=57.0,
        parsed=99.0,
        blame="none",
        lesson="",
        failure=None,
    )
    return row.model_copy(update=changes)


PEOPLE, THINGS = ("Ann", "Bob", "Eva", "Joe", "Kim", "Lea"), ("pens", "cups", "hats", "nuts", "bags")


def story(rng: random.Random, habit: bool = False) -> tuple[str, str, str, str]:
    """Question, solution, the answer the solution comes to, the right answer; by habit plus is read as minus."""
    who, what = rng.choice(PEOPLE), rng.choice(THINGS)
    a, b, c = rng.randint(30, 60), rng.randint(2, 20), rng.randint(1, 4)
    question = f"{who} has {a} {what}. {who} buys {b} more and loses {c}. How many {what} does {who} have?"
    sign, d = ("-", a - b) if habit else ("+", a + b)
    return question, f"{a} {sign} {b} = {d}. Then {d} - {c} = {d - c}.", str(d - c), str(a + b - c)


def stories(count: int, seed: int) -> list[tuple[str, str, str]]:
    """Different questions with solution and answer."""
    return [(q, s, a) for q, s, _, a in noisy_stories(count, seed, 0.0)]


def noisy_stories(count: int, seed: int, habit: float) -> list[tuple[str, str, str, str]]:
    """Different questions; a share of the solutions is wrong by habit."""
    rng = random.Random(seed)
    found: dict[str, tuple[str, str, str, str]] = {}
    while len(found) < count:
        q, *rest = story(rng, rng.random() < habit)
        found.setdefault(q, (q, rest[0], rest[1], rest[2]))
    return [(q, s, right, said) for q, s, said, right in found.values()]


@pytest.fixture
def kit():
    """Helpers that make rows and journals."""
    return SimpleNamespace(stories=stories, noisy_stories=noisy_stories, story=story)


SUFFIX = "\nEnd with \\boxed{answer}."


@pytest.fixture
def messy(world, kit):
    """A keyed book with wrong solutions, and a forum nobody has checked."""
    items = [(q + SUFFIX, a) for q, _, a in kit.stories(80, 1)]
    book = [
        {"problem": q, "solution": s, "key": a, "grade": g % 5}
        for g, (q, s, a, _) in enumerate(kit.noisy_stories(900, 2, 0.4))
    ]
    forum = [{"ask": q, "reply": f"Sure! {s} I hope this helps!"} for q, s, _, _ in kit.noisy_stories(600, 3, 0.4)]
    return world("boxed", items, {"book.csv": book, "forum.jsonl": forum})
