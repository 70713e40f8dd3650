"""`tuneloop` with a planner whose second experiment is a GRPO on the first: `python grpo_planner.py run …`."""

from __future__ import annotations

import sys
from typing import Any

from tuneloop.agents.policy import OfflinePolicy
from tuneloop.core.experiment import Hypothesis, TrainConfig
from tuneloop.graph import context

SFT = """finetuning_type: full
learning_rate: 2.0e-3
max_steps: 100
per_device_train_batch_size: 16
cutoff_len: 256
disable_gradient_checkpointing: true
template: chatml
"""
GRPO = """stage: grpo
learning_rate: 1.0e-4
max_steps: 9
per_device_train_batch_size: 16
num_generations: 4
max_completion_length: 48
save_steps: 3
"""


class GrpoPlanner(OfflinePolicy):
    """The offline policy for the data; configs, and what the second experiment builds on, are given."""

    async def answer(self, agent: str, prompt: str, brief: Any, tools: Any, want: Any) -> Any:
        if agent == "config_coder":
            return TrainConfig(yaml=GRPO if brief.journal else SFT)
        if agent == "researcher" and brief.journal:
            plan = brief.journal[0].hypothesis.data_plan
            return Hypothesis(
                statement="GRPO", reason="-", disproof="-", aspect="method", parent=1, data_plan=plan,
                training_plan={"stage": "grpo"},
            )  # fmt: skip
        return await super().answer(agent, prompt, brief, tools, want)


if __name__ == "__main__":
    vars(context)["make_planner"] = lambda *_: GrpoPlanner()
    from tuneloop.cli.main import cli

    cli.main(sys.argv[1:])
