"""The config coder: asks the parameter server and writes `train.yaml`."""

from tuneloop.agents.agent import PARAMETER_TOOLS, Agent
from tuneloop.core.experiment import TrainConfig

CONFIG_CODER = Agent(
    name="config_coder",
    answer=TrainConfig,
    tools=(
        *PARAMETER_TOOLS,
        "data_profile_dataset",
        "data_report",
        "training_forecast",
        "training_show_tokens",
    ),
    summary=lambda answer: ("train.yaml: " + ", ".join(answer.yaml.split("\n")[:40]).strip(", ")[:160], answer.notes),
)
