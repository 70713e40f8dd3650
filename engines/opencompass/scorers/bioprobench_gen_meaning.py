"""BioProBench GEN by meaning: METEOR, keywords and steps; off unless a benchmark says `answer: scorer:bioprobench_gen_meaning`.

It needs WordNet and two models of sentences that somebody has to bring, in sentence-transformers' format; vectors and keywords
are made as that package and KeyBERT make them. Without them nothing is judged. Gold is as in `bioprobench_gen`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import nltk
import torch
from nltk.corpus.reader.wordnet import WordNetCorpusReader
from nltk.translate.meteor_score import meteor_score
from rouge_score.rouge_scorer import RougeScorer
from sklearn.feature_extraction.text import CountVectorizer
from transformers import AutoModel, AutoTokenizer

from ._matching import keywords, steps

READS = (
    "what stands between the last pair, e.g. `[ANSWER_START]1. Mix.[ANSWER_END]`; scored by meaning, "
    "keywords and steps against the known protocol"
)

FILES = {
    "bioprobench/nltk_data/corpora/wordnet": "",
    "bioprobench/all-mpnet-base-v2": "",
    "bioprobench/all-MiniLM-L6-v2": "",
}
METRICS = ("meteor", "keyword_precision", "keyword_recall", "keyword_f1", "step_recall", "redundancy_penalty")
TOP = 64  # keywords of a text
BATCH = 32
TAGGED = re.compile(r"\[ANSWER_START\]((?:(?!\[ANSWER_START\]).)*?)\[ANSWER_END\]", re.DOTALL)


class Sentences:
    """A model that makes vectors of texts: the mean over their tokens."""

    def __init__(self, folder: Path) -> None:
        pooling = json.loads((folder / "1_Pooling" / "config.json").read_text())
        if not pooling.get("pooling_mode_mean_tokens"):
            raise ValueError(f"{folder}: its vectors are no means of tokens")
        self.longest = json.loads((folder / "sentence_bert_config.json").read_text())["max_seq_length"]
        self.tokenizer = AutoTokenizer.from_pretrained(str(folder))
        self.model = AutoModel.from_pretrained(str(folder), dtype=torch.float32, use_safetensors=True).eval()

    def encode(self, texts: Sequence[str]) -> list[list[float]]:
        """One vector a text."""
        found: list[list[float]] = []
        for at in range(0, len(texts), BATCH):
            found += self.means(list(texts[at : at + BATCH]))
        return found

    @torch.inference_mode()
    def means(self, texts: list[str]) -> list[list[float]]:
        """The vectors of a batch."""
        asked = self.tokenizer(texts, padding=True, truncation=True, max_length=self.longest, return_tensors="pt")
        states, mask = self.model(**asked).last_hidden_state, asked["attention_mask"].unsqueeze(-1)
        vectors: list[list[float]] = ((states * mask).sum(1) / mask.sum(1)).tolist()
        return vectors

    def keywords(self, text: str) -> set[str]:
        """The words nearest to the whole text, English stop words left out."""
        try:
            words = CountVectorizer(stop_words="english").fit([text]).get_feature_names_out().tolist()
        except ValueError:  # nothing but stop words
            return set()
        whole, *each = torch.nn.functional.normalize(torch.tensor(self.encode([text, *words])))
        near = (torch.stack(each) @ whole).tolist()
        return {word for _, word in sorted(zip(near, words, strict=True), reverse=True)[:TOP]}


MODELS: dict[str, Sentences] = {}
WORDNET: list[Any] = []  # the last one


def use(folder: Path) -> None:
    """Read WordNet and the models, before the first item. Raises ValueError or OSError where they cannot be read."""
    place, *models = (folder / name for name in FILES)
    nltk.data.path.insert(0, str(place.parents[1]))  # NLTK reads nowhere else
    wordnet = WordNetCorpusReader(str(place), None)
    for part in "nvar":
        next(wordnet.all_synsets(part), None)
    WORDNET.append(wordnet)
    MODELS.update(zip(("steps", "keywords"), map(Sentences, models), strict=True))


def judge(gold: str, reply: str) -> dict[str, Any]:
    """ROUGE-L as a share, and the metrics beside it; steps are compared where the gold answer is a list of them."""
    known = json.loads(gold)
    found = TAGGED.findall(reply.rpartition("</think>")[2])
    text = found[-1].strip() if found else ""
    if not text:
        return {"parsed": None, "value": 0.0, **dict.fromkeys(METRICS if isinstance(known, list) else METRICS[:4], 0.0)}
    reference = known if isinstance(known, str) else " ".join(known)
    values = [
        meteor_score([signs(reference)], signs(text), wordnet=WORDNET[-1]),
        *keywords(*map(MODELS["keywords"].keywords, (reference, text))),
    ]
    if isinstance(known, list):
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        values += steps(*(MODELS["steps"].encode(texts) for texts in (known, lines)))
    overlap = RougeScorer(["rougeL"], use_stemmer=True).score(reference, text)["rougeL"].fmeasure
    return {"parsed": text, "value": overlap, **dict(zip(METRICS, map(float, values), strict=False))}


def signs(text: str) -> list[str]:
    """Words and single signs in small letters."""
    return re.findall(r"\w+|[^\w\s]", text.lower())


def summary(rows: list[dict[str, Any]]) -> dict[str, float]:
    """Percent, the more the better: means over all items, of steps over those whose gold answer is a list of them.

    What cannot be read or judged has 0.
    """
    values = {name: [row.get(name, 0.0) for row in rows] for name in METRICS[:4]}
    values |= {name: [row[name] for row in rows if name in row] for name in METRICS[4:]}
    return {name: 100 * sum(found) / len(found) for name, found in values.items() if found}
