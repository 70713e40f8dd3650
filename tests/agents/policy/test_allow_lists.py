"""The policy asks for nothing that its agents may not use."""

from __future__ import annotations

import pytest

from tuneloop.agents.config_coder import CONFIG_CODER
from tuneloop.agents.critic import CRITIC
from tuneloop.agents.data_engineer import DATA_ENGINEER
from tuneloop.agents.researcher import RESEARCHER
from tuneloop.agents.validator import VALIDATOR
from tuneloop.core.score import Score

SCORE = Score(benchmark="b", split="validation", metric="accuracy", value=40, low=33, high=47, n=200, parsed=90)


@pytest.mark.parametrize("agent", [RESEARCHER, DATA_ENGINEER, CONFIG_CODER, VALIDATOR, CRITIC], ids=lambda a: a.name)
def test_every_tool_asked_for_is_allowed(messy, agent):
    first = messy.hypothesis()
    messy.asked.clear()
    journal = () if agent in (CRITIC, VALIDATOR) else (messy.row(1, first, value=40.0),)
    told = {"hypothesis": first, "journal": journal, "score": SCORE, "failure": "validate: train.yaml:3 cutoff_len: 0"}
    messy.ask(agent.name, agent.answer, **told)
    assert messy.asked or agent is VALIDATOR
    assert set(messy.asked) <= set(agent.tools)
