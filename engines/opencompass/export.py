"""The items of a configuration of OpenCompass, as it asks them: `python export.py NAME OUT.json`.

OUT.json: {items: [{id, group, prompt, answer}], longest: tokens of a reply}, or {error: why it cannot be measured}, or {missing:
what of its data was not found}. Its own dataset, retriever and templates make the prompts; few-shot turns become one text.
"""

from __future__ import annotations

import copy
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.error import URLError

from mmengine.config import ConfigDict
from oc_configs import dataset_configs, processed, unfit
from opencompass.models.base import BaseModel
from opencompass.tasks import OpenICLInferTask


class Asked(BaseModel):
    """A model that says nothing: OpenCompass writes down what it was asked."""

    def __init__(self) -> None:
        super().__init__(path="asked", tokenizer_only=True)

    def generate(self, inputs: Sequence[Any], max_out_len: int) -> list[str]:  # noqa: ARG002 - OpenCompass's words
        """Nothing, to every prompt."""
        return ["" for _ in inputs]

    def get_token_len(self, prompt: str) -> int:  # noqa: ARG002 - OpenCompass's words
        """No tokens are counted."""
        return 0


def exported(name: str, work: Path) -> dict[str, Any]:
    """Items of all datasets of a configuration, or why there are none."""
    configs = dataset_configs(name)
    for abbr, config in configs.items():
        if why := unfit(config):
            return {"error": f"{abbr}: {why}"}
    items = [item for abbr, config in configs.items() for item in items_of(name, abbr, config, work)]
    lengths = [config["infer_cfg"]["inferencer"].get("max_out_len") or 0 for config in configs.values()]
    return {"items": items, "longest": max(lengths)}


def items_of(name: str, abbr: str, config: dict[str, Any], work: Path) -> list[dict[str, Any]]:
    """Items of one dataset: what OpenCompass itself asks of a model that has no chat template."""
    asking = ConfigDict(
        models=[{"abbr": "asked", "batch_size": 1 << 20}], datasets=[[copy.deepcopy(config)]], work_dir=str(work)
    )
    OpenICLInferTask(asking).run(cur_model=Asked(), cur_model_abbr="asked")
    rows = json.loads((work / "predictions" / "asked" / f"{abbr}.json").read_text())
    after = config["eval_cfg"].get("dataset_postprocessor")
    found = []
    for number in sorted(rows, key=int):
        gold = {"config": name, "set": abbr, "reference": processed(rows[number]["gold"], after)}
        prompt = str(rows[number]["origin_prompt"])
        found.append(
            {"id": f"{abbr}-{number}", "group": abbr, "prompt": prompt, "answer": json.dumps(gold, ensure_ascii=False)}
        )
    return found


if __name__ == "__main__":
    out = Path(sys.argv[2])
    try:
        result = exported(sys.argv[1], out.parent / "work")
    except (FileNotFoundError, URLError, ConnectionError) as e:
        result = {"missing": " ".join(str(e).split())[:300]}
    out.write_text(json.dumps(result, ensure_ascii=False))
