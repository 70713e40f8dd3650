"""The config coder: asks the parameter server and writes `train.yaml`."""

from tuneloop.agents.agent import Agent
from tuneloop.core.experiment import TrainConfig

CONFIG_CODER = Agent(
    name="config_coder",
    answer=TrainConfig,
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
        "data_profile_dataset",
        "data_report",
        "training_forecast",
    ),
    summary=lambda answer: ("train.yaml: " + ", ".join(answer.yaml.split("\n")[:40]).strip(", ")[:160], answer.notes),
)
