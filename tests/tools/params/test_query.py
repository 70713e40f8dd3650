import time

import pytest

from tuneloop.tools.params.catalog import Catalog
from tuneloop.tools.params.query import query


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("learning rate", "learning_rate"),
        ("lora rank", "lora_rank"),
        ("What is lora_rank and its default value?", "lora_rank"),
        ("lora_rnak", "lora_rank"),
        ("early stopping", "early_stopping_steps"),
        ("freeze trainable layers", "freeze_trainable_layers"),
        ("warmup", "warmup_steps"),
        ("cutoff length of tokenized inputs", "cutoff_len"),
        ("weight decay", "weight_decay"),
        ("neftune", "neftune_noise_alpha"),
    ],
)
def test_finds(text: str, first: str, catalog: Catalog) -> None:
    found = [p.name for p in query(catalog, text, 3)]
    assert first in found[:2]


def test_limit_order_and_nothing(catalog: Catalog) -> None:
    assert len(query(catalog, "learning rate", 4)) == 4
    assert query(catalog, "lora", 9) == query(catalog, "lora", 9)
    assert query(catalog, "xyzzy plugh", 5) == []
    assert query(catalog, "", 5) == []


def test_it_is_quick(catalog: Catalog) -> None:
    query(catalog, "learning rate", 5)
    before = time.process_time()
    for _ in range(10):
        query(catalog, "learning rate schedule for lora", 5)
    assert (time.process_time() - before) / 10 < 0.02
