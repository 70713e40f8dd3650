"""OpenCompass's view of local weights: safetensors only, no remote code."""

from __future__ import annotations

import json
import time
from typing import Any

import torch
from oc_generate import Decoding, answer_all, cut
from oc_shares import SHARES
from oc_template import render
from oc_weights import HELD
from opencompass.models import HuggingFaceBaseModel, HuggingFacewithChatTemplate
from opencompass.models.huggingface_above_v4_33 import _convert_base_messages, _convert_chat_messages
from opencompass.registry import MODELS
from transformers import AutoTokenizer

# OpenCompass replaces `{column}` again inside what it has inserted; prompts travel without braces.
HIDE = str.maketrans("{}", "\ue000\ue001")
SHOW = str.maketrans("\ue000\ue001", "{}")


class Progress:
    """Prints `{"done": .., "total": ..}`, a line at a time; the break before it ends a half-drawn progress bar."""

    def __init__(self) -> None:
        self.done = self.total = self.truncated = 0
        self.generating = 0.0  # seconds

    def expect(self, total: int) -> None:
        """So many items will be answered."""
        self.total = total
        self.add(0)

    def add(self, count: int) -> None:
        """`count` more items are answered."""
        SHARES.check()
        self.done += count
        print("\n" + json.dumps({"done": self.done, "total": self.total, "unit": "answers"}), flush=True)


PROGRESS = Progress()


class Local:
    """What all wrappers share; overrides loading and generation of OpenCompass's classes, whose parameters stay.

    `rows`: prompts in a batch; `again`: the same base is wanted once more after this model; `rank`: largest rank of the
    job's adapters.
    """

    def __init__(
        self, *, rows: int, again: bool, rank: int, seed: int, asked: dict[str, Any] | None = None, **kwargs: Any
    ) -> None:
        self.rows, self.again, self.rank, self.seed = rows, again, rank, seed
        self.asked = asked or {}  # the set at hand
        super().__init__(**kwargs)

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
        self.model = HELD.take(path, peft_path, kwargs, self.again)

    def _get_potential_stop_words(self, path: str) -> list[str]:  # noqa: ARG002
        return []

    @property
    def ends(self) -> list[int]:
        """Tokens that end an answer."""
        return ending(self.model.generation_config.eos_token_id, self.tokenizer.eos_token_id)

    def generate(self, inputs: list[Any], max_out_len: int) -> list[str]:
        """Answers; a prompt that leaves no room for an answer loses its beginning and is counted."""
        began = time.perf_counter()
        prompts, room = self.prompts(inputs, max_out_len)
        answers = SHARES.answers(len(prompts), lambda: self.answer(prompts, room), PROGRESS.add)
        decoded = self.tokenizer.batch_decode(answers, skip_special_tokens=True)
        texts = [cut(text, self.asked["stop"]) for text in decoded]
        PROGRESS.generating += time.perf_counter() - began
        return texts

    def prompts(self, inputs: list[Any], max_out_len: int) -> tuple[list[list[int]], int]:
        """The prompts' token ids, and how many tokens an answer may have."""
        texts, special = self.texts(inputs)
        room = min(max_out_len, self.max_seq_len // 2)
        ids = self.tokenizer(texts, add_special_tokens=special)["input_ids"]
        longest = self.max_seq_len - room
        over = sum(len(row) > longest for row in ids)
        if over:
            PROGRESS.truncated += over
            shorter = {"truncation": True, "max_length": longest, "add_special_tokens": special}
            ids = self.tokenizer(texts, **shorter)["input_ids"]
        return ids, room

    def answer(self, prompts: list[list[int]], room: int) -> dict[int, list[int]]:
        """Token ids up to the first end token, of this process's share."""
        pad = self.tokenizer.pad_token_id
        with torch.inference_mode():
            how = Decoding(room, self.ends, pad, self.asked["temperature"], self.asked["top_p"], self.seed)
            return answer_all(self.model, prompts, how, rows=self.rows, told=PROGRESS.add, mine=SHARES.mine)


class Chat(Local):
    """A model whose tokenizer has a chat template."""

    def texts(self, inputs: list[Any]) -> tuple[list[str], bool]:
        """Prompts as the chat template writes them, special tokens included; as they are where the set wants that."""
        chats = _convert_chat_messages(inputs)
        if self.asked["form"] == "base":
            return ["".join(message["content"] for message in chat).translate(SHOW) for chat in chats], True
        for chat in chats:
            for message in chat:
                message["content"] = message["content"].translate(SHOW)
        return render(self.tokenizer, chats, self.asked.get("template_options")), False


class Base(Local):
    """A model without a chat template: the prompt is text to be continued."""

    def texts(self, inputs: list[Any]) -> tuple[list[str], bool]:
        """Prompts as they are."""
        return [text.translate(SHOW) for text in _convert_base_messages(inputs)], True


@MODELS.register_module()
class TuneloopChat(Chat, HuggingFacewithChatTemplate):
    """Through transformers."""


@MODELS.register_module()
class TuneloopBase(Base, HuggingFaceBaseModel):
    """Through transformers."""


def ending(declared: int | list[int] | None, own: int | None) -> list[int]:
    """End tokens of the model's generation config and of its tokenizer, sorted."""
    several = declared if isinstance(declared, list) else [declared]
    return sorted({end for end in (*several, own) if end is not None})
