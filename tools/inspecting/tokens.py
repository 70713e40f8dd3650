"""Tokens of a sample's texts, by a model's own tokenizer."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tuneloop.core.errors import SetupError
from tuneloop.tools.inspecting.facts import Spread
from tuneloop.tools.inspecting.sizes import spread_of

MOST_CHARACTERS = 1 << 21  # of one column that are tokenized


class TokenCounter:
    """The tokenizer of a model's folder. Raises SetupError where there is none."""

    def __init__(self, model: Path) -> None:
        from tokenizers import Tokenizer  # slow to import, and most inspections count no tokens

        path = model / "tokenizer.json" if model.is_dir() else model
        try:
            self._tokenizer = Tokenizer.from_file(str(path))
        except Exception as e:  # the library raises nothing narrower
            raise SetupError(f"{path}: no tokenizer can be read from it; right is a model with tokenizer.json") from e
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()

    def spread(self, texts: Sequence[str]) -> Spread | None:
        """Tokens of as many texts as fit into the budget, evenly chosen; the marks at both ends are not counted."""
        whole = sum(map(len, texts))
        some = list(texts[:: 1 + whole // MOST_CHARACTERS])
        codes = self._tokenizer.encode_batch_fast(some, add_special_tokens=False)
        return spread_of(map(len, codes))
