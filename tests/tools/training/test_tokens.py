"""Tokens of a training row by the engine's own code, counted by hand, beside the prompts that are evaluated."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import SHARED_HOME, quiet
from tuneloop.core.errors import InvalidRequestError, ToolError
from tuneloop.core.files import write_json
from tuneloop.core.layout import RunFolder
from tuneloop.core.settings import Settings
from tuneloop.tools.benchmark_items.folder import BenchmarkFolder
from tuneloop.tools.benchmarks.wordproblems import BENCHMARK
from tuneloop.tools.config.grpo_config import GrpoConfig
from tuneloop.tools.engines import Engine
from tuneloop.tools.hub.models import ModelFolder
from tuneloop.tools.matrix.configs import EvalConfig, MatrixConfig
from tuneloop.tools.matrix.experiments import EXPERIMENTS, Experiment, ResultTree
from tuneloop.tools.matrix.run import Request, check_prefixes, tokens_of
from tuneloop.tools.matrix.tasks import Sample, Task
from tuneloop.tools.matrix.training import TrainingRunTools
from tuneloop.tools.training.tokens import RowTokens, Token, experiment_tokens

CHAT, FULL, MASKED = (one for one in EXPERIMENTS if one.method == "sft")
SAMPLE = Sample("12?", "7")
THINKING = (  # as Qwen3's: an empty thought where thinking is turned off
    "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' }}{% if m.role == 'assistant' %}"
    "{{ '<think>\n\n</think>\n\n' + m.content }}{% else %}{{ m.content }}{% endif %}{{ '<|im_end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}"
    "{% if enable_thinking is defined and enable_thinking is false %}{{ '<think>\n\n</think>\n\n' }}{% endif %}{% endif %}"
)
SYSTEM = (  # as SmolLM2's: a system turn of its own
    "{% if messages[0].role != 'system' %}{{ '<|im_start|>system\nGo<|im_end|>\n' }}{% endif %}"
    "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)


def tools_for(tmp_path: Path, model: Path) -> TrainingRunTools:
    settings = Settings(FT_FILE_PATH=tmp_path / "home", FT_ENGINES_DIR=SHARED_HOME / "engines")
    task = Task(BenchmarkFolder(BENCHMARK, tmp_path, "f"), (SAMPLE,))
    return TrainingRunTools(
        RunFolder(settings.home.trainings), settings, task=task, model=ModelFolder("m", model), say=quiet
    )


def asked(tmp_path: Path, model: Path, experiments: list[Experiment], options: dict[str, Any]) -> list[RowTokens]:
    tools = tools_for(tmp_path, model)
    request = Request(
        "t", experiments, ResultTree(tmp_path), MatrixConfig({}, GrpoConfig(), EvalConfig(), {}), "m", options
    )
    return tokens_of(request, experiments, SAMPLE, tools, quiet)


def texts(one: RowTokens, *, loss: bool) -> list[str]:
    return [token.text for token in one.tokens if token.loss == loss]


@pytest.fixture
def copy(tmp_path: Path, tiny: Path) -> Path:
    shutil.copytree(tiny, tmp_path / "model")
    return tmp_path / "model"


def test_every_token_of_the_embedded_model(tmp_path: Path, tiny: Path, llamafactory: Engine) -> None:
    chat, full, masked = asked(tmp_path, tiny, [CHAT, FULL, MASKED], {})
    frame = ["<|im_start|>", "user", "\n"], ["<|im_end|>", "\n", "<|im_start|>", "assistant", "\n"]
    assert texts(chat, loss=False) == [*frame[0], "1", "2", "?", *frame[1]]
    assert texts(chat, loss=True) == ["7", "<|im_end|>", "\n"]
    assert texts(full, loss=False) == []
    assert texts(full, loss=True) == ["1", "2", "?", "7", "<|im_end|>"]
    assert (texts(masked, loss=False), texts(masked, loss=True)) == (["1", "2", "?"], ["7", "<|im_end|>"])
    assert chat.chat == tuple(token.id for token in chat.tokens if not token.loss)
    assert masked.raw == tuple(token.id for token in masked.tokens if not token.loss)
    check_prefixes([chat, full, masked])
    told = masked.facts()
    assert (told["with_loss"], told["prompt"], told["trained_prefix_is_evaluated_prompt"]) == (2, 3, True)
    assert json.dumps(told)


@pytest.mark.parametrize(
    ("template", "options", "begins", "ends"),
    [
        (THINKING, {"enable_thinking": False}, "", "<think>\n\n</think>\n\n"),
        (SYSTEM, {}, "<|im_start|>system\nGo<|im_end|>\n", ""),
    ],
    ids=["no thinking", "system turn"],
)
def test_templates_of_other_models(
    tmp_path: Path, copy: Path, llamafactory: Engine, template: str, options: dict[str, Any], begins: str, ends: str
) -> None:
    (copy / "chat_template.jinja").write_text(template)
    (one,) = asked(tmp_path, copy, [CHAT], options)
    assert "".join(texts(one, loss=False)) == f"{begins}<|im_start|>user\n12?<|im_end|>\n<|im_start|>assistant\n{ends}"
    assert "".join(texts(one, loss=True)).endswith("7<|im_end|>\n")
    check_prefixes([one])


def test_every_token_of_a_pretrained_model(tmp_path: Path, smollm2: Path, llamafactory: Engine) -> None:
    """Its default system turn, its end of turn and no token before the first one: read in training as in evaluation."""
    chat, full, masked = asked(tmp_path, smollm2, [CHAT, FULL, MASKED], {})
    check_prefixes([chat, full, masked])
    assert chat.chat == tuple(token.id for token in chat.tokens if not token.loss)
    system = "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n"
    read = "".join(texts(chat, loss=False))
    assert read == f"{system}<|im_start|>user\n12?<|im_end|>\n<|im_start|>assistant\n"
    assert texts(chat, loss=True) == ["7", "<|im_end|>", "\n"]
    assert "".join(texts(masked, loss=False)) == "12?"
    assert texts(masked, loss=True)[-1] == "<|im_end|>"


def test_a_template_that_the_evaluation_does_not_use(tmp_path: Path, tiny: Path, llamafactory: Engine) -> None:
    tools = tools_for(tmp_path, tiny)
    folder = RunFolder(tmp_path / "run").experiment(1)
    write_json(folder.data / "data.json", [{"instruction": "1", "input": "2?", "output": "7"}])
    folder.config.write_text("template: default\ntrain_on_prompt: true\n")
    found = experiment_tokens(tools, folder, 0, quiet)
    assert "".join(texts(found, loss=True)).startswith("Human: 1\n2?<|im_end|>\nAssistant:7<|im_end|>")
    assert found.counts["trained_prefix_is_evaluated_prompt"] is False
    with pytest.raises(ToolError, match="row 1 does not exist; experiment 1 has 1 rows, numbered from 0"):
        experiment_tokens(tools, folder, 1, quiet)


def test_another_prefix_is_refused() -> None:
    row = RowTokens("sft_chat_template", "chat", (Token(1, "a", loss=False), Token(2, "b", loss=True)), (1, 3), (1,))
    with pytest.raises(
        InvalidRequestError, match="sft_chat_template: the evaluated prompt is not what its rows begin with"
    ):
        check_prefixes([row])
    check_prefixes([RowTokens("other", "raw", row.tokens, None, (1,))])
    with pytest.raises(InvalidRequestError):
        check_prefixes([RowTokens("sft_chat_template", "chat", row.tokens, None, (1,))])
