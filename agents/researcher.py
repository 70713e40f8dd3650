"""The researcher: reads benchmark, data, journal and failures, and proposes one falsifiable idea."""

from tuneloop.agents.agent import ROW_TOOLS, Agent
from tuneloop.core.experiment import Hypothesis

RESEARCHER = Agent(
    name="researcher",
    answer=Hypothesis,
    tools=(
        *ROW_TOOLS,
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
