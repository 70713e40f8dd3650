"""Verdicts of OpenCompass's own evaluators, inside its environment: `python reference_verdicts.py ASKED.json VERDICTS.json`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from opencompass.datasets import Gsm8kEvaluator, bbh_mcq_postprocess, gsm8k_postprocess
from opencompass.datasets.bbh import BBHEvaluator
from opencompass.datasets.math import MATHEvaluator, math_postprocess_v2
from opencompass.evaluator import MATHVerifyEvaluator
from opencompass.utils.text_postprocessors import (
    first_capital_postprocess,
    first_option_postprocess,
    match_answer_pattern,
)


def verdict(kind: str, gold: str, reply: str) -> bool:
    """Whether the stock configuration of a benchmark calls the reply right."""
    if kind == "gsm8k":
        details = Gsm8kEvaluator().score([gsm8k_postprocess(reply)], [gold])["details"]
    elif kind == "math":
        details = MATHEvaluator(version="v2").score([math_postprocess_v2(reply)], [gold])["details"]
    elif kind == "math_verify":
        details = MATHVerifyEvaluator().score([reply], [gold])["details"]
    elif kind == "bbh":
        details = BBHEvaluator().score([reply], [gold])["details"]
    else:
        return LETTERS[kind](reply) == gold
    return bool(details and details[0]["correct"])


LETTERS = {
    "mmlu": lambda reply: match_answer_pattern(reply, r"(?i)ANSWER\s*:\s*([A-D])"),
    "cmmlu": lambda reply: match_answer_pattern(reply, r"(?i)答案\s*:\s*[\W]*([A-D])[\W]*"),
    "FinanceIQ_gen": first_capital_postprocess,
    "arc_c": lambda reply: first_option_postprocess(reply, "ABCD"),
    "bbh_option": bbh_mcq_postprocess,
}

if __name__ == "__main__":
    asked = json.loads(Path(sys.argv[1]).read_text())
    Path(sys.argv[2]).write_text(json.dumps([verdict(*one) for one in asked]))
