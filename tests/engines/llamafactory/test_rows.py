"""LLaMA-Factory's data path with a newer `datasets` than it asks for: the rows that it makes with the one it asks for."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tuneloop.tools.engines import Engine
from tuneloop.tools.jobs.machine import ENGINES

pytestmark = pytest.mark.slow

# Hashes of the tokenised rows with datasets 4.0.0, the newest that LLaMA-Factory 0.9.5 allows, on Python 3.11.
EXPECTED = {
    "alpaca": "50aab9b12668ade8",
    "sharegpt": "e38270599cc14b4b",
    "openai": "a64d8be7b7d2eaa7",
    "preference": "478601a5d6ba1113",
    "kto": "69625e710ef53014",
    "text": "696d85ad92f7e565",
    "two sets, plain": "5fd16e827ce97eb3",
    "two sets, processes": "5fd16e827ce97eb3",
    "two sets, streaming": "e939764e73889e8c",
    "two sets, packed": "9d1159bf8c8cbb07",
    "two sets, split": "5c60bc07babfc944",
}

TOLD = {"role_tag": "role", "content_tag": "content", "user_tag": "user", "assistant_tag": "assistant"}
COLUMNS = {
    "alpaca": {
        "prompt": "instruction",
        "query": "input",
        "response": "output",
        "system": "system",
        "history": "history",
    },
    "sharegpt": {"messages": "conversations", "system": "system", "tools": "tools"},
    "openai": {"messages": "messages"},
    "preference": {"prompt": "instruction", "query": "input", "chosen": "chosen", "rejected": "rejected"},
    "kto": {"messages": "messages", "kto_tag": "label"},
    "text": {"prompt": "text"},
}
STAGES = {"preference": "rm", "kto": "kto", "text": "pt"}
WAYS: dict[str, dict[str, Any]] = {
    "plain": {},
    "processes": {"preprocessing_num_workers": 2},
    "streaming": {"streaming": True, "max_steps": 3, "dataloader_num_workers": 1},
    "packed": {"packing": True},
    "split": {"val_size": 0.25},
}
ROWS = """
import hashlib, json, sys
from llamafactory.data import get_dataset, get_template_and_fix_tokenizer
from llamafactory.hparams import get_train_args
from llamafactory.model import load_tokenizer
found = {}
for name, args in json.load(open(sys.argv[1])).items():
    model, data, training, finetuning, _ = get_train_args(args)
    loaded = load_tokenizer(model)
    template = get_template_and_fix_tokenizer(loaded["tokenizer"], data)
    made = get_dataset(template, model, data, training, finetuning.stage, **loaded)
    rows = {part: [dict(sorted(row.items())) for row in made[part]] for part in sorted(made)}
    assert all(rows.values()), name
    found[name] = hashlib.sha256(json.dumps(rows, sort_keys=True).encode()).hexdigest()[:16]
json.dump(found, open(sys.argv[2], "w"))
"""


def turns(
    i: int, who: str = "from", what: str = "value", human: str = "human", model: str = "gpt"
) -> list[dict[str, str]]:
    """A conversation of two rounds."""
    asked = [{who: human, what: f"{i} plus {k}?"} for k in (1, i % 7)]
    return [turn for k, one in zip((1, i % 7), asked, strict=True) for turn in (one, {who: model, what: f"{i + k}."})]


def records(kind: str) -> list[dict[str, Any]]:
    """Forty rows of a format, with what real files have: absent fields, None, empty text, other scripts."""
    ask = [{"instruction": f"{i} plus {i % 9}?", "input": "" if i % 2 else f"Größe {i} 数"} for i in range(40)]
    numbers = range(40)
    if kind == "alpaca":
        extra = [
            {"system": "Be brief." if i % 3 else "", "history": [["Hi", f"Hello {i}"]] if i % 4 else []}
            for i in numbers
        ]
        return [{**one, "output": f"It is {i + i % 9}.", **extra[i]} for i, one in enumerate(ask)]
    if kind == "sharegpt":
        tool = json.dumps([{"name": "add", "description": "adds", "parameters": {"type": "object", "properties": {}}}])
        return [
            {"conversations": turns(i), "system": None if i % 3 else "Count.", "tools": "" if i % 2 else tool}
            for i in numbers
        ]
    if kind == "openai":
        system = [{"role": "system", "content": "Count."}]
        return [{"messages": [*system * (i % 2), *turns(i, "role", "content", "user", "assistant")]} for i in numbers]
    if kind == "preference":
        return [{**one, "chosen": f"It is {i + i % 9}.", "rejected": f"No {i}."} for i, one in enumerate(ask)]
    if kind == "kto":
        return [{"messages": turns(i, "role", "content", "user", "assistant"), "label": i % 3 > 0} for i in numbers]
    return [{"text": f"The sum of {i} and {i % 5} is {i + i % 5}. " * (1 + i % 4)} for i in numbers]


def about(kind: str) -> dict[str, Any]:
    """The entry of dataset_info.json."""
    entry: dict[str, Any] = {"file_name": f"{kind}.jsonl", "columns": COLUMNS[kind]}
    if kind in ("sharegpt", "openai", "kto"):
        entry["formatting"] = "sharegpt"
    if kind in ("openai", "kto"):
        entry["tags"] = TOLD
    if kind == "preference":
        entry["ranking"] = True
    return entry


def write_trainings(tiny: Path, work: Path) -> Path:
    """Every format, and every way of reading one, as LLaMA-Factory's arguments."""
    data = work / "data"
    data.mkdir()
    for kind in COLUMNS:
        (data / f"{kind}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in records(kind)))
    (data / "dataset_info.json").write_text(json.dumps({kind: about(kind) for kind in COLUMNS}))
    base = {
        "model_name_or_path": str(tiny),
        "dataset_dir": str(data),
        "template": "chatml",
        "cutoff_len": 128,
        "do_train": True,
    }
    base |= {
        "output_dir": str(work / "out"),
        "finetuning_type": "lora",
        "report_to": "none",
        "use_cpu": True,
        "seed": 1,
    }
    cases = {kind: {"dataset": kind, "stage": STAGES.get(kind, "sft")} for kind in COLUMNS}
    cases |= {f"two sets, {way}": {"dataset": "alpaca,sharegpt", "stage": "sft", **more} for way, more in WAYS.items()}
    (work / "cases.json").write_text(json.dumps({name: {**base, **case} for name, case in cases.items()}))
    return work / "cases.json"


def test_rows_are_those_of_the_release_that_llama_factory_asks_for(llamafactory: Engine, tmp_path: Path) -> None:
    cases, out = (
        write_trainings(ENGINES.parent / "tools" / "embedded" / "tiny_model", tmp_path),
        tmp_path / "found.json",
    )
    env = {"HOME": str(tmp_path), "HF_HOME": str(tmp_path / "hf"), "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    env |= {"PATH": os.environ["PATH"], "CUDA_VISIBLE_DEVICES": "", "DISABLE_VERSION_CHECK": "1"}
    argv = [str(llamafactory.python), "-c", ROWS, str(cases), str(out)]
    p = subprocess.run(argv, env=env, cwd=tmp_path, capture_output=True, text=True)
    assert p.returncode == 0, p.stderr[-3000:]
    assert json.loads(out.read_text()) == EXPECTED
