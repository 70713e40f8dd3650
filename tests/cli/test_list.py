"""`tuneloop list --family`: the parts of a family, and the tasks of reasoning_gym."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from tuneloop.cli.list import command
from tuneloop.core.errors import InvalidRequestError


def listed(family: str) -> list[str]:
    result = CliRunner().invoke(command, ["benchmarks", "--family", family, "--json"], catch_exceptions=False)
    return [row["name"] for row in json.loads(result.stdout)]


def test_a_family_is_listed_by_its_parts():
    assert listed("arc") == ["arc_c", "arc_e"]
    tasks = listed("rg")
    assert (len(tasks), tasks[0]) == (106, "rg:ab")


@pytest.mark.parametrize(("kind", "family", "says"), [("benchmarks", "ar", "arc"), ("runs", "rg", "has no families")])
def test_another_family_is_refused_in_one_line(kind, family, says):
    with pytest.raises(InvalidRequestError, match=says):
        CliRunner().invoke(command, [kind, "--family", family], catch_exceptions=False)
