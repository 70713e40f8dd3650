"""The data engineer: writes `process_data.py`."""

from tuneloop.agents.agent import Agent
from tuneloop.core.experiment import DataScript

DATA_ENGINEER = Agent(
    name="data_engineer",
    answer=DataScript,
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
        "data_failures",
        "data_show_items",
        "data_report",
        "params_model_card",
        "data_try_script",
        "data_try_result",
    ),
    summary=lambda answer: (f"process_data.py, {len(answer.code.splitlines())} lines", answer.notes),
)
