"""BioProBench GEN by meaning: METEOR, keywords and steps; off unless a benchmark says `answer: scorer:bioprobench_gen_meaning`.

It needs what the engine does not bring: the packages `sentence-transformers` and `keybert`, and in `share/bioprobench` of the
engine's environment `nltk_data` (corpora/wordnet), `all-mpnet-base-v2` and `all-MiniLM-L6-v2`. Where a part is missing the
evaluation ends with one line that says so; nothing counts as 0 for it. Gold is as in `bioprobench_gen`.
"""

from __future__ import annotations

import importlib
import json
import re
import sys
from functools import cache
from pathlib import Path
from typing import Any

from rouge_score.rouge_scorer import RougeScorer

from ._matching import keywords, steps

PLACE = Path(sys.prefix) / "share" / "bioprobench"
PARTS = ("nltk_data/corpora/wordnet", "all-mpnet-base-v2", "all-MiniLM-L6-v2")
PACKAGES = ("nltk", "sentence_transformers", "keybert")
METRICS = ("meteor", "keyword_precision", "keyword_recall", "keyword_f1", "step_recall", "redundancy_penalty")
TOP = 64  # keywords of a text
TAGGED = re.compile(r"\[ANSWER_START\]((?:(?!\[ANSWER_START\]).)*?)\[ANSWER_END\]", re.DOTALL)


def require(place: Path = PLACE) -> None:
    """Raises FileNotFoundError or ModuleNotFoundError naming what is missing and where it belongs."""
    missing = [part for part in PARTS if not (place / part).exists() and not (place / f"{part}.zip").exists()]
    if missing:
        raise FileNotFoundError(f"bioprobench_gen_meaning: {place} lacks {', '.join(missing)}")
    for name in PACKAGES:
        importlib.import_module(name)


require()  # before the first item: a judge that fails makes one item wrong and goes on


@cache
def libraries() -> tuple[Any, Any, Any]:
    """METEOR, the model of sentences, the finder of keywords."""
    nltk = importlib.import_module("nltk")
    nltk.data.path.insert(0, str(PLACE / "nltk_data"))
    model = importlib.import_module("sentence_transformers").SentenceTransformer
    finder = importlib.import_module("keybert").KeyBERT(model(str(PLACE / "all-MiniLM-L6-v2")))
    meteor = importlib.import_module("nltk.translate.meteor_score").meteor_score
    return meteor, model(str(PLACE / "all-mpnet-base-v2")), finder


def judge(gold: str, reply: str) -> dict[str, Any]:
    """ROUGE-L as a share, and the metrics beside it; steps are compared where the gold answer is a list of them."""
    known = json.loads(gold)
    found = TAGGED.findall(reply.rpartition("</think>")[2])
    text = found[-1].strip() if found else ""
    if not text:
        return {"parsed": None, "value": 0.0, **dict.fromkeys(METRICS if isinstance(known, list) else METRICS[:4], 0.0)}
    meteor, model, finder = libraries()
    reference = known if isinstance(known, str) else " ".join(known)
    named = [{word for word, _ in finder.extract_keywords(one, top_n=TOP)} for one in (reference, text)]
    values = [meteor([signs(reference)], signs(text)), *keywords(*named)]
    if isinstance(known, list):
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        values += steps(*(model.encode(texts).tolist() for texts in (known, lines)))
    overlap = RougeScorer(["rougeL"], use_stemmer=True).score(reference, text)["rougeL"].fmeasure
    return {"parsed": text, "value": overlap, **dict(zip(METRICS, map(float, values), strict=False))}


def signs(text: str) -> list[str]:
    """Words and single signs in small letters."""
    return re.findall(r"\w+|[^\w\s]", text.lower())


def summary(rows: list[dict[str, Any]]) -> dict[str, float]:
    """Percent: the mean over all items that have the metric; an unreadable reply has 0. All of them: the more the better."""
    values = {name: [row[name] for row in rows if name in row] for name in METRICS}
    return {name: 100 * sum(found) / len(found) for name, found in values.items() if found}
