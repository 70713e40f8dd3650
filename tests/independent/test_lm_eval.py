"""lm-evaluation-harness judges the same replies: the same verdict, or a difference that is named here and in docs/benchmarks.md."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.benchmark_answers import item_set, measured
from tests.conftest import SHARED_HOME
from tuneloop.core.catalog import Item
from tuneloop.core.layout import Home
from tuneloop.tools.engines import Engine
from tuneloop.tools.evaluation.item_sets import ItemSet
from tuneloop.tools.hub.store import make_complete

VERSION = "0.4.13"
SCRIPT = Path(__file__).parents[1] / "engines" / "opencompass" / "reference_lm_eval.py"


@dataclass(frozen=True)
class Check:
    """How the harness measures a benchmark of ours.

    `styles`: ways to write an answer, where the verdicts agree; `different`: where the harness errs, and why.
    """

    task: Callable[[Item], str]
    filter: str
    metric: str
    doc: Callable[[Item], dict[str, Any]]
    styles: tuple[str, ...]
    different: dict[str, str]


def options(item: Item) -> list[str]:
    text = item.fields.get("options") or item.fields["endings"]
    return [line[3:] for line in text.splitlines()]


def minerva(item: Item) -> dict[str, Any]:
    solution = f"It is $\\boxed{{{item.answer}}}$."
    return {"problem": item.fields["problem"], "solution": solution, "answer": item.answer}


def multiple_choice(item: Item) -> dict[str, Any]:
    return {"question": "?", "choices": options(item), "answer": "ABCDE".index(item.answer)}


BOXED = ("Some steps.\n\\boxed{{{}}}", "Thus $\\boxed{{{}}}$.", "$x = 3$? No: the answer is $\\boxed{{{}}}$.")
BRACKETS = ("The answer is ({}).", "Neither fits.\nANSWER: ({})", "({})", "I compared all of them. So it is **({})**.")
LETTERS = Check(
    lambda _: "mmlu/flan_cot_zeroshot/mmlu_anatomy.yaml",
    "flexible-extract",
    "exact_match",
    multiple_choice,
    (*BRACKETS, "ANSWER: {}"),
    {"The answer is {}.": "reads letters in brackets or after a colon only", "{}": "a bare letter is no answer"},
)
CHECKS = {
    "gsm8k": Check(
        lambda _: "gsm8k/gsm8k.yaml",
        "flexible-extract",
        "exact_match",
        lambda item: {"question": "?", "answer": f"Steps.\n#### {item.answer}"},
        (BOXED[0], "So we get\n#### {}", "The answer is {}.", "2 and 3 make ${}", "It is \\boxed{{{}}}"),
        {
            BOXED[1]: "reads the closing '$.' as the last number",
            "\\boxed{{{}}}, which is 10 more than before": "takes the last number, behind the box as well",
            "The answer is {}.00": "compares texts: 5.00 is not 5",
        },
    ),
    "aime24": Check(
        lambda _: "aime/aime24.yaml",
        "none",
        "exact_match",
        lambda item: {"Problem": "?", "Answer": int(item.answer)},
        (*BOXED, "\\boxed{{{}}}\nThat is all."),
        {"The answer is {}.": "compares the whole reply where there is no box"},
    ),
    "math": Check(
        lambda _: "minerva_math/minerva_math_algebra.yaml",
        "none",
        "math_verify",
        minerva,
        (
            "Some steps.\n$\\boxed{{{}}}$",
            "Thus $\\boxed{{{}}}$.",
            "$x = 3$? No: the answer is $\\boxed{{ {} }}$.",
            "First $\\boxed{{3}}$, in the end $\\boxed{{{}}}$.",
        ),
        {},
    ),
    "bbh": Check(
        lambda item: f"bbh/cot_zeroshot/{item.group}.yaml",
        "flexible-extract",
        "exact_match",
        lambda item: {"input": item.fields["input"], "target": item.answer},
        ("So the answer is {}", "Let us see.\nThe answer is {}", "It is not clear at first. So the answer is {}"),
        {},
    ),
    "mmlu": LETTERS,
    "hellaswag": LETTERS,
    "arc_c": Check(
        lambda _: "arc/arc_challenge_chat.yaml",
        "remove_whitespace",
        "exact_match",
        lambda item: {"question": "?", "choices": {"text": options(item), "label": []}, "answerKey": item.answer},
        (" {}", "{}.", "({})", "**{}**"),
        {"The answer is {}.": "the whole reply has to be the letter"},
    ),
}


@pytest.fixture(scope="module")
def harness() -> Path:
    """An environment of its own below the shared home, made once."""

    def make(folder: Path) -> None:
        ran([sys.executable, "-m", "venv", folder.parent / final.name], folder)
        ran([final / "bin" / "pip", "install", "-q", f"lm_eval[math]=={VERSION}"], folder)

    home = Home(SHARED_HOME).root / "independent"
    final = home / f"lm-eval-{VERSION}-env"
    make_complete(home / f"lm-eval-{VERSION}", make)
    return final / "bin" / "python"


def ran(argv: list[Any], cwd: Path) -> None:
    env = {**os.environ, "HF_HUB_OFFLINE": "1", "HF_HOME": str(cwd / "hf")}
    done = subprocess.run(list(map(str, argv)), cwd=cwd, env=env, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stdout[-1000:] + done.stderr[-3000:]


def other(given: ItemSet, item: Item) -> str:
    """A wrong answer in the right one's form: another item's of the same group."""
    answers = sorted({i.answer for i in given.items if i.group == item.group} - {item.answer})
    return answers[len(item.id) % len(answers)]


@pytest.mark.soak
def test_the_harness_gives_the_same_verdicts(opencompass: Engine, harness: Path, tmp_path: Path) -> None:
    """At least 99 % of every benchmark's verdicts agree, and what is said to differ does."""
    asked: list[tuple[str, str, Item, str, bool]] = []
    sets = []
    for name, check in CHECKS.items():
        given = item_set(name, tmp_path)
        for style in (*check.styles, *check.different):
            for item in {i.cluster or i.id: i for i in given.items}.values():
                for right in (True, False):
                    reply = style.format(item.answer if right else other(given, item))
                    asked.append((name, style, item, reply, right))
        rows = [(i, one[2]) for i, one in enumerate(asked) if one[0] == name]
        items = tuple(item.model_copy(update={"id": f"{i}", "cluster": ""}) for i, item in rows)
        sets.append(ItemSet(name, given.benchmark, "validation", items))
    scores = measured(opencompass, tmp_path, sets, {"replies": lambda _, item: asked[int(item.id)][3]})
    ours = {int(item.id): item.correct for score in scores.values() for item in score.items}
    assert [ours[i] for i in range(len(asked))] == [right for *_, right in asked]

    lines = [{**line_of(CHECKS[name], item), "reply": reply} for name, _, item, reply, _ in asked]
    (tmp_path / "asked.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    ran([harness, SCRIPT, tmp_path / "asked.jsonl", tmp_path / "theirs.json"], tmp_path)
    theirs = json.loads((tmp_path / "theirs.json").read_text())
    same: dict[tuple[str, str], list[bool]] = defaultdict(list)
    for i, (name, style, *_) in enumerate(asked):
        same[name, style].append(ours[i] == theirs[i])
    for (name, style), found in same.items():
        sys.stdout.write(f"{name:10} {sum(found):4} of {len(found):4}  {style!r}\n")
    for name, check in CHECKS.items():
        agreed = [one for style in check.styles for one in same[name, style]]
        assert len(agreed) >= 100 and sum(agreed) >= 0.99 * len(agreed), (name, sum(agreed), len(agreed))
        assert all(not all(same[name, style]) for style in check.different), name


def line_of(check: Check, item: Item) -> dict[str, Any]:
    return {"task": check.task(item), "filter": check.filter, "metric": check.metric, "doc": check.doc(item)}
