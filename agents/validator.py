"""The validator: after a failure it names the culprit and the repair."""

from tuneloop.agents.agent import Agent
from tuneloop.core.experiment import Diagnosis

VALIDATOR = Agent(
    name="validator",
    answer=Diagnosis,
    tools=(
        "data_list_datasets",
        "data_profile_dataset",
        "data_report",
        "params_model_card",
        "params_describe_parameter",
        "params_check_config",
        "training_loss_curve",
        "training_forecast",
    ),
    summary=lambda answer: (f"{answer.culprit}: {answer.repair}", answer.problem),
)
