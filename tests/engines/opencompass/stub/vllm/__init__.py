"""Stands for vLLM where there is no GPU: the calls that oc_vllm.py makes, answered by transformers, and written down."""

import json
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from peft import PeftModel
from transformers import AutoModelForCausalLM

__version__ = "stub"


def note(**call: Any) -> None:
    with Path(os.environ["VLLM_STUB_LOG"]).open("a") as f:
        f.write(json.dumps(call) + "\n")


class SamplingParams:
    def __init__(self, **given: Any) -> None:
        self.given = given


class LLM:
    def __init__(self, **options: Any) -> None:
        note(options=options)
        self.path = options["model"]

    def generate(
        self, prompts: list[dict[str, list[int]]], params: list[SamplingParams], *, use_tqdm: bool, lora_request: Any
    ) -> list[Any]:
        note(
            prompts=len(prompts),
            params=[p.given for p in params],
            use_tqdm=use_tqdm,
            lora=lora_request and vars(lora_request),
        )
        model = AutoModelForCausalLM.from_pretrained(self.path, dtype=torch.float32)
        if lora_request:
            model = PeftModel.from_pretrained(model, lora_request.lora_path)
        asked = zip(prompts, params, strict=True)
        return [self.one(model.eval(), prompt["prompt_token_ids"], p.given) for prompt, p in asked]

    def one(self, model: Any, ids: list[int], given: dict[str, Any]) -> Any:
        stop = {"eos_token_id": given["stop_token_ids"], "max_new_tokens": given["max_tokens"]}
        out = model.generate(input_ids=torch.tensor([ids]), do_sample=False, **stop)
        return SimpleNamespace(outputs=[SimpleNamespace(token_ids=tuple(out[0, len(ids) :].tolist()))])
