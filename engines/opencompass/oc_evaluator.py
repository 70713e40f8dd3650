"""OpenCompass's evaluator that judges replies with our scorers, and the model whose replies are there already."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from oc_models import PROGRESS
from opencompass.models.base import BaseModel
from opencompass.openicl.icl_evaluator import BaseEvaluator
from opencompass.registry import ICL_EVALUATORS, MODELS


@ICL_EVALUATORS.register_module()
class TuneloopEvaluator(BaseEvaluator):
    """Percent of what could be had, further metrics, and a verdict on each item."""

    def __init__(self, answer_kind: str, scorer: str, scoring: str, judging: str, files: str) -> None:
        super().__init__()
        self.judging, self.scorer = loaded(judging), scorer
        self.judge = self.judging.judge_of(scoring, answer_kind, scorer, files)

    def score(self, predictions: list[str], references: list[str]) -> dict[str, Any]:
        """`accuracy`, `metrics` and one detail an item."""
        if len(predictions) != len(references):
            raise ValueError(f"{len(predictions)} predictions for {len(references)} references")
        asked = zip(predictions, references, strict=True)
        verdicts = [self.judging.judged(self.judge, gold, text) for text, gold in asked]
        accuracy = 100 * sum(one["value"] for one in verdicts) / len(verdicts)
        details = [{"verdict": verdict, "answer": gold} for verdict, gold in zip(verdicts, references, strict=True)]
        return {"accuracy": accuracy, "metrics": self.judging.summary(self.scorer, verdicts), "details": details}


@MODELS.register_module()
class TuneloopReplies(BaseModel):
    """Answers from a file of JSON Lines with `set`, `id` and `prediction`."""

    def __init__(self, path: str, asked: dict[str, Any] | None = None, **_: Any) -> None:
        super().__init__(path=path, tokenizer_only=True)
        lines = Path(path).read_text(encoding="utf-8").split("\n")  # not splitlines: a reply may hold U+2028
        rows = [json.loads(line) for line in lines if line]
        self.replies = {(row["set"], row["id"]): row["prediction"] for row in rows}
        self.asked = asked or {}

    def generate(self, inputs: Sequence[Any], max_out_len: int) -> list[str]:  # noqa: ARG002 - OpenCompass's words
        """The replies to all items of the set at hand. Raises KeyError where one is missing."""
        found = [self.replies[self.asked["name"], item["id"]] for item in self.asked["rows"]]
        if len(found) != len(inputs):
            raise ValueError(f"{len(inputs)} prompts, {len(found)} items")
        PROGRESS.add(len(found))
        return found

    def get_token_len(self, prompt: str) -> int:  # noqa: ARG002 - OpenCompass's words
        """No tokens are counted where nothing is generated."""
        return 0


def loaded(path: str) -> ModuleType:
    """A module from its file."""
    spec = importlib.util.spec_from_file_location("tuneloop_judging", path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is no Python file")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
