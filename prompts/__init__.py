"""What agents are told: Markdown templates, filled strictly; an unknown or a missing name is an error."""

from __future__ import annotations

from importlib.resources import files
from string import Template

from tuneloop.core.brief import Brief
from tuneloop.prompts.sections import brief_sections


def render(name: str, brief: Brief) -> str:
    """`<name>.md` filled from the brief. Raises KeyError for a name that is not a part, ValueError for a bad `$`."""
    template = _template(name)
    wanted = template.get_identifiers()
    known = brief_sections(brief)
    return template.substitute({part: known[part] for part in wanted})


def fill(name: str, **given: str) -> str:
    """`<name>.md` with these parts and no others. Raises KeyError for one that is missing, ValueError for one too many."""
    template = _template(name)
    if foreign := given.keys() - set(template.get_identifiers()):
        raise ValueError(f"{name}.md has no ${min(foreign)}")
    return template.substitute(given)


def _template(name: str) -> Template:
    return Template(files(__name__).joinpath(f"{name}.md").read_text(encoding="utf-8"))
