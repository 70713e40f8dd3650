"""Says what is wrong with a `train.yaml` before anything runs: one sentence a finding, with what would be right."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tuneloop.core.errors import InvalidRequestError
from tuneloop.tools.config.catalog import Catalog
from tuneloop.tools.config.config_text import Config, ConfigError, Form, apply_overrides, parse_config
from tuneloop.tools.config.context import ConfigContext, Profile
from tuneloop.tools.config.data_registry import check_datasets
from tuneloop.tools.config.finalize import notable_keys, overwritten_keys, refused_key
from tuneloop.tools.config.finding import Finding, KeyProblem
from tuneloop.tools.config.folders import check_places
from tuneloop.tools.config.installed import find_catalog, source_has
from tuneloop.tools.config.memory import memory_finding
from tuneloop.tools.config.model_card import ModelCard, read_model_card
from tuneloop.tools.config.model_fit import check_fit
from tuneloop.tools.config.model_shape import ModelShape
from tuneloop.tools.config.model_support import check_adapters, check_model_support
from tuneloop.tools.config.names import unknown_key
from tuneloop.tools.config.rules_data import data_rules
from tuneloop.tools.config.rules_distributed import distributed_rules, mapping_rules
from tuneloop.tools.config.rules_method import method_rules
from tuneloop.tools.config.rules_stage import stage_rules
from tuneloop.tools.config.rules_training import training_rules
from tuneloop.tools.config.sharding import Devices, distribute
from tuneloop.tools.config.value_check import value_problem

if TYPE_CHECKING:  # engines and sandboxes come with it: a config is checked without them too
    from tuneloop.tools.jobs.run_tools import RunTools

# Rules about two or more keys: what the engine refuses after seconds, and what it lets through silently.


def check_rules(context: ConfigContext) -> Iterator[KeyProblem]:
    """Level, key and text of every rule that the config breaks."""
    yield from stage_rules(context)
    yield from method_rules(context)
    yield from data_rules(context)
    yield from training_rules(context)
    yield from distributed_rules(context)
    yield from mapping_rules(context)


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
    shape=ModelShape(layers=0, hidden=0, vocab=0, heads=1, wide=0, attended=0, embedding=0, head=0, rest=0),
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
    devices: Devices | None = None,
) -> list[Finding]:
    """Findings by line; none of level error means that training may start.

    `model` None: the one that the config names, where it is a folder. `device` is cpu, cuda or a card (`cuda:V100`);
    `memory` the bytes a training may use there, None: not known. `profile` engine: what the installed release can run;
    run: also nothing that the loop decides itself or that leaves the run. `overrides`: `key=value` as behind the
    engine's command. `data`: the folder of dataset_info.json instead of `dataset_dir`. `here`: where relative paths
    begin. `installed` False: packages that the engine lacks are warnings. `devices`: that a run's training is split over.
    """
    try:
        config = apply_overrides(parse_config(text, form), overrides)
    except ConfigError as e:
        return [Finding("error", e.line, e.key, e.text, e.override)]
    single = list(_check_keys(config, catalog, profile))
    bad = {key for _, key, _ in single}
    sound = Config({k: v for k, v in config.values.items() if k not in bad}, config.lines, config.overrides)
    place = here or Path.cwd()
    card, broken = _judged_model(sound, model, profile, place)
    context = ConfigContext(sound, catalog, card, device, profile, data, place, installed)
    if devices is not None:
        context = distribute(context, devices)
    whole = _check_combination(context, memory if card is not NO_MODEL else None)
    found = [*single, *broken, *(c for c in whole if c[1] not in bad)]
    if form == "json" and profile == "engine" and _fails_at_json(catalog):
        found.append(("warning", "", "is JSON, at which this release fails; give it the same as YAML"))
    placed = [_locate(c, config) for c in dict.fromkeys(found)]
    return sorted(placed, key=lambda f: (f.override, f.line))


def check_run_config(run_tools: RunTools, text: str) -> list[Finding]:
    """The same for a run's model, device and memory."""
    setup, settings = run_tools.setup, run_tools.settings
    card = read_model_card(setup.model_root)
    devices = run_tools.devices
    memory = settings.job_memory or os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    memory_of_one = memory if setup.device == "cpu" else devices.memory
    return check_config(text, find_catalog(settings), card, setup.device, memory_of_one, devices=devices)


def errors(findings: Iterable[Finding]) -> list[str]:
    """The errors as lines."""
    return [str(f) for f in findings if f.level == "error"]


def _fails_at_json(catalog: Catalog) -> bool:
    """Releases whose parser hands a path to json.load."""
    return source_has(catalog.factory, "hparams/parser.py", "json.load(Path(")


def _locate(told: KeyProblem, config: Config) -> Finding:
    level, key, text = told
    number = config.overrides.get(key, 0)
    return Finding(level, 0 if number else config.lines.get(key, 0), key, text, number)


def _check_keys(config: Config, catalog: Catalog, profile: Profile) -> Iterator[KeyProblem]:
    """What is wrong with each key by itself."""
    for key, value in config.values.items():
        parameter = catalog.parameters.get(key)
        if parameter is None:
            yield "error", key, unknown_key(key, value, catalog)
        elif not parameter.settable:
            yield "error", key, "is derived by the engine; leave it out"
        elif profile == "run" and (refused := refused_key(key, value)):
            yield "error", key, refused
        elif wrong := value_problem(parameter, value, catalog):
            yield "error", key, wrong


def _judged_model(
    config: Config, model: ModelCard | None, profile: Profile, here: Path
) -> tuple[ModelCard, list[KeyProblem]]:
    """The model that the config is judged against, and what is wrong with its folder."""
    name = config.values.get("model_name_or_path")
    if model is not None or profile == "run" or not isinstance(name, str) or not name:
        return model or NO_MODEL, []
    folder = here / Path(name).expanduser()
    if not folder.is_dir():
        return NO_MODEL, []
    try:
        return read_model_card(folder), []
    except InvalidRequestError as e:
        return NO_MODEL, [("error", "model_name_or_path", str(e))]


def _check_combination(context: ConfigContext, memory: int | None) -> Iterator[KeyProblem]:
    """What only shows when all keys are seen together."""
    yield from check_rules(context)
    yield from check_fit(context)
    yield from check_model_support(context)
    yield from check_places(context)
    if not context.in_run:
        yield from check_adapters(context)
    yield from check_datasets(context)
    values = context.config.values
    if context.in_run:
        yield from (("note", key, "is set by the run; this value is not used") for key in overwritten_keys(values))
    else:
        yield from (("note", key, text) for key, text in notable_keys(values))
    if memory is not None and (finding := memory_finding(context, memory)):
        yield finding.level, finding.key, finding.text
