import pytest

from tuneloop.tools.config.catalog import Catalog
from tuneloop.tools.config.config_text import parse_config
from tuneloop.tools.config.context import ConfigContext
from tuneloop.tools.config.memory import estimate_memory, memory_finding, recipe_of
from tuneloop.tools.config.memory_estimate import trained_parameters
from tuneloop.tools.config.model_card import ModelCard


@pytest.fixture
def seen(catalog: Catalog, card: ModelCard):
    return lambda text: ConfigContext(parse_config(text), catalog, card, "cpu")


def test_trained_parameters(seen, card: ModelCard) -> None:
    def trained(text: str) -> int:
        return trained_parameters(card.shape, recipe_of(seen(text)))

    assert trained("finetuning_type: full") == card.parameters
    assert trained("lora_rank: 4\nlora_target: q_proj") == 4 * 32
    assert trained("lora_rank: 4") == 4 * (32 + 24 + 48)


def test_recipe_is_what_the_config_says(seen) -> None:
    default = recipe_of(seen("stage: sft"))
    assert (default.method, default.precision, default.rank, default.targets) == ("lora", "fp32", 8, ())
    assert (default.checkpointing, default.tokens, default.bits) == (True, 2048, None)
    text = "finetuning_type: full\nuse_galore: true\ngalore_rank: 16\ndisable_gradient_checkpointing: true\noptim: sgd"
    other = recipe_of(seen(text), tokens=100)
    assert (other.method, other.low_rank, other.rank) == ("full", "galore", 16)
    assert (other.checkpointing, other.tokens, other.optimizer) == (False, 100, "sgd")


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


def test_on_a_gpu_only_what_surely_does_not_fit_is_an_error(catalog: Catalog, card: ModelCard) -> None:
    def found(text: str, available: int) -> str:
        config = parse_config(f"finetuning_type: full\nper_device_train_batch_size: 4096\n{text}")
        finding = memory_finding(ConfigContext(config, catalog, card, "cuda"), available)
        assert finding is not None
        return f"{finding.level}: {finding.text}"

    asked = parse_config("finetuning_type: full\nper_device_train_batch_size: 4096")
    total = estimate_memory(ConfigContext(asked, catalog, card, "cuda")).total
    least = 800 << 20  # what the driver takes
    assert found("", total // 2).startswith("warning: needs about")
    assert "where rows have cutoff_len tokens; lower" in found("", total // 2)
    assert found("packing: true", total // 2).startswith("error: ")
    assert found("", least // 2).startswith("error: ")
