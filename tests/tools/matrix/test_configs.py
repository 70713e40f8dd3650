from __future__ import annotations

from pathlib import Path

import pytest

from tuneloop.core.errors import InvalidRequestError
from tuneloop.tools.matrix.configs import EVAL, SFT, SHIPPED, read_configs


def test_shipped_configs_are_sound() -> None:
    found = read_configs(None)
    assert found.sft["learning_rate"] == 1e-3
    assert found.evaluation.decoding.temperature == 0
    assert found.evaluation.sample_limit is None
    assert found.texts == {name: (SHIPPED / name).read_text() for name in (SFT, EVAL)}


def test_a_file_of_the_user_replaces_one_shipped_file(tmp_path: Path) -> None:
    (tmp_path / EVAL).write_text("max_tokens: 64\nsample_limit: 20\n")
    found = read_configs(tmp_path)
    assert (found.evaluation.max_tokens, found.evaluation.sample_limit) == (64, 20)
    assert found.sft == read_configs(None).sft
    (tmp_path / EVAL).write_text("# nothing\n")
    assert read_configs(tmp_path).evaluation.max_tokens is None


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        (SFT, "num_generations: 8", r"sft.yaml: num_generations: is a parameter of GRPO; it belongs into grpo.yaml"),
        (SFT, "template: chatml", "sft.yaml: template: is what the experiments decide; leave it out"),
        (SFT, "max_tokens: 9", "sft.yaml: max_tokens: is a key of eval.yaml"),
        (SFT, "learning_rate: 1\nlearning_rate: 2", "sft.yaml:2: learning_rate: stands here and on line 1"),
        (SFT, "- 1", "sft.yaml:1: is no mapping"),
        (EVAL, "max_token: 9", "eval.yaml: max_token: is unknown: did you mean 'max_tokens'"),
        (EVAL, "beta: 0.1", "eval.yaml: beta: is a parameter of GRPO"),
        (EVAL, "temperature: hot", "eval.yaml: temperature: .* valid number .given: 'hot'"),
        (EVAL, "sample_limit: 0", "eval.yaml: sample_limit: .*greater than or equal to 1"),
    ],
)
def test_wrong_keys_are_explained(tmp_path: Path, name: str, text: str, said: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(InvalidRequestError, match=said):
        read_configs(tmp_path)


def test_a_folder_without_configs_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequestError, match=r"neither sft\.yaml nor eval\.yaml is there"):
        read_configs(tmp_path / "absent")
