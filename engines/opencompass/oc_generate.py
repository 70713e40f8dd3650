"""Answers, the most likely or drawn: batches of similar length, the keys and values of what was read are kept, rows that end leave.

Which rows share a batch is decided by token length and position alone, so the same items give the same batches. A row
that has ended leaves its batch every `CHUNK` tokens: one long answer does not hold the others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

CHUNK = 16


@dataclass(frozen=True)
class Decoding:
    """At most `room` tokens an answer; `ends` end one; `temperature` 0 takes the most likely token each time."""

    room: int
    ends: Sequence[int]
    pad: int
    temperature: float = 0.0
    top_p: float = 1.0
    seed: int = 1

    @property
    def options(self) -> dict[str, Any]:
        """Arguments of transformers' `generate`."""
        if self.temperature:
            chance = {"do_sample": True, "temperature": self.temperature, "top_p": self.top_p, "top_k": 0}
        else:
            chance = {"do_sample": False, "temperature": None, "top_p": None, "top_k": None}
        ends = {"pad_token_id": self.pad, "eos_token_id": list(self.ends) or None}
        return {**chance, **ends, "num_beams": 1, "use_cache": True}


def answer_all(
    model: Any,
    prompts: Sequence[Sequence[int]],
    how: Decoding,
    *,
    rows: int,
    told: Callable[[int], None],
    mine: Callable[[int], bool],
) -> dict[int, list[int]]:
    """Answers as token ids without the end token, by the prompt's number, `rows` prompts at a time.

    `told(count)` hears of answers that are whole; `mine(number)`: whether this process answers that batch. Drawn answers
    depend on the seed and on the batch, so the same items give the same ones.
    """
    order = sorted(range(len(prompts)), key=lambda i: (len(prompts[i]), i))
    answers: dict[int, list[int]] = {}
    for start in range(0, len(order), rows):
        if not mine(start // rows):
            continue
        batch = order[start : start + rows]
        if how.temperature:
            torch.manual_seed(how.seed * 1_000_003 + start)
        found = answer_batch(model, [prompts[i] for i in batch], how, told)
        answers.update(zip(batch, found, strict=True))
    return answers


def answer_batch(
    model: Any, prompts: Sequence[Sequence[int]], how: Decoding, told: Callable[[int], None]
) -> list[list[int]]:
    """Answers of one batch, in the prompts' order."""
    tokens, mask = padded(prompts, how.pad, model.device)
    begin, cache = tokens.shape[1], None
    stops = torch.tensor(how.ends, device=tokens.device)
    rows, answers = list(range(len(prompts))), {}
    while rows:
        left = how.room - (tokens.shape[1] - begin)
        out = step(model, tokens, mask, cache, min(CHUNK, left), how)
        grown = out.sequences.shape[1] - tokens.shape[1]
        tokens, cache = out.sequences, out.past_key_values
        mask = torch.cat([mask, mask.new_ones(len(mask), grown)], dim=1)
        ended = torch.isin(tokens[:, begin:], stops).any(dim=1)
        over = torch.ones_like(ended) if left <= grown else ended
        over_now = over.tolist()
        whole = zip(rows, tokens[:, begin:].tolist(), over_now, strict=True)
        answers |= {row: until(ids, how.ends) for row, ids, o in whole if o}
        told(sum(over_now))
        keep = (~over).nonzero().flatten()
        rows = [rows[i] for i in keep.tolist()]
        tokens, mask = tokens[keep], mask[keep]
        cache = thinned(cache, keep) if rows and len(keep) < len(over_now) else cache
    return [answers[row] for row in range(len(prompts))]


def step(model: Any, tokens: torch.Tensor, mask: torch.Tensor, cache: Any, count: int, how: Decoding) -> Any:
    """Up to `count` more tokens of each row."""
    return model.generate(
        input_ids=tokens,
        attention_mask=mask,
        past_key_values=cache,
        max_new_tokens=count,
        return_dict_in_generate=True,
        **how.options,
    )


def padded(prompts: Sequence[Sequence[int]], pad: int, device: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """Token ids (rows x longest, padded on the left) and the mask of what is no padding."""
    width = max(map(len, prompts))
    ids = [[pad] * (width - len(row)) + list(row) for row in prompts]
    seen = [[0] * (width - len(row)) + [1] * len(row) for row in prompts]
    return torch.tensor(ids, device=device), torch.tensor(seen, device=device)


def thinned(cache: Any, keep: torch.Tensor) -> Any:
    """The cache of the rows `keep`; None, and what was read is read again, where a model's cache cannot be thinned."""
    if not hasattr(cache, "batch_select_indices"):
        return None
    cache.batch_select_indices(keep)
    return cache


def until(row: list[int], ends: Sequence[int]) -> list[int]:
    """What stands before the first end token."""
    return row[: next((i for i, token in enumerate(row) if token in ends), len(row))]


def cut(text: str, stops: Sequence[str]) -> str:
    """What stands before the first of the texts that end a reply."""
    return text[: min((at for stop in stops if (at := text.find(stop)) >= 0), default=len(text))]
