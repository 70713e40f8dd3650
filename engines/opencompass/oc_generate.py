"""Greedy answers: batches of similar length, the keys and values of what was read are kept, rows that end leave.

Which rows share a batch is decided by token length and position alone, so the same items give the same batches. A row
that has ended leaves its batch every `CHUNK` tokens: one long answer does not hold the others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

CHUNK = 16


def greedy(
    model: Any,
    prompts: Sequence[Sequence[int]],
    *,
    room: int,
    ends: Sequence[int],
    pad: int,
    rows: int,
    told: Callable[[int], None],
) -> list[list[int]]:
    """Answers as token ids without the end token, in the prompts' order.

    At most `room` tokens each, `rows` prompts at a time; `told(count)` hears of answers that are whole.
    """
    order = sorted(range(len(prompts)), key=lambda i: (len(prompts[i]), i))
    answers: dict[int, list[int]] = {}
    for start in range(0, len(order), rows):
        batch = order[start : start + rows]
        found = answer_batch(model, [prompts[i] for i in batch], room, ends, pad, told)
        answers.update(zip(batch, found, strict=True))
    return [answers[i] for i in range(len(prompts))]


def answer_batch(
    model: Any,
    prompts: Sequence[Sequence[int]],
    room: int,
    ends: Sequence[int],
    pad: int,
    told: Callable[[int], None],
) -> list[list[int]]:
    """Answers of one batch, in the prompts' order."""
    tokens, mask = padded(prompts, pad, model.device)
    begin, cache = tokens.shape[1], None
    stops = torch.tensor(ends, device=tokens.device)
    rows, answers = list(range(len(prompts))), {}
    while rows:
        left = room - (tokens.shape[1] - begin)
        out = step(model, tokens, mask, cache, min(CHUNK, left), ends, pad)
        grown = out.sequences.shape[1] - tokens.shape[1]
        tokens, cache = out.sequences, out.past_key_values
        mask = torch.cat([mask, mask.new_ones(len(mask), grown)], dim=1)
        ended = torch.isin(tokens[:, begin:], stops).any(dim=1)
        over = torch.ones_like(ended) if left <= grown else ended
        over_now = over.tolist()
        answers |= {
            row: until(ids, ends) for row, ids, o in zip(rows, tokens[:, begin:].tolist(), over_now, strict=True) if o
        }
        told(sum(over_now))
        keep = (~over).nonzero().flatten()
        rows = [rows[i] for i in keep.tolist()]
        tokens, mask = tokens[keep], mask[keep]
        cache = thinned(cache, keep) if rows and len(keep) < len(over_now) else cache
    return [answers[row] for row in range(len(prompts))]


def step(
    model: Any, tokens: torch.Tensor, mask: torch.Tensor, cache: Any, count: int, ends: Sequence[int], pad: int
) -> Any:
    """Up to `count` more tokens of each row, the most likely each time."""
    plain = {"do_sample": False, "num_beams": 1, "temperature": None, "top_p": None, "top_k": None, "use_cache": True}
    return model.generate(
        input_ids=tokens,
        attention_mask=mask,
        past_key_values=cache,
        max_new_tokens=count,
        pad_token_id=pad,
        eos_token_id=list(ends) or None,
        return_dict_in_generate=True,
        **plain,
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
