"""The critic: explains a result that code has judged, and keeps one lesson."""

from tuneloop.agents.agent import Agent
from tuneloop.core.experiment import Critique

CRITIC = Agent(
    name="critic",
    answer=Critique,
    tools=(
        "evaluation_get_result",
        "evaluation_explain_failures",
        "evaluation_compare",
        "training_loss_curve",
        "training_forecast",
        "training_show_tokens",
        "params_model_card",
        "params_suggest_config",
        "data_list_datasets",
        "data_profile_dataset",
        "data_report",
        "data_show_items",
    ),
    summary=lambda answer: (answer.lesson, answer.explanation),
)
