"""BioProBench: questions on laboratory protocols, their order, their errors, and writing them; test files of 1,000 each.

What is asked is as in the benchmark of Liu and others; the sentences are ours, except those that the generation rows bring.
The source's training files are the data set `bioprobench`; its test files, which lie beside them, are not in it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tuneloop.core.catalog import Benchmark, Item, Source
from tuneloop.tools.benchmark_items.raw_rows import lettered_options, read_rows

REPO = "bowenxian/BioProBench"
COMMON: dict[str, Any] = {"domain": "biology", "licence": "CC-BY-4.0", "max_new_tokens": 8192}
TAGS = (
    "You may reason first. Put the answer between the tags [ANSWER_START] and [ANSWER_END], for example "
    "[ANSWER_START]{example}[ANSWER_END]"
)
LAST = " What stands between the last two tags counts; without tags, or with anything else between them, the reply is wrong."
MODELS = "needs what the engine does not bring: {what}; docs/benchmarks.md, BioProBench, says where it is put"
SENTENCES, KEYWORDS = "the model all-mpnet-base-v2", "the model all-MiniLM-L6-v2"


def source(task: str) -> Source:
    """The test file of a task."""
    return Source(repo=REPO, files=(f"{task}_test.json",))


BENCHMARKS = (
    Benchmark(
        name="bioprobench_pqa",
        description=(
            "BioProBench PQA: a sentence of a biological protocol with a gap, and about five choices for it. The reply ends "
            "with [ANSWER_START]choice & confidence[ANSWER_END]: the choice's text as it is given, or its letter, and a "
            "confidence from 0 to 100 %, for example [ANSWER_START]37 & 80%[ANSWER_END]."
            + LAST
            + " A confidence that cannot "
            "be read costs only the Brier score. A choice's text goes before a letter."
        ),
        answer="scorer:bioprobench_pqa",
        final="[ANSWER_START]ANSWER & 90%[ANSWER_END]",
        prompt=(
            "A sentence of a laboratory protocol has a gap (____):\n\n{question}\n\nWhat belongs in it?\n{choices}\n\nChoose one "
            "in any case, and say how sure you are, from 0 to 100 %. "
            + TAGS.replace("{example}", "choice & confidence")
        ),
        metrics=("brier_score",),
        source=source("PQA"),
        **COMMON,
    ),
    Benchmark(
        name="bioprobench_ord",
        description=(
            "BioProBench ORD: the steps of a biological protocol in a wrong order, numbered from 0. The reply ends with "
            "[ANSWER_START][2, 0, 1][ANSWER_END]: the numbers in the right order, each of them once."
            + LAST
            + " Right is the "
            "whole order; kendall_tau beside it counts pairs."
        ),
        answer="scorer:bioprobench_ord",
        final="[ANSWER_START]ANSWER[ANSWER_END]",
        metric="exact_match",
        prompt=(
            "{question}\n\nThe steps, numbered from 0, are in a wrong order:\n{steps}\n\nGive their numbers in the right order, "
            "each of them once, as a list. " + TAGS.replace("{example}", "[2, 0, 1]")
        ),
        metrics=("kendall_tau",),
        source=source("ORD"),
        **COMMON,
    ),
    Benchmark(
        name="bioprobench_err",
        description=(
            "BioProBench ERR: one step of a biological protocol with its purpose and its neighbours; is it right? The reply ends "
            "with [ANSWER_START]True[ANSWER_END] (the step is right) or [ANSWER_START]False[ANSWER_END] (there is an error in "
            "it)." + LAST + " precision, recall and f1 beside it are those of finding errors."
        ),
        answer="scorer:bioprobench_err",
        final="[ANSWER_START]ANSWER[ANSWER_END]",
        prompt=(
            "A step of a laboratory protocol:\n\n{step}\n\nIts purpose: {purpose}\nThe step before: {before}\nThe step after: "
            "{after}\n\nIs the step right and as it should be here (True), or is there an error in it (False)? "
            + TAGS.replace("{example}", "True")
        ),
        metrics=("precision", "recall", "f1"),
        source=source("ERR"),
        **COMMON,
    ),
    Benchmark(
        name="bioprobench_gen",
        description=(
            "BioProBench GEN: write the steps of a biological protocol, numbered 1., 2., 3., a line each, between [ANSWER_START] "
            "and [ANSWER_END]. Measured is ROUGE-L (F1 of the longest common subsequence of stemmed words) with the "
            "known protocol: short, concrete steps without explanations." + LAST
        ),
        answer="scorer:bioprobench_gen",
        final="[ANSWER_START]ANSWER[ANSWER_END]",
        metric="rouge_l",
        prompt=(
            "{role}\n{instruction}\n\n{task}\n\nA step a line. "
            + TAGS.replace("{example}", "1. First step\n2. Second step\n")
        ),
        metrics=("rouge_1", "rouge_2", "bleu"),
        unavailable={
            "meteor": MODELS.format(what="WordNet"),
            "step_recall": MODELS.format(what=SENTENCES),
            "redundancy_penalty": MODELS.format(what=SENTENCES),
            **{f"keyword_{part}": MODELS.format(what=KEYWORDS) for part in ("precision", "recall", "f1")},
        },
        source=source("GEN"),
        **COMMON,
    ),
)


def pool(benchmark: Benchmark, raw: Path) -> Iterator[Item]:
    """The public test set, without rows that have no right answer.

    The rows come protocol by protocol without a name of it: neighbours of one round of types stay together.
    """
    task = benchmark.name.removeprefix("bioprobench_")
    read, clusters = READERS[task], CLUSTERS[task]()
    for row in filter(ANSWERABLE[task], read_rows(raw, f"{task.upper()}_test.json")):
        fields, gold = read(row)
        yield Item(id=row["id"], fields=fields, answer=gold, group=row["type"], cluster=clusters.of(row))


def pqa(row: dict[str, Any]) -> tuple[dict[str, str], str]:
    """Fields and gold."""
    choices = [str(choice) for choice in row["choices"]]
    gold = json.dumps({"answer": str(row["answer"]), "choices": choices})
    return {"question": row["question"], "choices": lettered_options(choices, ".")}, gold


def order(row: dict[str, Any]) -> tuple[dict[str, str], str]:
    """Fields and gold."""
    steps = "\n".join(f"{i}: {step}" for i, step in enumerate(row["wrong_steps"]))
    return {"question": row["question"], "steps": steps}, json.dumps(
        {"steps": row["wrong_steps"], "order": row["correct_steps"]}
    )


def err(row: dict[str, Any]) -> tuple[dict[str, str], str]:
    """Fields and gold. The text of a right step is in the field of the corrected one."""
    context, right = row["context"] or {}, bool(row["is_correct"])
    names = {"purpose": "purpose", "before": "prior_step", "after": "next_step"}
    fields = {ours: str(context.get(theirs) or "(none)") for ours, theirs in names.items()}
    return fields | {"step": row["corrected_text"] if right else row["corrupted_text"]}, str(right)


def gen(row: dict[str, Any]) -> tuple[dict[str, str], str]:
    """Fields and gold."""
    fields = {"role": row["system_prompt"], "instruction": row["instruction"], "task": row["input"]}
    return fields, json.dumps(row["output"])


class Rounds:
    """Types come in rounds, a round or more a protocol: parameter, reagent, operation, and with errors the right steps."""

    ORDER = ("parameter", "reagent", "operation", "correct")

    def __init__(self) -> None:
        self.count, self.last = 0, -1

    def of(self, row: dict[str, Any]) -> str:
        """The round that the next row is in."""
        place = self.ORDER.index(row["type"]) if row["type"] in self.ORDER else -1
        repeated = place == self.last and row["type"] != "correct"
        if place < self.last or repeated or place < 0:
            self.count += 1
        self.last = place
        return f"round-{self.count}"


class Titles:
    """A protocol's headings are one item; the steps under each heading are others, and its title says which."""

    def __init__(self) -> None:
        self.headings: dict[str, str] = {}

    def of(self, row: dict[str, Any]) -> str:
        """The heading's own protocol, or the title itself."""
        title = str(row["question"]).partition("'")[2].rpartition("'")[0] or str(row["question"])
        if row["type"] == "top":
            self.headings |= dict.fromkeys(row["correct_steps"], title)
        return self.headings.get(title, title)


class Alone:
    """Every row is a protocol of its own."""

    def of(self, _: dict[str, Any]) -> str:
        """No cluster."""
        return ""


READERS = {"pqa": pqa, "ord": order, "err": err, "gen": gen}
CLUSTERS: dict[str, Any] = {"pqa": Rounds, "ord": Titles, "err": Rounds, "gen": Alone}
ANSWERABLE: dict[str, Callable[[dict[str, Any]], bool]] = {
    "pqa": lambda row: row["answer"] in row["choices"],
    "ord": lambda row: sorted(row["wrong_steps"]) == sorted(row["correct_steps"]),
    "err": lambda row: bool(row["corrected_text"] if row["is_correct"] else row["corrupted_text"]),
    "gen": lambda row: bool(row["output"]),
}
