"""The data engineer: writes `process_data.py`."""

from tuneloop.agents.agent import ROW_TOOLS, Agent
from tuneloop.core.experiment import DataScript

DATA_ENGINEER = Agent(
    name="data_engineer",
    answer=DataScript,
    tools=(
        *ROW_TOOLS,
        "data_failures",
        "data_show_items",
        "data_report",
        "params_model_card",
        "data_try_script",
        "data_try_result",
    ),
    summary=lambda answer: (f"process_data.py, {len(answer.code.splitlines())} lines", answer.notes),
)
