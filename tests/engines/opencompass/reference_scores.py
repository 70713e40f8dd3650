"""What other libraries say, inside the engine: `python reference_scores.py < cases.json`."""

import json
import sys
import warnings
from typing import Any

from nltk.stem.porter import PorterStemmer
from nltk.translate.bleu_score import SmoothingFunction, sentence_bleu
from rouge_score.rouge_scorer import RougeScorer
from scipy.stats import kendalltau
from sklearn.metrics import brier_score_loss, f1_score, precision_recall_fscore_support
from sklearn.preprocessing import MultiLabelBinarizer

KINDS = ["rouge1", "rouge2", "rougeL"]
ROUGE = [RougeScorer(KINDS, use_stemmer=stemmed) for stemmed in (False, True)]
SMOOTH = SmoothingFunction().method1


def overlap(reference: str, reply: str, signs: list[list[str]]) -> list[float]:
    bleu = sentence_bleu([signs[0]], signs[1], weights=(0.5, 0.5), smoothing_function=SMOOTH)
    found = [scorer.score(reference, reply) for scorer in ROUGE]
    return [float(bleu), *(scores[kind].fmeasure for scores in found for kind in KINDS)]


def sets(gold: list[list[str]], found: list[list[str]]) -> list[float]:
    binary = MultiLabelBinarizer(classes=list("ABCDEFGH"))
    right, named = binary.fit_transform(gold), binary.transform(found)
    return [100 * float(f1_score(right, named, average=how, zero_division=0)) for how in ("micro", "macro", "samples")]


def codes(gold: list[str], found: list[str]) -> float:
    return 100 * float(f1_score(gold, found, labels=["102", "103", "ALLOW"], average="macro", zero_division=0))


def errors(gold: list[bool], found: list[bool]) -> list[float]:
    return [100 * float(x) for x in precision_recall_fscore_support(gold, found, average="binary", zero_division=0)[:3]]


def main() -> None:
    warnings.simplefilter("ignore")
    asked: dict[str, list[Any]] = json.load(sys.stdin)
    answers = {
        "overlap": [overlap(*case) for case in asked["overlap"]],
        "stems": [PorterStemmer().stem(word) for word in asked["stems"]],
        "sets": [sets(*case) for case in asked["sets"]],
        "codes": [codes(*case) for case in asked["codes"]],
        "errors": [errors(*case) for case in asked["errors"]],
        "tau": [float(kendalltau(range(len(case)), case).statistic) for case in asked["tau"]],
        "brier": [float(brier_score_loss(*case)) for case in asked["brier"]],
    }
    json.dump(answers, sys.stdout)


if __name__ == "__main__":
    main()
