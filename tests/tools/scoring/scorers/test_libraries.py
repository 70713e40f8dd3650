"""Our numbers beside those of rouge_score, NLTK, scikit-learn and SciPy."""

import json
import random
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tuneloop.tools.engines import Engine
from tuneloop.tools.scoring.scorers import _overlap, bioprobench_err, bioprobench_ord, bioprobench_pqa, noc4pc, par4pc
from tuneloop.tools.scoring.scorers import _overlap as _stems

CODES = ("102", "103", "ALLOW")
WORDS = ["mix", "Mix", "the", "tube", "5", "µl", "37°C", "x-ray", "don't", ".", ",", "NaCl₂", "H2O", "_", "\n"]
WORDS += ["mixing", "mixes", "mixed", "tubes", "relational", "centrifugation", "centrifuged", "dilutions", "easily"]


def made(rng: random.Random) -> dict[str, list[Any]]:
    """Cases, a list for each kind of number."""
    texts = [[" ".join(rng.choices(WORDS, k=rng.randrange(1, 30))) for _ in range(2)] for _ in range(200)]
    ends = [end for end, _ in _stems.LONG + _stems.MIDDLE + _stems.PLURAL]
    ends += [*_stems.LAST, "ed", "ing", "eed", "ied", "y", "logi", "e", "ll", ""]
    begins = ["".join(rng.choices("aeiouybcdlstwxz", k=rng.randrange(7))) for _ in range(20_000)]
    letters = [[rng.sample("ABCDEFGH", rng.randrange(1, 4)) for _ in range(12)] for _ in range(20)]
    return {
        "overlap": [[*pair, [_overlap.signs(text) for text in pair]] for pair in texts],
        "stems": [*_stems.IRREGULAR, *(begin + "".join(rng.choices(ends, k=2)) for begin in begins)],
        "sets": [[gold, [rng.sample("ABCDEFGH", rng.randrange(4)) for _ in gold]] for gold in letters],
        "codes": [[rng.choices(CODES, k=15), rng.choices((*CODES, "none"), k=15)] for _ in range(20)],
        "errors": [[rng.choices((True, False), k=15), rng.choices((True, False), k=15)] for _ in range(20)],
        "tau": [rng.sample(range(n), n) for n in range(2, 30)],
        "brier": [[rng.choices((0, 1), k=9), [rng.randrange(101) / 100 for _ in range(9)]] for _ in range(20)],
    }


def ours(cases: dict[str, list[Any]]) -> dict[str, list[Any]]:
    """The same numbers as our scorers have them."""
    return {
        "overlap": [
            [
                _overlap.bleu(a, b),
                *of_words(_overlap.words(a), _overlap.words(b)),
                *of_words(_overlap.stemmed(a), _overlap.stemmed(b)),
            ]
            for a, b, _ in cases["overlap"]
        ],
        "stems": [_stems.stem(word) for word in cases["stems"]],
        "sets": [list(of_sets(*case)) for case in cases["sets"]],
        "codes": [of_codes(*case) for case in cases["codes"]],
        "errors": [list(of_errors(*case)) for case in cases["errors"]],
        "tau": [bioprobench_ord.kendall_tau(case) for case in cases["tau"]],
        "brier": [of_brier(*case) for case in cases["brier"]],
    }


def of_words(reference: list[str], reply: list[str]) -> list[float]:
    return [*(_overlap.rouge_n(n, reference, reply) for n in (1, 2)), _overlap.rouge_l(reference, reply)]


def of_sets(gold: list[list[str]], found: list[list[str]]) -> tuple[float, ...]:
    replies = [json.dumps({"answer": letters}) for letters in found]
    rows = [par4pc.judge(json.dumps({"gold": g, "silver": []}), reply) for g, reply in zip(gold, replies, strict=True)]
    summary = par4pc.summary(rows)
    return summary["f1_micro"], summary["f1_macro"], summary["f1_items"]


def of_codes(gold: list[str], found: list[str]) -> float:
    rows = [noc4pc.judge(g, json.dumps({"code": f})) for g, f in zip(gold, found, strict=True)]
    return noc4pc.summary(rows)["f1_macro"]


def of_errors(gold: list[bool], found: list[bool]) -> tuple[float, ...]:
    replies = [f"[ANSWER_START]{not error}[ANSWER_END]" for error in found]
    summary = bioprobench_err.summary(
        [bioprobench_err.judge(str(not g), r) for g, r in zip(gold, replies, strict=True)]
    )
    return summary["precision"], summary["recall"], summary["f1"]


def of_brier(right: list[int], sure: list[float]) -> float:
    gold = json.dumps({"answer": "yes", "choices": ["yes", "no"]})
    replies = [
        f"[ANSWER_START]{'yes' if r else 'no'} & {100 * s:.0f}%[ANSWER_END]" for r, s in zip(right, sure, strict=True)
    ]
    return bioprobench_pqa.summary([bioprobench_pqa.judge(gold, reply) for reply in replies])["brier_score"]


def test_other_libraries_say_the_same(opencompass: Engine) -> None:
    cases = made(random.Random(0))
    script = Path(__file__).parents[3] / "engines" / "opencompass" / "reference_scores.py"
    found = subprocess.run(
        [opencompass.python, script], input=json.dumps(cases), capture_output=True, text=True, check=True, timeout=300
    )
    theirs = json.loads(found.stdout)
    for kind, values in ours(cases).items():
        for case, our, their in zip(cases[kind], values, theirs[kind], strict=True):
            assert our == pytest.approx(their, abs=1e-9), (kind, case)
