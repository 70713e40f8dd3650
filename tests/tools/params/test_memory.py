import pytest

from tuneloop.tools.params.catalog import Catalog
from tuneloop.tools.params.config_text import parse_config
from tuneloop.tools.params.memory import estimate_memory, memory_finding, trained_parameters
from tuneloop.tools.params.model_card import ModelCard
from tuneloop.tools.params.situation import Situation


@pytest.fixture
def seen(catalog: Catalog, card: ModelCard):
    return lambda text: Situation(parse_config(text), catalog, card, "cpu")


def test_trained_parameters(seen, card: ModelCard) -> None:
    assert trained_parameters(seen("finetuning_type: full")) == card.parameters
    assert trained_parameters(seen("lora_rank: 4\nlora_target: q_proj")) == 4 * 32
    assert trained_parameters(seen("lora_rank: 4")) == 4 * (32 + 24 + 48)


def test_components(seen, card: ModelCard) -> None:
    full = estimate_memory(seen("finetuning_type: full\ncutoff_len: 64"))
    assert (full.weights, full.gradients, full.optimizer) == (
        card.parameters * 4,
        card.parameters * 4,
        card.parameters * 8,
    )
    assert full.total > sum((full.weights, full.gradients, full.optimizer))
    assert estimate_memory(seen("finetuning_type: full\noptim: sgd")).optimizer == 0


def test_more_rows_need_more(seen) -> None:
    small, large = (estimate_memory(seen(f"cutoff_len: 64\nper_device_train_batch_size: {n}")) for n in (1, 64))
    assert large.activations == 64 * small.activations
    kept = estimate_memory(
        seen("cutoff_len: 64\nper_device_train_batch_size: 64\ndisable_gradient_checkpointing: true")
    )
    assert kept.activations > large.activations


def test_finding(seen) -> None:
    case = seen("cutoff_len: 64\nfinetuning_type: full")
    total = estimate_memory(case).total
    assert memory_finding(case, 2 * total) is None
    near, above = memory_finding(case, total), memory_finding(case, total // 2)
    assert near
    assert above
    assert (near.level, above.level) == ("warning", "error")
