"""`tuneloop matrix`: words of the seed, and what is refused before anything costs."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from tuneloop.cli.main import cli
from tuneloop.cli.matrix import spread_values

TASK = ("--task", "wordproblems")


def refused(*words: str) -> str:
    result = CliRunner().invoke(cli, ["matrix", *words])
    assert result.exit_code == 2, result.output
    (line,) = result.stderr.splitlines()
    return line


def test_options_take_several_values() -> None:
    words = ["--experiments", "a", "b", "--only-eval", "--task", "t", "--experiments=c", "d"]
    assert spread_values(words, ["--experiments"]) == [
        *("--experiments", "a", "--experiments", "b", "--only-eval", "--task", "t", "--experiments=c", "d"),
    ]
    assert spread_values(["--results_dirs", "a", "b", "--output_dir", "c"], ["--results-dirs"]) == [
        *("--results_dirs", "a", "--results_dirs", "b", "--output_dir", "c"),
    ]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--task", "gsm9k"), "did you mean 'gsm8k'"),
        ((), "Usage"),
        ((*TASK, "--experiments", "sft_chat"), "experiment 'sft_chat' is unknown: did you mean sft_chat_template?"),
        (("train", "grpo", *TASK), "Missing option '--output-dir'"),
        (("train", "ppo", *TASK), "No such command 'ppo'"),
        (("show-tokens", *TASK, "--experiments", "grpo_no_chat"), "GRPO learns from replies that it makes itself"),
        ((*TASK, "--extra-chat-template-kwargs", "[1]"), "is no JSON object"),
        ((*TASK, "--extra-chat-template-kwargs", "{"), "is no JSON"),
        ((*TASK, "--config", "absent"), "none of sft.yaml, grpo.yaml, eval.yaml is there"),
        ((*TASK, "--only-report"), "no evaluation in "),
        ((*TASK, "--only-eval", "--experiments", "sft_chat_template"), "no model in "),
        (
            (*TASK, "--only-eval"),
            "train it with tuneloop matrix --task wordproblems --experiments sft_chat_template grpo_chat",
        ),
        ((*TASK, "--only-eval", "--experiments", "sft_no_chat_mask_q", "--seeds", "2"), "sft_no_chat_mask_q --seeds 2"),
        (("eval", *TASK, "--model-path", "a/b/c", "--output-dir", "x"), "model a/b/c: no such folder; train it with"),
        (("report", "--results-dirs", "x", "y", "--output-dir", "z"), "is missing; right is a folder of an evaluation"),
    ],
)
def test_bad_input_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    if not words:
        assert said in CliRunner().invoke(cli, ["matrix"]).output
        return
    assert said in refused(*words)
    assert not (tmp_path / "results").exists()
