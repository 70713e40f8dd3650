"""Replies judged as a configuration of OpenCompass judges them, one at a time: its own postprocessor, its own evaluator.

Gold is JSON: the configuration, the dataset in it, and the reference answer. Stock scoring is taken as it is, its mistakes with
it; what it reads is `parsed`, and an empty text is nothing.
"""

from __future__ import annotations

import json
from typing import Any

from oc_configs import verdict

READS = "what the configuration's own postprocessor finds, `as validation items show it`"


def judge(gold: str, reply: str) -> dict[str, Any]:
    """The share of the metric that the reply gets."""
    wanted = json.loads(gold)
    read, value = verdict(wanted["config"], wanted["set"], wanted["reference"], reply)
    return {"parsed": read if read.strip() else None, "value": value if read.strip() else 0.0}
