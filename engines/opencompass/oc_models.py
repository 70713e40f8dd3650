"""OpenCompass's view of local weights: greedy, safetensors only, no remote code; and an evaluator that uses our scorer."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from opencompass.models import HuggingFaceBaseModel, HuggingFacewithChatTemplate
from opencompass.models.huggingface_above_v4_33 import _convert_base_messages, _convert_chat_messages
from opencompass.openicl.icl_evaluator import BaseEvaluator
from opencompass.registry import ICL_EVALUATORS, MODELS
from peft import PeftModel
from transformers import AutoModelForCausalLM, AutoTokenizer

# OpenCompass replaces `{column}` again inside what it has inserted; prompts travel without braces.
HIDE = str.maketrans("{}", "\ue000\ue001")
SHOW = str.maketrans("\ue000\ue001", "{}")


class Progress:
    """Prints `{"done": .., "total": ..}`, a line after each batch; the break before it ends a half-drawn progress bar."""

    def __init__(self) -> None:
        self.done = self.total = self.truncated = 0

    def add(self, count: int) -> None:
        """`count` more items are answered."""
        self.done += count
        print("\n" + json.dumps({"done": self.done, "total": self.total, "unit": "answers"}), flush=True)


PROGRESS = Progress()


class Local:
    """What the two wrappers share; overrides loading and generation of OpenCompass's classes, whose parameters stay."""

    def _load_tokenizer(self, path: str, kwargs: dict[str, Any], pad_token_id: int | None = None) -> None:  # noqa: ARG002
        sides = {"padding_side": "left", "truncation_side": "left"}
        self.tokenizer = AutoTokenizer.from_pretrained(path, trust_remote_code=False, **sides)
        if self.tokenizer.pad_token_id is None:
            self.tokenizer.pad_token_id = self.tokenizer.eos_token_id
        if self.tokenizer.pad_token_id is None:
            raise ValueError(f"{path}: the tokenizer has neither a pad nor an end token")

    def _load_model(
        self,
        path: str,
        kwargs: dict[str, Any],
        peft_path: str | None = None,
        peft_kwargs: Any = None,  # noqa: ARG002
    ) -> None:
        model = AutoModelForCausalLM.from_pretrained(path, use_safetensors=True, trust_remote_code=False, **kwargs)
        if peft_path is not None:
            if not (Path(peft_path) / "adapter_model.safetensors").is_file():
                raise FileNotFoundError(f"{peft_path}: adapter_model.safetensors is missing")
            # merged, because what a run leaves in the end is the merged model
            model = PeftModel.from_pretrained(model, peft_path, is_trainable=False).merge_and_unload()
        self.model = model.eval()

    def _get_potential_stop_words(self, path: str) -> list[str]:  # noqa: ARG002
        return []

    @property
    def ends(self) -> list[int]:
        """Tokens that end an answer."""
        declared = self.model.generation_config.eos_token_id
        several = declared if isinstance(declared, list) else [declared]
        return sorted({end for end in (*several, self.tokenizer.eos_token_id) if end is not None})

    def generate(self, inputs: list[Any], max_out_len: int) -> list[str]:
        """Greedy answers; a prompt that leaves no room for an answer loses its beginning and is counted."""
        texts, special = self.texts(inputs)
        room = min(max_out_len, self.max_seq_len // 2)
        longest = self.max_seq_len - room
        lengths = [len(ids) for ids in self.tokenizer(texts, add_special_tokens=special)["input_ids"]]
        PROGRESS.truncated += sum(length > longest for length in lengths)
        batch = self.tokenizer(
            texts, return_tensors="pt", padding=True, truncation=True, max_length=longest, add_special_tokens=special
        )
        tokens = {name: batch[name].to(self.model.device) for name in ("input_ids", "attention_mask")}
        kwargs = {"do_sample": False, "num_beams": 1, "temperature": None, "top_p": None, "top_k": None}
        pad, ends = self.tokenizer.pad_token_id, self.ends
        with torch.inference_mode():
            out = self.model.generate(
                **tokens, **kwargs, max_new_tokens=room, pad_token_id=pad, eos_token_id=ends or None
            )
        answers = [self.answer(row, ends) for row in out[:, tokens["input_ids"].shape[1] :].tolist()]
        PROGRESS.add(len(answers))
        return answers

    def answer(self, row: list[int], ends: list[int]) -> str:
        """Text before the first end token."""
        stop = next((i for i, token in enumerate(row) if token in ends), len(row))
        return str(self.tokenizer.decode(row[:stop], skip_special_tokens=True))


@MODELS.register_module()
class TuneloopChat(Local, HuggingFacewithChatTemplate):
    """A model whose tokenizer has a chat template."""

    def texts(self, inputs: list[Any]) -> tuple[list[str], bool]:
        """Prompts as the chat template writes them, special tokens included."""
        chats = _convert_chat_messages(inputs)
        for chat in chats:
            for message in chat:
                message["content"] = message["content"].translate(SHOW)
        kwargs = {"add_generation_prompt": True, "tokenize": False}
        return [self.tokenizer.apply_chat_template(chat, **kwargs) for chat in chats], False


@MODELS.register_module()
class TuneloopBase(Local, HuggingFaceBaseModel):
    """A model without a chat template: the prompt is text to be continued."""

    def texts(self, inputs: list[Any]) -> tuple[list[str], bool]:
        """Prompts as they are."""
        return [text.translate(SHOW) for text in _convert_base_messages(inputs)], True


@ICL_EVALUATORS.register_module()
class TuneloopEvaluator(BaseEvaluator):
    """Percent of answers that our scorer calls right."""

    def __init__(self, answer_kind: str, scoring: str) -> None:
        super().__init__()
        self.kind, self.scorer = answer_kind, load_scorer(scoring)

    def score(self, predictions: list[str], references: list[str]) -> dict[str, Any]:
        """Accuracy and one detail an item."""
        if len(predictions) != len(references):
            raise ValueError(f"{len(predictions)} predictions for {len(references)} references")
        details = [
            {
                "parsed": self.scorer.extract(self.kind, text),
                "answer": gold,
                "correct": self.scorer.correct(self.kind, gold, text),
            }
            for text, gold in zip(predictions, references, strict=True)
        ]
        return {"accuracy": 100 * sum(d["correct"] for d in details) / len(details), "details": details}


def load_scorer(path: str) -> ModuleType:
    """The scorer, from its file."""
    spec = importlib.util.spec_from_file_location("tuneloop_scoring", path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is no Python file")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
