"""The critic: explains a result that code has judged, and keeps one lesson."""

from tuneloop.agents.agent import Agent
from tuneloop.core.experiment import Critique

CRITIC = Agent(
    name="critic",
    answer=Critique,
    tools=(
        "evaluation_scores",
        "evaluation_failures",
        "evaluation_compare",
        "training_loss_curve",
        "data_report",
        "data_show_items",
    ),
    summary=lambda answer: (answer.lesson, answer.explanation),
)
