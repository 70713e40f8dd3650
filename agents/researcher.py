"""The researcher: reads benchmark, data, journal and failures, and proposes one falsifiable idea."""

from tuneloop.agents.agent import Agent
from tuneloop.core.experiment import Hypothesis

RESEARCHER = Agent(
    name="researcher",
    answer=Hypothesis,
    tools=(
        "data_list_datasets",
        "data_inspect_dataset",
        "data_profile_dataset",
        "data_sample_rows",
        "data_column_stats",
        "data_search_rows",
        "data_find_duplicates",
        "data_check_overlap",
        "data_benchmark_card",
        "data_show_items",
        "data_report",
        "params_model_card",
        "params_query_parameters",
        "params_suggest_config",
        "training_loss_curve",
        "training_forecast",
        "evaluation_get_result",
        "evaluation_explain_failures",
        "evaluation_compare",
    ),
    summary=lambda answer: (f"stop: {answer.statement}" if answer.stop else answer.statement, answer.reason),
)
