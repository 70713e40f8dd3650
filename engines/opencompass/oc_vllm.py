"""OpenCompass's view of local weights through vLLM: all items at once, adapters as requests on a base that stays loaded.

With the prompts and end tokens of the other wrappers. Imported only by jobs that ask for it.
"""

from __future__ import annotations

import gc
from typing import Any

import torch
import vllm
from oc_config import vllm_options
from oc_generate import until
from oc_models import PROGRESS, Base, Chat, ending
from oc_shares import SHARES
from opencompass.models import HuggingFaceBaseModel, HuggingFacewithChatTemplate
from opencompass.registry import MODELS
from transformers import AutoConfig, GenerationConfig
from vllm.lora.request import LoRARequest

VERSION = vllm.__version__


class Served:
    """At most one vLLM engine, kept as long as its base is wanted."""

    def __init__(self) -> None:
        self.options: dict[str, Any] | None = None
        self.engine: Any = None
        self.adapters: list[str] = []

    def take(self, options: dict[str, Any]) -> Any:
        """The engine with these options; another one is ended first."""
        if options != self.options:
            self.options = self.engine = None
            gc.collect()
            torch.cuda.empty_cache()
            self.engine = vllm.LLM(**options)
            self.options = options
        return self.engine

    def request(self, adapter: str) -> LoRARequest:
        """The adapter under a name and number of its own, counted from 1."""
        if adapter not in self.adapters:
            self.adapters.append(adapter)
        number = self.adapters.index(adapter) + 1
        return LoRARequest(f"adapter-{number}", number, adapter)


SERVED = Served()


class Fast:
    """Loading and answering through vLLM; goes before `Chat` or `Base`."""

    def _load_model(
        self,
        path: str,
        kwargs: dict[str, Any],  # noqa: ARG002
        peft_path: str | None = None,
        peft_kwargs: Any = None,  # noqa: ARG002
    ) -> None:
        config = AutoConfig.from_pretrained(path, trust_remote_code=False)
        options = vllm_options(
            path,
            self.tokenizer.name_or_path,
            str(config.dtype or "auto"),
            self.max_seq_len,
            self.rank,
            self.seed,
            SHARES.spread,
        )
        self.model = SERVED.take(options)
        self.adapter = SERVED.request(peft_path) if peft_path else None
        try:
            declared = GenerationConfig.from_pretrained(path).eos_token_id
        except OSError:  # the folder has no generation_config.json
            declared = config.eos_token_id
        self.stops = ending(declared, self.tokenizer.eos_token_id)

    @property
    def ends(self) -> list[int]:
        """Tokens that end an answer."""
        return self.stops

    def answer(self, prompts: list[list[int]], room: int) -> dict[int, list[int]]:
        """Token ids up to the first end token, of every prompt whose number is this process's."""
        chance = {name: self.asked[name] for name in ("temperature", "top_p")}
        how = {"max_tokens": room, "stop_token_ids": self.ends, "detokenize": False, **chance}
        own = [number for number in range(len(prompts)) if SHARES.mine(number)]
        asked = [{"prompt_token_ids": prompts[number]} for number in own]
        # a seed an answer: the same prompt asked twice gets two answers
        params = [vllm.SamplingParams(**how, seed=self.seed * 1_000_003 + number) for number in own]
        found = self.model.generate(asked, params, use_tqdm=False, lora_request=self.adapter)
        PROGRESS.add(len(found))
        return {
            number: until(list(one.outputs[0].token_ids), self.ends) for number, one in zip(own, found, strict=True)
        }


@MODELS.register_module()
class TuneloopVLLMChat(Fast, Chat, HuggingFacewithChatTemplate):
    """Through vLLM."""


@MODELS.register_module()
class TuneloopVLLMBase(Fast, Base, HuggingFaceBaseModel):
    """Through vLLM."""
