"""GRPO on the real engine: killed twice it ends with the same weights; what rewards show to be wrong ends it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from tests.conftest import COMMAND, linked_home, tuneloop
from tuneloop.core.catalog import Benchmark
from tuneloop.core.errors import InvalidRequestError
from tuneloop.core.files import digest_file, read_json
from tuneloop.tools.benchmark_items.folder import BenchmarkFolder
from tuneloop.tools.config.grpo_config import GrpoConfig
from tuneloop.tools.config.model_card import load_tokenizer
from tuneloop.tools.engines import Engine
from tuneloop.tools.matrix.experiments import Experiment
from tuneloop.tools.matrix.grpo import check_grpo, check_lengths
from tuneloop.tools.matrix.tasks import Sample, Task
from tuneloop.tools.matrix.training import TrainingRunTools
from tuneloop.tools.training.grpo import reward_findings

YAML = "name: even\ndescription: Say much or little.\nanswer: verifier:even.py\nprompt: '{what}'\nseconds: 1\nmax_new_tokens: 8\n"
EVEN = "def score(answer, item):\n    return float(len(answer) % 2 == 0)\n"
CONFIG = """start_from: base
finetuning_type: lora
learning_rate: 1.0e-3
max_steps: 12
per_device_train_batch_size: 8
num_generations: 4
max_completion_length: 8
beta: 0.05
save_steps: 3
"""


def write_task(place: Path) -> None:
    """A benchmark in which half of all replies are right, and a config of a few steps."""
    (place / "even").mkdir()
    (place / "even" / "benchmark.yaml").write_text(YAML)
    (place / "even" / "even.py").write_text(EVEN)
    for split, count in (("validation", 8), ("test", 8), ("train", 16)):
        rows = [{"what": f"{split} {i}: go on", "number": i, "answer": "ab"} for i in range(count)]
        (place / "even" / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (place / "configs").mkdir()
    (place / "configs" / "grpo.yaml").write_text(CONFIG)


def words(name: str) -> tuple[str, ...]:
    asked = ("matrix", "train", "grpo", "--task", "even", "--base-model", "tiny", "--use-chat-template")
    return (*asked, "--config", "configs", "--output-dir", name)


def task_of(place: Path, **sample: object) -> Task:
    """Of four short prompts; `sample`: what the scorer has of each."""
    declared = Benchmark(name="even", description="d", answer="verifier:even.py", prompt="{what}")
    return Task(BenchmarkFolder(declared, place, "f"), (Sample("Say much.", "ab", **sample),) * 4)  # type: ignore[arg-type]


def test_a_tokenizers_own_padding_makes_no_prompt_too_long(tmp_path: Path, tiny: Path) -> None:
    tokenizer = load_tokenizer(tiny / "tokenizer.json")
    tokenizer.enable_padding(length=500)
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    tools = SimpleNamespace(setup=SimpleNamespace(model_root=tmp_path), card=SimpleNamespace(max_positions=1000))
    values = GrpoConfig(per_device_train_batch_size=4, num_generations=2, max_prompt_length=64)
    check_lengths(cast("TrainingRunTools", tools), task_of(tmp_path), values)
    with pytest.raises(InvalidRequestError, match="0 of the 4 of even have at most 1 tokens"):
        check_lengths(
            cast("TrainingRunTools", tools), task_of(tmp_path), values.model_copy(update={"max_prompt_length": 1})
        )


def test_rows_without_what_the_verifier_needs_are_refused(tmp_path: Path) -> None:
    experiment, tools = (
        Experiment("grpo_no_chat", chat=False, mask_question=True),
        cast("TrainingRunTools", SimpleNamespace(card=None)),
    )
    with pytest.raises(InvalidRequestError, match="remove it, and it is made again"):
        check_grpo(experiment, tools, task_of(tmp_path), GrpoConfig())


def trainer(home: Path) -> int:
    """The process that trains; 0 while there is none."""
    for place in Path("/proc").glob("[0-9]*"):
        try:
            argv = (place / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if (
            len(argv) > 2
            and argv[1].endswith(b"/grpo.py")
            and argv[2].startswith(bytes(home))
            and b"train.input" in argv[2]
        ):
            return int(place.name)
    return 0


def kill_at(home: Path, steps: Sequence[int], running: Callable[[], bool]) -> int:
    """End the training with SIGKILL once its checkpoint of each step is there; how often that was done."""
    done = 0
    for step in steps:
        while running():
            proved = list(home.glob(f"trainings/even-*/experiments/001/model/checkpoint-{step}/proof.json"))
            if proved and (pid := trainer(home)):
                os.kill(pid, signal.SIGKILL)
                done += 1
                break
            time.sleep(0.005)
    return done


def test_killed_twice_it_ends_with_the_weights_of_an_undisturbed_one(warm_home: Path, trl: Engine) -> None:
    write_task(warm_home.parent)
    tuneloop(warm_home, *words("whole"))
    note = read_json(warm_home.parent / "whole" / "trained.json")
    rewards = [row["reward"] for row in note["rewards"]]
    assert (note["start"], note["experiment"], len(rewards)) == ("base", "grpo_chat_template", 12)
    assert 0 < sum(rewards) < 12
    assert all("kl" in row for row in note["rewards"])
    (training,) = [path for path in warm_home.glob("trainings/even-*") if (path / "experiments/001/model").is_dir()]
    seen = [path for path in (training / "experiments/001/work").rglob("*") if path.is_file()]
    assert not [p for p in seen if "score" not in str(p) and b'"number"' in p.read_bytes()], "answers are the scorer's"

    other = linked_home(warm_home.parent / "other")
    env = {**os.environ, "FT_FILE_PATH": str(other)}
    with subprocess.Popen(
        [*COMMAND, *words("killed")], env=env, cwd=other.parent, stderr=subprocess.PIPE, text=True
    ) as p:
        killed = kill_at(other, (3, 6), lambda: p.poll() is None)
        assert p.wait() == 0, p.stderr.read() if p.stderr else ""
    assert killed == 2
    assert len(list(other.glob("trainings/even-*/experiments/001/jobs/train.*"))) == 3
    ours, theirs = (warm_home.parent / name / "adapter_model.safetensors" for name in ("whole", "killed"))
    assert digest_file(ours) == digest_file(theirs)
    assert read_json(warm_home.parent / "killed" / "trained.json")["rewards"] == note["rewards"]


def test_a_verifier_that_cannot_score_ends_it_at_once(warm_home: Path, trl: Engine) -> None:
    write_task(warm_home.parent)
    (warm_home.parent / "even" / "even.py").write_text("import nothing_of_that_name\n" + EVEN)
    env = {**os.environ, "FT_FILE_PATH": str(warm_home)}
    began, argv = time.monotonic(), [*COMMAND, *words("none")]
    for _ in range(2):  # asked again it is tried again, and says the same
        done = subprocess.run(argv, env=env, cwd=warm_home.parent, capture_output=True, text=True, check=False)
        assert done.returncode == 2
        assert "the verifier cannot be loaded: ModuleNotFoundError" in done.stderr
    assert time.monotonic() - began < 240
    assert not (warm_home.parent / "none").exists()


def test_where_the_base_model_earns_nothing_an_sft_comes_first(warm_home: Path, trl: Engine) -> None:
    place = warm_home.parent
    (place / "configs").mkdir()
    (place / "configs" / "sft.yaml").write_text(
        "finetuning_type: full\nlearning_rate: 2.0e-3\nmax_steps: 30\nper_device_train_batch_size: 4\nmax_samples: 120\n"
    )
    (place / "configs" / "grpo.yaml").write_text(
        "max_steps: 2\nper_device_train_batch_size: 8\nnum_generations: 4\nmax_completion_length: 40\n"
    )
    (place / "configs" / "eval.yaml").write_text("max_tokens: 40\nsample_limit: 16\n")
    page = tuneloop(
        warm_home, "matrix", "--task", "wordproblems", "--experiments", "grpo_no_chat", "--config", "configs"
    ).splitlines()[-1]
    tree = place / "results" / "wordproblems"
    assert {path.name for path in (tree / "models").iterdir()} == {"grpo_no_chat", "sft_no_chat_mask_q"}
    note = read_json(tree / "models" / "grpo_no_chat" / "trained.json")
    assert (note["start"], note["training"]["method"], note["training"]["steps"]) == ("sft", "full", 2)
    assert {path.name for path in (tree / "eval").iterdir()} == {"grpo_no_chat_eval_chat", "grpo_no_chat_eval_raw"}
    assert "began with sft" in Path(page).read_text()


def test_a_task_of_too_few_prompts_is_refused(tmp_path: Path, trl: Engine) -> None:
    write_task(tmp_path)
    (tmp_path / "configs" / "grpo.yaml").write_text("per_device_train_batch_size: 256\n")
    env = {**os.environ, "FT_FILE_PATH": str(linked_home(tmp_path / "home"))}
    done = subprocess.run(
        [*COMMAND, *words("none")], env=env, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "replies to 32 prompts are drawn at once, and even has 16" in done.stderr
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize(
    ("config", "says"),
    [
        (
            "max_completion_length: 512\n",
            "grpo.yaml: max_completion_length: 512 leaves no room for a prompt; must be below 512",
        ),
        (
            "max_completion_length: 511\n",
            "and 0 of the 16 of even have at most 1 tokens; right is a larger max_prompt_length",
        ),
        (
            "max_prompt_length: 2\n",
            "and 0 of the 16 of even have at most 2 tokens; right is a larger max_prompt_length",
        ),
    ],
)
def test_lengths_that_the_model_has_no_room_for_are_refused(
    tmp_path: Path, trl: Engine, config: str, says: str
) -> None:
    write_task(tmp_path)
    (tmp_path / "configs" / "grpo.yaml").write_text(f"per_device_train_batch_size: 8\nnum_generations: 4\n{config}")
    env = {**os.environ, "FT_FILE_PATH": str(linked_home(tmp_path / "home"))}
    done = subprocess.run(
        [*COMMAND, *words("none")], env=env, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr.strip().count("\n")) == (2, 0)
    assert says in done.stderr
    assert not (tmp_path / "none").exists()


def curve(rewards: Sequence[float], clipped: Sequence[float] = ()) -> list[dict[str, float]]:
    return [
        {"step": i + 1.0, "reward": reward, "clipped": clipped[i] if clipped else 0.0}
        for i, reward in enumerate(rewards)
    ]


@pytest.mark.parametrize(
    ("rewards", "clipped", "kind"),
    [
        ([0.0] * 19, (), None),
        ([0.0] * 20, (), "no_reward"),
        ([0.0] * 19 + [0.125], (), None),
        ([0.6] * 15 + [0.1] * 5, (), "collapse"),
        ([0.6, 0.2] * 10, (), None),
        ([0.05] * 15 + [0.0] * 5, (), None),
        ([0.6] * 20, [0.1] * 15 + [1.0] * 5, "length"),
        ([0.6] * 20, [1.0] * 20, None),
    ],
)
def test_what_rewards_show(rewards: list[float], clipped: list[float], kind: str | None) -> None:
    assert [found.kind for found in reward_findings(curve(rewards, clipped))] == ([kind] if kind else [])
