"""`opencompass:<name>`: the items of any generating configuration of OpenCompass, judged by its own evaluator."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from typing import Any

from tuneloop.core.catalog import Benchmark, Item
from tuneloop.core.errors import InvalidRequestError
from tuneloop.core.files import digest, digest_file, read_field, write_lines
from tuneloop.core.job import Command
from tuneloop.core.layout import Home
from tuneloop.core.settings import Settings
from tuneloop.core.untrusted import read_untrusted_json
from tuneloop.sandboxes.choose import open_sandbox
from tuneloop.sandboxes.jobs import launch, log_tail, wait
from tuneloop.tools.benchmark_items import splitting
from tuneloop.tools.benchmark_items.checks import check_items
from tuneloop.tools.benchmark_items.folder import TEST, VALIDATION, BenchmarkFolder, item_line, open_folder
from tuneloop.tools.engines import Engine, ensure_engine
from tuneloop.tools.engines.find import find_built_engine
from tuneloop.tools.housekeeping.disk import remove_path
from tuneloop.tools.hub.store import MANIFEST, make_complete
from tuneloop.tools.jobs.machine import ENGINES
from tuneloop.tools.registry import unknown_entry

PREFIX = "opencompass:"
SCRIPTS = ENGINES / "opencompass"
EXPORT = SCRIPTS / "export.py"
CONFIGS = "lib/python*/site-packages/opencompass/configs/datasets"
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
RIGHT = f"{PREFIX}NAME, or {PREFIX}FOLDER.NAME"
LONGEST = 2048


def check_opencompass(name: str, settings: Settings) -> Benchmark:
    """The declaration; where the engine is there already, an unknown name is refused. Raises InvalidRequestError."""
    benchmark = declare_opencompass(name)
    engine = None if settings.opencompass_path else find_built_engine("opencompass", settings)
    if engine is not None:
        check_config_name(name.removeprefix(PREFIX), engine)
    return benchmark


def declare_opencompass(name: str) -> Benchmark:
    """The declaration of `opencompass:<name>`. Raises InvalidRequestError for what can be no name."""
    config = name.removeprefix(PREFIX)
    if not NAME.fullmatch(config):
        raise InvalidRequestError(f"benchmark {name!r}: right is {RIGHT}, e.g. {PREFIX}gsm8k_gen")
    return Benchmark(
        name=f"opencompass-{config}",
        description=(
            f"The datasets of OpenCompass's configuration {config}, asked with its prompts and judged by its own "
            "postprocessor and evaluator, one reply at a time. See validation items for how an answer has to look."
        ),
        answer="scorer:opencompass_own",
        max_new_tokens=LONGEST,
    )


def resolve_opencompass(name: str, home: Home, settings: Settings, description: str | None = None) -> BenchmarkFolder:
    """The benchmark, exported by the engine when it is not there yet; `description` replaces the task's text.

    Raises InvalidRequestError for an unknown name, a configuration that does not generate, and data that are not there.
    """
    benchmark = declare_opencompass(name)
    engine = ensure_engine("opencompass", settings)
    config = name.removeprefix(PREFIX)
    check_config_name(config, engine)
    made_by = digest(engine.identity, *map(digest_file, (EXPORT, Path(splitting.__file__))))
    folder = home.benchmarks / f"{benchmark.name}-{made_by}"
    root = make_complete(
        folder, partial(write_items_from_config, benchmark, config, home, engine), benchmark=benchmark.name
    )
    told = {"max_new_tokens": max(LONGEST, read_field(root / MANIFEST, "longest", int))}
    return open_folder(benchmark.model_copy(update={**told, "description": description or benchmark.description}), root)


def check_config_name(config: str, engine: Engine) -> None:
    """Raises InvalidRequestError for a name that is no configuration's; names the nearest."""
    found = [path for root in Path(engine.folder).glob(CONFIGS) for path in root.glob("*/*.py")]
    names = {path.stem for path in found} | {f"{path.parent.name}.{path.stem}" for path in found}
    if config not in names:
        near = sorted(names, key=lambda one: (not one.endswith("_gen"), one))
        raise unknown_entry("configuration of OpenCompass", config, near, RIGHT)


def write_items_from_config(
    benchmark: Benchmark, config: str, home: Home, engine: Engine, part: Path
) -> dict[str, Any]:
    """Items from a job in the engine, split as all are; returns how long its replies may be."""
    data = home.root / "opencompass_data"
    (data / "data").mkdir(parents=True, exist_ok=True)  # OpenCompass makes it, and its job may not
    made = export_config(config, data, engine, home.benchmarks / f".{benchmark.name}.export")
    if "missing" in made:
        raise InvalidRequestError(
            f"{PREFIX}{config}: its data are not there ({made['missing']}); they belong below {data}/data, as OpenCompass "
            "lays them out"
        )
    if "error" in made:
        raise InvalidRequestError(
            f"{PREFIX}{config}: {made['error']}; right is a configuration that generates and needs no judge"
        )
    items = [
        Item(id=row["id"], fields={"prompt": row["prompt"]}, answer=row["answer"], group=row["group"])
        for row in made["items"]
    ]
    validation, test = splitting.split(benchmark, items)
    check_items(benchmark, validation, test, benchmark.name)
    write_lines(part / VALIDATION, map(item_line, validation))
    write_lines(part / TEST, map(item_line, test))
    splitting.seal_half(part)
    return {"longest": made["longest"]}


def export_config(config: str, data: Path, engine: Engine, work: Path) -> dict[str, Any]:
    """What the engine says of a configuration; its job reads the data and has no network. Raises InvalidRequestError."""
    work.mkdir(parents=True, exist_ok=True)
    out = work / "out"
    out.mkdir(exist_ok=True)
    argv = (str(engine.python), str(EXPORT), config, str(out / "items.json"))
    env = {"PATH": f"{engine.bin}:/usr/bin:/bin", "LANG": "C.UTF-8", "HOME": str(out), "COMPASS_DATA_CACHE": str(data)}
    offline = {f"{name}_OFFLINE": "1" for name in ("HF_HUB", "TRANSFORMERS", "HF_DATASETS", "HF_EVALUATE")}
    command = Command(
        argv=argv,
        cwd=str(out),
        env={**env, **offline, "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1", **engine.env},
        read=(*engine.readable, str(SCRIPTS), str(data)),
        write=(str(out),),
        key=digest(*argv, digest_file(EXPORT)),
    )
    sandbox = open_sandbox("auto")
    job = launch(sandbox, work / "jobs", "export", command, retry=True)
    if not wait(sandbox, job).ok:
        raise InvalidRequestError(
            f"{PREFIX}{config} could not be read: {log_tail(job, 1).strip()[:300]} (log: {job}/log.txt)"
        )
    try:
        found: dict[str, Any] = read_untrusted_json(out / "items.json")
    except ValueError as e:
        raise InvalidRequestError(f"{PREFIX}{config} could not be read: {e}") from e
    remove_path(work)  # it holds test items; and data that are put right are read anew
    return found
