"""The validator: after a failure it names the culprit and the repair."""

from tuneloop.agents.agent import PARAMETER_TOOLS, Agent
from tuneloop.core.experiment import Diagnosis

VALIDATOR = Agent(
    name="validator",
    answer=Diagnosis,
    tools=(
        *PARAMETER_TOOLS,
        "data_list_datasets",
        "data_profile_dataset",
        "data_report",
        "training_loss_curve",
        "training_forecast",
        "training_show_tokens",
    ),
    summary=lambda answer: (f"{answer.culprit}: {answer.repair}", answer.problem),
)
