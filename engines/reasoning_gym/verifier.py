"""What an answer to an item of reasoning_gym is worth: the task's own `score_answer`, on what stands in the answer's tags.

Its last line, `score = make_score(TASK, OPTIONS)`, is added where a benchmark is declared; `engines/answers/run_verifier.py`
imports it in the engine and forks it for each answer.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from typing import Any

READERS: dict[str, Callable[[Any], Any]] = {
    "t": tuple,
    "s": set,
    "f": frozenset,
    "d": dict,
    "c": lambda parts: complex(*parts),
}


def decoded(data: Any) -> Any:
    """A value with Python's types again, as `tools/scoring/typed_json.py` writes them."""
    if isinstance(data, list):
        return [decoded(one) for one in data]
    if not isinstance(data, dict):
        return data
    ((letter, inner),) = data.items()
    if letter in ("n", "b"):
        return float(inner) if letter == "n" else bytes.fromhex(inner)
    return READERS[letter](decoded(inner))


def make_score(task: str, options: str) -> Callable[[str, dict[str, Any]], float]:
    """The function `score(answer, item)` of a task; `options`: of its config, as JSON."""
    warnings.simplefilter("ignore")
    import reasoning_gym

    dataset = reasoning_gym.create_dataset(task, seed=0, size=1, **json.loads(options))

    def score(answer: str, item: dict[str, Any]) -> float:
        return float(dataset.score_answer(answer, decoded(item["entry"])))

    return score
