"""The stock tools as their own documentation starts them: `llamafactory-cli train` and `opencompass`, one cold process each."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml
from place import Place
from processes import Spent, spend, well

from tuneloop.core.catalog import Benchmark, Item
from tuneloop.tools.benchmark_items.folder import render_prompt

# OpenCompass 0.5.4 calls a method that transformers 5 dropped: the shim that everybody needs, and a clock in `generate`.
SHIM = '''"""HuggingFacewithChatTemplate under transformers 5, with a clock."""
import os, time
from opencompass.models import HuggingFacewithChatTemplate
from opencompass.registry import MODELS
from transformers import PreTrainedTokenizerBase
if "batch_encode_plus" not in dir(PreTrainedTokenizerBase):
    PreTrainedTokenizerBase.batch_encode_plus = lambda self, batch, **kw: self(batch, **kw)
@MODELS.register_module()
class HF5Chat(HuggingFacewithChatTemplate):
    def generate(self, *args, **kwargs):
        began = time.perf_counter()
        found = super().generate(*args, **kwargs)
        with open(os.environ["GENERATION_CLOCK"], "a") as f:
            f.write(f"{time.perf_counter() - began}\\n")
        return found
'''
CONFIG = """\
from stock_shim import HF5Chat
from opencompass.datasets import CustomDataset
from opencompass.datasets.math import MATHEvaluator, math_postprocess_v2
from opencompass.openicl.icl_inferencer import GenInferencer
from opencompass.openicl.icl_prompt_template import PromptTemplate
from opencompass.openicl.icl_retriever import ZeroRetriever
turn = dict(role='HUMAN', prompt='{{stock_asked}}')
datasets = [dict(
    abbr='items', type=CustomDataset, path={items!r},
    reader_cfg=dict(input_columns=['stock_asked'], output_column='stock_gold'),
    infer_cfg=dict(prompt_template=dict(type=PromptTemplate, template=dict(round=[turn])),
                   retriever=dict(type=ZeroRetriever), inferencer=dict(type=GenInferencer, max_out_len={longest})),
    eval_cfg=dict(evaluator=dict(type=MATHEvaluator, version='v2'),
                  pred_postprocessor=dict(type=math_postprocess_v2)))]
bot = dict(role='BOT', api_role='BOT', generate=True)
meta = dict(round=[dict(role='HUMAN', api_role='HUMAN'), bot], reserved_roles=[dict(role='SYSTEM', api_role='SYSTEM')])
models = [dict(
    type=HF5Chat, abbr='model', path={model!r}, tokenizer_path={tokenizer!r}, meta_template=meta,
    model_kwargs=dict(torch_dtype='torch.float32', device_map='cpu'), max_out_len={longest}, max_seq_len=1024,
    batch_size={batch}, run_cfg=dict(num_gpus=0))]
"""
OFFLINE = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_DATASETS_OFFLINE", "HF_EVALUATE_OFFLINE")


@dataclass(frozen=True)
class StockTraining:
    """`steps`: seconds by the trainer's own clock."""

    spent: Spent
    steps: float
    model: Path


@dataclass(frozen=True)
class StockEvaluation:
    """`generation`: seconds inside the model's `generate`; `verdicts` and `answers` in the order of the items."""

    spent: Spent
    generation: float
    verdicts: tuple[bool, ...]
    answers: tuple[str, ...]


def plain_environment(place: Place, engine: str) -> dict[str, str]:
    """Offline, one thread, nothing of this process's own."""
    bin_ = place.engines[engine].bin
    found = {"PATH": f"{bin_}:/usr/bin:/bin", "HOME": str(place.root), "LANG": "C.UTF-8", "OMP_NUM_THREADS": "1"}
    return {**found, "TOKENIZERS_PARALLELISM": "false", "CUDA_VISIBLE_DEVICES": "", **dict.fromkeys(OFFLINE, "1")}


def train(place: Place, config: Path, work: Path) -> StockTraining:
    """`llamafactory-cli train` with the values of `config`, in a folder of its own."""
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    values = {**yaml.safe_load(config.read_text()), "output_dir": str(work / "model")}
    (work / "train.yaml").write_text(yaml.safe_dump(values))
    env = {**plain_environment(place, "llamafactory"), "DISABLE_VERSION_CHECK": "1"}
    argv = (str(place.engines["llamafactory"].bin / "llamafactory-cli"), "train", str(work / "train.yaml"))
    spent = well(spend(argv, env=env, cwd=work, log=work / "log.txt"), work / "log.txt")
    return StockTraining(spent, trainer_seconds(work / "model"), work / "model")


def trainer_seconds(model: Path) -> float:
    """`train_runtime`: from the trainer's first step to its last, checkpoints on the way included."""
    return float(json.loads((model / "all_results.json").read_text())["train_runtime"])


def evaluate(
    place: Place, model: Path, benchmark: Benchmark, items: Sequence[Item], batch: int, work: Path
) -> StockEvaluation:
    """`opencompass CONFIG` in its default mode: a process for inference and one for scoring below the command's own."""
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    # named so that no item contains `{column}`: OpenCompass would replace it there too
    rows = [{"stock_asked": render_prompt(benchmark, item), "stock_gold": item.answer} for item in items]
    (work / "items.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))
    (work / "stock_shim.py").write_text(SHIM)
    places = {"items": str(work / "items.jsonl"), "model": str(model), "tokenizer": str(place.tiny)}
    (work / "config.py").write_text(CONFIG.format(**places, longest=benchmark.max_new_tokens, batch=batch))
    env = plain_environment(place, "opencompass")
    env |= {"PYTHONPATH": str(work), "GENERATION_CLOCK": str(work / "clock.txt")}
    argv = (str(place.engines["opencompass"].bin / "opencompass"), "config.py", "-w", "out", "--max-num-workers", "1")
    spent = well(spend(argv, env=env, cwd=work, log=work / "log.txt"), work / "log.txt")
    return read_evaluation(work, spent, len(items))


def read_evaluation(work: Path, spent: Spent, count: int) -> StockEvaluation:
    """OpenCompass's own files. Raises RuntimeError when it exited with 0 and measured nothing, as it does."""
    try:
        (predictions,) = work.glob("out/*/predictions/model/items.json")
        (results,) = work.glob("out/*/results/model/items.json")
    except ValueError as e:
        logs = "".join(p.read_text(errors="replace")[-1500:] for p in work.glob("out/*/logs/*/*/*.out"))
        raise RuntimeError(f"stock OpenCompass measured nothing: {logs}") from e
    answers = json.loads(predictions.read_text())
    details = json.loads(results.read_text())["details"]
    verdicts = details.values() if isinstance(details, dict) else details
    found = tuple(right(detail["correct"]) for detail in verdicts if isinstance(detail, dict))
    if len(answers) != count or len(found) != count:
        raise RuntimeError(f"stock OpenCompass left {len(answers)} answers and {len(found)} verdicts for {count} items")
    generation = sum(map(float, (work / "clock.txt").read_text().split()))
    texts = tuple(answers[str(i)]["prediction"] for i in range(count))
    return StockEvaluation(spent, generation, found, texts)


def right(value: bool | list[bool]) -> bool:
    """OpenCompass writes a verdict as it is, or as a list of one."""
    return bool(value[0] if isinstance(value, list) else value)
