"""A folder with a model, data sets, adapters and checkpoints of every good and bad kind, and the corpora of configs."""

import importlib.util
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

_spec = importlib.util.spec_from_file_location("params_conftest", Path(__file__).with_name("conftest.py"))
assert _spec is not None
assert _spec.loader is not None
helpers = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(helpers)

HERE = Path(__file__).parent
BASE = {
    "model_name_or_path": "model",
    "stage": "sft",
    "do_train": "true",
    "finetuning_type": "lora",
    "dataset_dir": "data",
    "dataset": "alpaca",
    "template": "chatml",
    "cutoff_len": "256",
    "output_dir": "out",
    "per_device_train_batch_size": "4",
    "learning_rate": "1.0e-4",
    "max_steps": "10",
    "report_to": "none",
}
# What another stage changes, and other starting points.
STARTS: dict[str, dict[str, str]] = {
    "sft": {},
    "full": {"finetuning_type": "full"},
    "freeze": {"finetuning_type": "freeze"},
    "oft": {"finetuning_type": "oft"},
    "pt": {"stage": "pt", "dataset": "texts"},
    "dpo": {"stage": "dpo", "dataset": "pairs"},
    "rm": {"stage": "rm", "dataset": "pairs"},
    "kto": {"stage": "kto", "dataset": "judged"},
    "ppo": {"stage": "ppo", "reward_model": "adapter"},
    "eval": {"val_size": "2", "eval_strategy": "steps", "eval_steps": "5"},
    "run": {},
}

ROW = {"instruction": "say a", "input": "", "output": "a"}
PAIR = {"instruction": "say a", "input": "", "chosen": "a", "rejected": "b"}
TALK = [{"from": "human", "value": "say a"}, {"from": "gpt", "value": "a"}]
ROLES = [{"role": "user", "content": "say a"}, {"role": "assistant", "content": "a"}]
TAGS = {"role_tag": "role", "content_tag": "content", "user_tag": "user", "assistant_tag": "assistant"}
PAIRED = {"prompt": "instruction", "query": "input", "chosen": "chosen", "rejected": "rejected"}
MESSAGES = {"messages": "messages"}


def registered() -> dict[str, tuple[dict[str, Any], Any]]:
    """Name → registration, and the rows of its file."""
    judged = [{**ROW, "good": n % 2 == 0} for n in range(10)]
    rated = {"columns": {"prompt": "instruction", "query": "input", "response": "output", "kto_tag": "good"}}
    ranked = {"ranking": True, "columns": PAIRED}
    return {
        "alpaca": ({}, [ROW] * 10),
        "more": ({}, [ROW] * 10),
        "few": ({}, [ROW] * 2),
        "sampled": ({"num_samples": 5}, [ROW] * 10),
        "texts": ({"columns": {"prompt": "text"}}, [{"text": "a long text " * 20}] * 10),
        "few_texts": ({"columns": {"prompt": "text"}}, [{"text": "a text"}] * 5),
        "talks": ({"formatting": "sharegpt"}, [{"conversations": TALK}] * 5),
        "chats": ({"formatting": "openai", "columns": MESSAGES, "tags": TAGS}, [{"messages": ROLES}] * 5),
        "roles": ({"formatting": "sharegpt", "columns": MESSAGES, "tags": TAGS}, [{"messages": ROLES}] * 5),
        "pairs": (ranked, [PAIR] * 10),
        "paired_talks": (
            {
                "formatting": "sharegpt",
                "ranking": True,
                "columns": {"messages": "conversations", **{n: n for n in ("chosen", "rejected")}},
            },
            [{"conversations": TALK[:1], "chosen": TALK[1], "rejected": {**TALK[1], "value": "b"}}] * 5,
        ),
        "judged": (rated, judged),
        "columns": ({"columns": {"prompt": "q", "response": "a"}}, [{"q": "say a", "a": "a"}] * 5),
        "pictures": (
            {"formatting": "sharegpt", "columns": {**MESSAGES, "images": "images"}, "tags": TAGS},
            [{"messages": ROLES, "images": ["a.png"]}] * 5,
        ),
        # bad ones
        "lost_pictures": (
            {"columns": {"prompt": "instruction", "response": "output", "images": "images"}},
            [{"instruction": "<image>What is it?", "output": "a", "images": ["lost.png"]}] * 5,
        ),
        "ranked_text": ({"ranking": "true"}, [ROW] * 5),
        "key_typo": ({"format": "alpaca"}, [ROW] * 5),
        "no_input": ({}, [{"instruction": "say a", "output": "a"}] * 5),
        "no_output": ({}, [{"instruction": "say a", "input": ""}] * 5),
        "mapped_wrong": ({"columns": {"prompt": "PROMPT", "response": "output"}}, [ROW] * 5),
        "mapped_half": ({"columns": {"prompt": "instruction"}}, [ROW] * 5),
        "mapped_typo": ({"columns": {"promt": "instruction", "response": "output"}}, [ROW] * 5),
        "mapped_input": ({"columns": {"instruction": "instruction", "output": "output"}}, [ROW] * 5),
        "tagged_typo": ({"formatting": "sharegpt", "tags": {"role": "role"}}, [{"conversations": TALK}] * 5),
        "format_chatml": ({"formatting": "chatml"}, [ROW] * 5),
        "format_case": ({"formatting": "ShareGPT"}, [{"conversations": TALK}] * 5),
        "untagged": ({"formatting": "sharegpt", "columns": MESSAGES}, [{"messages": ROLES}] * 5),
        "half_tagged": (
            {"formatting": "sharegpt", "columns": MESSAGES, "tags": {"role_tag": "role", "content_tag": "content"}},
            [{"messages": ROLES}] * 5,
        ),
        "openai_untagged": ({"formatting": "openai", "columns": MESSAGES}, [{"messages": ROLES}] * 5),
        "wrong_key": ({"formatting": "sharegpt"}, [{"messages": TALK}] * 5),
        "turned": ({"formatting": "sharegpt"}, [{"conversations": TALK[::-1]}] * 5),
        "unanswered": ({"formatting": "sharegpt"}, [{"conversations": TALK[:1]}] * 5),
        "no_list": ({"formatting": "sharegpt"}, [{"conversations": "say a"}] * 5),
        "null_outputs": ({}, [{**ROW, "output": None}] * 5),
        "number_outputs": ({}, [{**ROW, "output": 7}] * 5),
        "number_prompt": ({}, [{**ROW, "instruction": 7}] * 5),
        "lists": ({}, [["say a", "a"]] * 5),
        "unranked": ({"columns": PAIRED}, [PAIR] * 5),
        "ranked_half": ({"ranking": True, "columns": {"prompt": "instruction"}}, [PAIR] * 5),
        "ranked_bare": ({"ranking": True}, [PAIR] * 5),
        "ranked_lists": (ranked, [{**PAIR, "chosen": ["a"], "rejected": ["b"]}] * 5),
        "judged_text": (rated, [{**ROW, "good": "yes"}] * 5),
        "judged_column": (rated, [ROW] * 5),
        "empty_rows": ({}, []),
        "split_test": ({"split": "test"}, [ROW] * 5),
        "scripted": ({"script_url": "load.py"}, None),
        "on_hub": ({"hf_hub_url": "a/b"}, None),
        "in_cloud": ({"cloud_file_name": "s3://a/b.json"}, None),
        "no_file": ({"file_name": "missing.json"}, None),
        "no_name": ({"columns": {}}, None),
        "strange": ({"file_name": "strange.xlsx"}, None),
        "broken": ({"file_name": "broken.json"}, None),
        "broken_line": ({"file_name": "broken.jsonl"}, None),
        "empty_file": ({"file_name": "empty.jsonl"}, None),
        "empty_folder": ({"file_name": "nothing"}, None),
        "mixed_folder": ({"file_name": "mixed"}, None),
        "lines": ({"file_name": "lines.jsonl"}, None),
        "table": ({"file_name": "table.csv"}, None),
        "plain": ({"file_name": "plain.txt", "columns": {"prompt": "text"}}, None),
        "folder": ({"file_name": "parts"}, None),
    }


def build(root: Path) -> Path:
    """Everything that the corpora name, below `root`."""
    helpers.write_model(root / "model")
    helpers.write_model(root / "tight")
    sizes = (root / "tight/config.json").read_text().replace('"vocab_size": 64', '"vocab_size": 3')
    (root / "tight/config.json").write_text(sizes)
    helpers.write_model(root / "pickled")
    (root / "pickled/model.safetensors").rename(root / "pickled/pytorch_model.bin")
    helpers.write_model(root / "untokened")
    (root / "untokened/tokenizer.json").unlink()
    data = root / "data"
    data.mkdir()
    info = {}
    for name, (entry, rows) in registered().items():
        info[name] = entry
        if rows is not None:
            info[name] = {"file_name": f"{name}.json", **entry}
            (data / f"{name}.json").write_text(json.dumps(rows))
    (data / "dataset_info.json").write_text(json.dumps({**info, "text": "a.json"}))
    (data / "strange.xlsx").write_text("x")
    (data / "broken.json").write_text('[{"instruction": "a", "input": ""')
    (data / "broken.jsonl").write_text(f"{json.dumps(ROW)}\n{{oops\n")
    (data / "empty.jsonl").write_text("")
    (data / "lines.jsonl").write_text(f"{json.dumps(ROW)}\n" * 5)
    (data / "table.csv").write_text("instruction,input,output\n" + "say a,,a\n" * 5)
    (data / "plain.txt").write_text("a text\n" * 500)
    for name, files in {"nothing": (), "mixed": ("a.json", "b.csv"), "parts": ("a.json", "b.json")}.items():
        (data / name).mkdir()
        for file in files:
            (data / name / file).write_text(json.dumps([ROW] * 5))
    _folders(root)
    return root


def _folders(root: Path) -> None:
    for name, text in {"list": "[]", "none": None, "broken": "{oops"}.items():
        (root / f"data_{name}").mkdir()
        if text is not None:
            (root / f"data_{name}/dataset_info.json").write_text(text)
    (root / "adapter").mkdir()
    _adapters(root)
    (root / "file").write_text("a file")
    (root / "ds2.json").write_text(
        json.dumps({"zero_optimization": {"stage": 2}, "train_micro_batch_size_per_gpu": "auto"})
    )
    (root / "ds3.json").write_text(json.dumps({"zero_optimization": {"stage": 3}}))
    (root / "ds_batch.json").write_text(json.dumps({"train_micro_batch_size_per_gpu": 64}))
    (root / "ds_broken.json").write_text("{oops")
    (root / "fsdp.json").write_text(json.dumps({"min_num_params": 1}))
    (root / "trained").mkdir()
    (root / "trained/adapter_model.safetensors").write_bytes(b"x")
    whole = ("adapter_model.safetensors", "trainer_state.json", "optimizer.pt", "scheduler.pt")
    for name, files in {"half": whole[:1], "bare": (), "stopped": whole, "ended": whole}.items():
        (root / name / "checkpoint-10").mkdir(parents=True)
        for file in files:
            (root / name / "checkpoint-10" / file).write_text(json.dumps({"global_step": 10, "epoch": 3.0}))
    (root / "ended/train_results.json").write_text("{}")
    (root / "tokens_wrong").mkdir()
    (root / "tokens_wrong/readme.txt").write_text("x")
    (root / "tokens").mkdir()
    (root / "tokens/dataset_dict.json").write_text("{}")
    (root / "room").mkdir()


def _adapters(root: Path) -> None:
    """A right one, one without weights, one of a wider model; and models that the engine cannot load."""
    for name, width in {"adapter": 8, "weightless": 0, "wider": 16}.items():
        (root / name).mkdir(exist_ok=True)
        (root / name / "adapter_config.json").write_text(json.dumps({"peft_type": "LORA"}))
        at = "base_model.model.model.layers.0.self_attn.q_proj.lora"
        if width:
            sizes = {f"{at}_A.weight": (4, width), f"{at}_B.weight": (width, 4)}
            helpers.write_safetensors(root / name / "adapter_model.safetensors", sizes)
    changes = {
        "alien": {"model_type": "alien"},
        "misnamed": {"architectures": ["AlienForCausalLM"]},
        "short": {"vocab_size": 2},
    }
    for name, change in {**changes, "own_code": {"model_type": "alien", "auto_map": {"AutoConfig": "a.B"}}}.items():
        config = json.loads((helpers.write_model(root / name) / "config.json").read_text())
        (root / name / "config.json").write_text(json.dumps(config | change))


@dataclass(frozen=True)
class Case:
    """One config of a corpus: its text, the key that must be named, and how it is looked at."""

    kind: str
    line: str
    key: str
    text: str
    profile: str = "engine"
    device: str = "cpu"
    overrides: tuple[str, ...] = field(default=())

    def __str__(self) -> str:
        return f"{self.kind}: {self.line}"


def cases(name: str) -> list[Case]:
    """A corpus: kind → lines `[@start] [%device=…] key: value | key: value | -key [## key to be named]`.

    `&` before a `key=value` makes it an override.
    """
    found = yaml.safe_load((HERE / name).read_text())
    return [case_of(kind, line) for kind, lines in found.items() for line in lines]


def case_of(kind: str, line: str) -> Case:
    """One line of a corpus."""
    body, _, key = line.partition(" ## ")
    start, device = "sft", "cpu"
    while body[:1] in ("@", "%"):
        word, _, body = body.partition(" ")
        start, device = (word[1:], device) if word[0] == "@" else (start, word[1:])
    values = {} if start == "run" else {**BASE, **STARTS[start]}
    parts = [part for part in body.split(" | ") if part]
    overrides = tuple(part[1:].replace("=", "=", 1) for part in parts if part.startswith("&"))
    written = [part for part in parts if not part.startswith("&")]
    for part in written:
        values.pop(part[1:] if part.startswith("-") else part.partition(":")[0], None)
    text = "".join(f"{k}: {v}\n" for k, v in values.items()) + "\n".join(p for p in written if not p.startswith("-"))
    named = key or (parts[0].lstrip("-&").replace("=", ":").partition(":")[0] if parts else "")
    return Case(kind, line, named.strip(), text, "run" if start == "run" else "engine", device, overrides)


def examples() -> Iterator[tuple[str, dict[str, Any]]]:
    """LLaMA-Factory's public examples, each as a whole config without its model and output folder."""
    told = yaml.safe_load((HERE / "public_examples.yaml").read_text())
    for name, other in told["files"].items():
        gone = other.get("without", "").split()
        values = {k: v for k, v in told["base"].items() if k not in gone}
        yield name, values | {k: v for k, v in other.items() if k != "without"}
