"""Says what is wrong with a `train.yaml` before anything runs: one sentence a finding, with what would be right."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from tuneloop.core.errors import SetupError
from tuneloop.tools.memory import Shape
from tuneloop.tools.params.catalog import Catalog
from tuneloop.tools.params.config_text import Config, ConfigError, Form, parse_config
from tuneloop.tools.params.conflicts import broken_rules
from tuneloop.tools.params.data_registry import wrong_data
from tuneloop.tools.params.finding import Complaint, Finding
from tuneloop.tools.params.fitness import misfits
from tuneloop.tools.params.folders import wrong_places
from tuneloop.tools.params.memory import memory_finding
from tuneloop.tools.params.model_card import ModelCard, read_model_card
from tuneloop.tools.params.names import unknown
from tuneloop.tools.params.overrides import with_overrides
from tuneloop.tools.params.packages import source_has
from tuneloop.tools.params.profile import noteworthy, overwritten, refusal
from tuneloop.tools.params.situation import Profile, Situation
from tuneloop.tools.params.values import complaint

# Stands for a model that nobody named: it has no limits, so nothing is held against the config.
NO_MODEL = ModelCard(
    folder=Path(),
    architecture="unknown",
    model_type="unknown",
    parameters=0,
    dtype="unknown",
    layers=0,
    hidden=0,
    vocab=0,
    max_positions=None,
    chat_template="",
    template=None,
    tokens=frozenset(),
    shape=Shape(layers=0, hidden=0, vocab=0, heads=1, wide=0, attended=0, embedding=0, head=0, rest=0),
)


def check_config(
    text: str,
    catalog: Catalog,
    model: ModelCard | None,
    device: str,
    memory: int | None = None,
    *,
    profile: Profile = "run",
    overrides: Sequence[str] = (),
    form: Form = "yaml",
    data: Path | None = None,
    here: Path | None = None,
    installed: bool = True,
) -> list[Finding]:
    """Findings by line; none of level error means that training may start.

    `model` None: the one that the config names, where it is a folder. `device` is cpu, cuda or a card (`cuda:V100`);
    `memory` the bytes a training may use there, None: not known. `profile` engine: what the installed release can run;
    run: also nothing that the loop decides itself or that leaves the run. `overrides`: `key=value` as behind the
    engine's command. `data`: the folder of dataset_info.json instead of `dataset_dir`. `here`: where relative paths
    begin. `installed` False: packages that the engine lacks are warnings.
    """
    try:
        config = with_overrides(parse_config(text, form), overrides)
    except ConfigError as e:
        return [Finding("error", e.line, e.key, e.text, e.override)]
    single = list(_single(config, catalog, profile))
    bad = {key for _, key, _ in single}
    sound = Config({k: v for k, v in config.values.items() if k not in bad}, config.lines, config.overrides)
    place = here or Path.cwd()
    card, broken = _card(sound, model, profile, place)
    situation = Situation(sound, catalog, card, device, profile, data, place, installed)
    whole = _whole(situation, memory if card is not NO_MODEL else None)
    found = [*single, *broken, *(c for c in whole if c[1] not in bad)]
    if form == "json" and profile == "engine" and _fails_at_json(catalog):
        found.append(("warning", "", "is JSON, at which this release fails; give it the same as YAML"))
    placed = [_placed(c, config) for c in dict.fromkeys(found)]
    return sorted(placed, key=lambda f: (f.override, f.line))


def errors(findings: Iterable[Finding]) -> list[str]:
    """The errors as lines."""
    return [str(f) for f in findings if f.level == "error"]


def _fails_at_json(catalog: Catalog) -> bool:
    """Releases whose parser hands a path to json.load."""
    return source_has(catalog.factory, "hparams/parser.py", "json.load(Path(")


def _placed(told: Complaint, config: Config) -> Finding:
    level, key, text = told
    number = config.overrides.get(key, 0)
    return Finding(level, 0 if number else config.lines.get(key, 0), key, text, number)


def _single(config: Config, catalog: Catalog, profile: Profile) -> Iterator[Complaint]:
    """What is wrong with each key by itself."""
    for key, value in config.values.items():
        parameter = catalog.parameters.get(key)
        if parameter is None:
            yield "error", key, unknown(key, value, catalog)
        elif not parameter.settable:
            yield "error", key, "is derived by the engine; leave it out"
        elif profile == "run" and (refused := refusal(key, value)):
            yield "error", key, refused
        elif wrong := complaint(parameter, value, catalog):
            yield "error", key, wrong


def _card(config: Config, model: ModelCard | None, profile: Profile, here: Path) -> tuple[ModelCard, list[Complaint]]:
    """The model that the config is judged against, and what is wrong with its folder."""
    name = config.values.get("model_name_or_path")
    if model is not None or profile == "run" or not isinstance(name, str) or not name:
        return model or NO_MODEL, []
    folder = here / Path(name).expanduser()
    if not folder.is_dir():
        return NO_MODEL, []
    try:
        return read_model_card(folder), []
    except SetupError as e:
        return NO_MODEL, [("error", "model_name_or_path", str(e))]


def _whole(situation: Situation, memory: int | None) -> Iterator[Complaint]:
    """What only shows when all keys are seen together."""
    yield from broken_rules(situation)
    yield from misfits(situation)
    yield from wrong_places(situation)
    yield from wrong_data(situation)
    values = situation.config.values
    if situation.in_run:
        yield from (("note", key, "is set by the run; this value is not used") for key in overwritten(values))
    else:
        yield from (("note", key, text) for key, text in noteworthy(values))
    if memory is not None and (finding := memory_finding(situation, memory)):
        yield finding.level, finding.key, finding.text
