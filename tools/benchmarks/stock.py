"""`opencompass:<name>`: the items of any generating configuration of OpenCompass, judged by its own evaluator."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from tuneloop.core.benchmark import Benchmark, Item
from tuneloop.core.errors import SetupError
from tuneloop.core.files import digest, read_json, write_lines
from tuneloop.core.job import Command
from tuneloop.core.layout import Home
from tuneloop.core.settings import Settings
from tuneloop.sandboxes.choose import open_sandbox
from tuneloop.sandboxes.jobs import launch, log_tail, wait
from tuneloop.tools.benchmarks import splitting
from tuneloop.tools.benchmarks.checking import check_items
from tuneloop.tools.benchmarks.folder import TEST, VALIDATION, BenchmarkFolder, line, open_folder
from tuneloop.tools.engines import Engine, ensure_engine
from tuneloop.tools.paths import ENGINES
from tuneloop.tools.registry import unknown
from tuneloop.tools.store import make_whole

PREFIX = "opencompass:"
SCRIPTS = ENGINES / "opencompass"
CONFIGS = "lib/python*/site-packages/opencompass/configs/datasets"
LONGEST = 2048


def declared(name: str, max_new_tokens: int = LONGEST) -> Benchmark:
    """The declaration of `opencompass:<name>`."""
    config = name.removeprefix(PREFIX)
    return Benchmark(
        name=f"opencompass-{config}",
        description=(
            f"The datasets of OpenCompass's configuration {config}, asked with its prompts and judged by its own "
            "postprocessor and evaluator, one reply at a time. See validation items for how an answer has to look."
        ),
        answer="scorer:opencompass_own",
        max_new_tokens=max_new_tokens,
    )


def resolve_stock(name: str, home: Home, settings: Settings, description: str | None = None) -> BenchmarkFolder:
    """The benchmark, exported by the engine when it is not there yet; `description` replaces the task's text.

    Raises SetupError for an unknown name, a configuration that does not generate, and data that are not there.
    """
    engine = ensure_engine("opencompass", settings)
    config = name.removeprefix(PREFIX)
    check_known(config, engine)
    benchmark = declared(name)
    folder = home.benchmarks / f"{benchmark.name}-{digest(engine.identity)}"
    root = make_whole(folder, partial(fill, benchmark, config, home, engine), benchmark=benchmark.name)
    return open_folder(benchmark.model_copy(update={"description": description}) if description else benchmark, root)


def check_known(config: str, engine: Engine) -> None:
    """Raises SetupError for a name that is no configuration's; names the nearest."""
    found = [path for root in Path(engine.folder).glob(CONFIGS) for path in root.glob("*/*.py")]
    names = {path.stem for path in found} | {f"{path.parent.name}.{path.stem}" for path in found}
    if config not in names:
        near = sorted(names, key=lambda one: (not one.endswith("_gen"), one))
        raise unknown("configuration of OpenCompass", config, near, "opencompass:NAME, or opencompass:FOLDER.NAME")


def fill(benchmark: Benchmark, config: str, home: Home, engine: Engine, part: Path) -> None:
    """Items from a job in the engine, split as all are."""
    data = home.root / "opencompass_data"
    data.mkdir(parents=True, exist_ok=True)
    made = export(config, data, engine, home.benchmarks / f".{benchmark.name}.export")
    if "error" in made:
        raise SetupError(
            f"{PREFIX}{config}: {made['error']}; its data belong below {data}/data, as OpenCompass lays them out"
        )
    items = [
        Item(id=row["id"], fields={"prompt": row["prompt"]}, answer=row["answer"], group=row["group"])
        for row in made["items"]
    ]
    validation, test = splitting.split(benchmark, items)
    check_items(benchmark, validation, test, benchmark.name)
    write_lines(part / VALIDATION, map(line, validation))
    write_lines(part / TEST, map(line, test))


def export(config: str, data: Path, engine: Engine, work: Path) -> dict[str, Any]:
    """What the engine says of a configuration; its job reads the data and has no network. Raises SetupError."""
    work.mkdir(parents=True, exist_ok=True)
    out = work / "out"
    out.mkdir(exist_ok=True)
    argv = (str(engine.python), str(SCRIPTS / "export.py"), config, str(out / "items.json"))
    env = {"PATH": f"{engine.bin}:/usr/bin:/bin", "LANG": "C.UTF-8", "HOME": str(out), "COMPASS_DATA_CACHE": str(data)}
    offline = {f"{name}_OFFLINE": "1" for name in ("HF_HUB", "TRANSFORMERS", "HF_DATASETS", "HF_EVALUATE")}
    command = Command(
        argv=argv,
        cwd=str(out),
        env={**env, **offline, "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1", **engine.env},
        read=(*engine.readable, str(SCRIPTS), str(data)),
        write=(str(out),),
        key=digest(*argv),
    )
    sandbox = open_sandbox("auto")
    job = launch(sandbox, work / "jobs", "export", command, retry=True)
    if not wait(sandbox, job).ok:
        raise SetupError(f"{PREFIX}{config} could not be read: {log_tail(job, 1).strip()[:300]} (log: {job}/log.txt)")
    found: dict[str, Any] = read_json(out / "items.json")
    return found
