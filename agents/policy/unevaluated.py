"""The offline policy's plan where no benchmark says how to ask and answer: rows as the data have them, a question once."""

from __future__ import annotations

from tuneloop.agents.policy.data_plan import Plan, clean_rows, with_sources, with_step
from tuneloop.agents.policy.parameter_map import ParameterMap, first_training
from tuneloop.agents.policy.situation import DataSource, Situation
from tuneloop.core.errors import RecipeError
from tuneloop.core.experiment import Hypothesis


def plain_hypothesis(situation: Situation, parameter_map: ParameterMap) -> Hypothesis:
    """Every source that holds questions and replies. Raises RecipeError where none does."""
    sources = [s for s in situation.sources if s.usable]
    if not sources:
        names = ", ".join(s.id for s in situation.sources) or "none"
        raise RecipeError(f"no source holds questions and replies; looked at: {names}", culprit="data")
    rows = min(situation.task.row_limit, sum(map(clean_rows, sources)))
    return Hypothesis(
        statement=f"{', '.join(s.id for s in sources)}, with questions and replies as they are, each question once.",
        reason="no benchmark asks for a form, and nothing is evaluated",
        disproof="nothing: no score is measured",
        aspect="first",
        data_plan=plain_plan(sources),
        training_plan=first_training(situation, parameter_map, rows),
    )


def plain_plan(sources: list[DataSource]) -> Plan:
    """Read and drop repeats. Without the step that gives rows a benchmark's form they stay as they are."""
    return with_step(with_sources((), sources), "dedupe", "a question twice is learned twice")
