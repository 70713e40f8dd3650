"""A task: a benchmark's open items to be measured on, and solved problems to be trained on."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tuneloop.core.errors import InvalidRequestError
from tuneloop.core.files import absolute_path, read_lines
from tuneloop.core.run_spec import SandboxKind
from tuneloop.core.settings import Settings
from tuneloop.core.untrusted import read_untrusted_json
from tuneloop.tools.benchmark_items import resolve
from tuneloop.tools.benchmark_items.folder import BenchmarkFolder
from tuneloop.tools.benchmark_items.sources import train_rows
from tuneloop.tools.benchmark_items.training_items import TRAIN, field_text, verifier_item
from tuneloop.tools.config.model_card import load_tokenizer
from tuneloop.tools.contamination.splits import make_guard
from tuneloop.tools.evaluation.item_sets import ItemSet
from tuneloop.tools.evaluation.standalone.measure import Decoding, fetch_benchmarks, sets_of
from tuneloop.tools.evaluation.standalone.run_tools import ignore_progress
from tuneloop.tools.hub.models import Progress
from tuneloop.tools.matrix.experiments import FORMATS, Experiment
from tuneloop.tools.matrix.user_task import is_task_file, load_user_task
from tuneloop.tools.scoring import answer_matching
from tuneloop.tools.training.tokens import Format

STEPS = ("solution", "steps")  # fields that hold what leads to an answer
ENDS = {"boxed": "\\boxed{ANSWER}"}
TAGGED = "<answer>ANSWER</answer>"
FORMS = {"chat": "chat", "raw": "base"}


@dataclass(frozen=True)
class Sample:
    """A prompt as the evaluation asks it, the reply that is learned, and what a reply is scored by.

    `gold`: the right answer. `item`: what the task's verifier gets of it, None where there is no verifier, or the row lacks it.
    """

    prompt: str
    reply: str
    gold: str = ""
    item: Mapping[str, Any] | None = field(default=None, compare=False)


@dataclass(frozen=True)
class Task:
    """`dropped`: training rows that hold an item of the benchmark, and were left out."""

    folder: BenchmarkFolder
    train: tuple[Sample, ...]
    dropped: int = 0

    @property
    def name(self) -> str:
        """As folders are called."""
        return self.folder.benchmark.name


def load_task(name: str, settings: Settings, say: Progress = ignore_progress, sandbox: SandboxKind = "auto") -> Task:
    """The benchmark or Python file `name` as a task, fetched where it is not here yet. Raises InvalidRequestError."""
    if is_task_file(name):
        own = load_user_task(name, settings, say, sandbox)
        return without_items(
            name, own.folder, [Sample(row["prompt"], row["reply"], row["answer"], row) for row in own.train]
        )
    resolve.check_benchmark(name, settings)
    if parts := resolve.family_members(name):
        raise InvalidRequestError(f"task {name} is a family of benchmarks; right is one of {', '.join(parts)}")
    (folder,) = fetch_benchmarks([name], settings)
    found = [sample_of(folder, row, name) for row in training_rows(name, folder, settings)]
    if not found:
        raise InvalidRequestError(f"task {name}: no training rows; {needed(name)}")
    return without_items(name, folder, found)


def without_items(name: str, folder: BenchmarkFolder, found: Sequence[Sample]) -> Task:
    """The task without training rows that hold an item. Raises InvalidRequestError where none is left."""
    hits = list(make_guard((folder,), None).find({"prompt": one.prompt} for one in found))
    kept = tuple(one for one, hit in zip(found, hits, strict=True) if hit is None)
    if not kept:
        raise InvalidRequestError(f"task {name}: every training row holds an item of the benchmark")
    return Task(folder, kept, len(found) - len(kept))


def training_rows(name: str, folder: BenchmarkFolder, settings: Settings) -> Iterable[Mapping[str, Any]]:
    """Solved problems: `train.jsonl` of a folder, else the benchmark's own training rows. Raises InvalidRequestError."""
    own = absolute_path(name) / TRAIN if resolve.is_user_folder(name) else folder.root / TRAIN
    if own.is_file():
        return user_rows(own)
    if resolve.is_user_folder(name) or name not in resolve.registered_names():
        raise InvalidRequestError(f"task {name}: no training rows; {needed(name)}")
    benchmark, module = resolve.load_entry(name)
    if not hasattr(module, "train"):
        raise InvalidRequestError(f"task {name}: no training rows; {needed(name)}")
    if benchmark.source is None:
        rows: Iterable[Mapping[str, Any]] = module.train(benchmark, folder.root)
        return rows
    return train_rows(benchmark, module, settings.home, settings)


def user_rows(path: Path) -> Iterator[Mapping[str, Any]]:
    """Rows of a file. Raises InvalidRequestError naming the line of one that is no object."""
    for number, row in enumerate(read_lines(path), 1):
        if not isinstance(row, dict):
            raise InvalidRequestError(
                f"{path}:{number}: is no object; right is the prompt's fields, answer and solution"
            )
        yield row


def needed(name: str) -> str:
    """What a task without training rows needs."""
    where = f"{name}/{TRAIN}" if resolve.is_user_folder(name) else f"a folder of your own with {TRAIN}"
    return f"right is {where}: JSON Lines with the fields of the prompt, answer and, where there are steps, solution"


def sample_of(folder: BenchmarkFolder, row: Mapping[str, Any], name: str) -> Sample:
    """A row as it is learned: prompt, steps, and the answer as the benchmark wants it. Raises InvalidRequestError."""
    declared = folder.benchmark
    texts = {key: field_text(declared, value) for key, value in row.items()}
    fields = {key: text for key, text in texts.items() if text is not None}
    for wanted in ("answer", *re.findall(r"\{(\w+)\}", declared.prompt)):
        if wanted not in fields:
            raise InvalidRequestError(f"task {name}: a training row has no {wanted}: {str(dict(row))[:120]}")
    prompt = answer_matching.render(declared.prompt, {key: text for key, text in fields.items() if key != "answer"})
    steps = next((fields[key] for key in STEPS if fields.get(key)), "")
    form = declared.final or ENDS.get(declared.answer) or (TAGGED if "<answer>" in declared.prompt else "ANSWER")
    end = form.replace("ANSWER", fields["answer"])
    item = verifier_item(declared, row) if declared.verified else None
    return Sample(prompt, steps if end in steps else f"{steps}\n{end}" if steps else end, fields["answer"], item)


def task_sets(task: Task, decoding: Decoding, limit: int | None, options: Mapping[str, Any]) -> dict[Format, ItemSet]:
    """The open items in each format; `options`: arguments of the chat template. Raises InvalidRequestError."""
    (whole,) = sets_of([task.folder], "validation", limit, decoding)
    return {
        asked: replace(
            whole,
            name=f"{whole.name}-{asked}",
            benchmark=whole.benchmark.model_copy(update={"form": FORMS[asked]}),
            template_options=options if asked == "chat" else {},
        )
        for asked in FORMATS
    }


@dataclass(frozen=True)
class TextEnds:
    """What the evaluation puts before a raw prompt, and what ends an answer: the tokenizer's own tokens, as text."""

    before: str
    after: str


def text_ends(model: Path) -> TextEnds:
    """Of a model folder. Raises InvalidRequestError without a tokenizer that says so."""
    try:
        told = read_untrusted_json((model / "tokenizer_config.json").resolve())
        tokenizer = load_tokenizer(model / "tokenizer.json")
        eos = told["eos_token"]
        after = eos if isinstance(eos, str) else eos["content"]
    except Exception as e:  # whatever the two files hold
        raise InvalidRequestError(f"model {model}: its tokenizer names no end of text ({e!r})"[:300]) from e
    plain = tokenizer.encode("a", add_special_tokens=False).ids
    whole = tokenizer.encode("a").ids
    count = next((i for i in range(len(whole)) if whole[i : i + len(plain)] == plain), 0)
    return TextEnds("".join(str(tokenizer.id_to_token(i)) for i in whole[:count]), after)


def training_row(experiment: Experiment, sample: Sample, ends: TextEnds) -> dict[str, str]:
    """A record of the training. Without a template it holds itself what the evaluation's tokens begin and answers end with."""
    if experiment.chat:
        return {"instruction": sample.prompt, "input": "", "output": sample.reply}
    return {"instruction": ends.before + sample.prompt, "input": "", "output": sample.reply + ends.after}
