"""The validator: after a failure it names the culprit and the repair."""

from tuneloop.agents.agent import Agent
from tuneloop.core.experiment import Diagnosis

VALIDATOR = Agent(
    name="validator",
    answer=Diagnosis,
    tools=(
        "params_query_parameters",
        "params_describe_parameter",
        "params_get_decision_guidance",
        "params_compare_methods",
        "params_suggest_config",
        "params_check_config",
        "params_estimate_memory",
        "params_list_templates",
        "params_list_parameter_files",
        "params_read_source_file",
        "params_read_constants",
        "params_model_card",
        "data_list_datasets",
        "data_profile_dataset",
        "data_report",
        "training_loss_curve",
        "training_forecast",
    ),
    summary=lambda answer: (f"{answer.culprit}: {answer.repair}", answer.problem),
)
