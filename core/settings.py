"""Everything about this machine, from the environment and `.env`; frozen choices of a run live in RunSpec."""

from __future__ import annotations

import io
import os
import re
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

from dotenv.parser import parse_stream
from platformdirs import user_cache_path
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from tuneloop.core.budget import LlmQuota
from tuneloop.core.errors import InvalidRequestError
from tuneloop.core.files import absolute_path
from tuneloop.core.layout import Home
from tuneloop.core.run_spec import Seconds, parse_seconds
from tuneloop.core.setting_values import (
    Backend,
    Count,
    Device,
    Flag,
    HubName,
    KeepModels,
    Limits,
    McpProgram,
    Names,
    NodeFiles,
    On,
    OptionalNames,
    Port,
    Prices,
    Program,
    Secret,
    Servers,
    Sharding,
    StorageUrl,
    Table,
    Text,
    Trackers,
    Unsandboxed,
    WebAddress,
    add_api_version,
    empty_is,
    empty_is_none,
    parse_keep_models,
)
from tuneloop.core.state_folder import name_state_folder


class Settings(BaseModel):
    """One field per variable; the variable's name is the alias. What is not given is read from the environment."""

    model_config = ConfigDict(extra="ignore", frozen=True, populate_by_name=True)

    file_path: Path = Field(default=Path("tuneloop_files"), alias="FT_FILE_PATH", description="models, data sets, runs")
    engines_dir: Annotated[Path | None, BeforeValidator(empty_is_none)] = Field(
        default=None,
        alias="FT_ENGINES_DIR",
        description="engines, shared by all projects; empty: the user's cache folder; relative: below FT_FILE_PATH",
    )
    target_benchmark: Text = Field(
        default=None, alias="FT_TARGET_BENCHMARK", description="benchmark when --benchmark is not given"
    )
    target_benchmarks: OptionalNames = Field(
        default=None,
        alias="FT_BENCHMARK_DATASETS",
        description="list; the first decides; []: trains without evaluation",
    )
    benchmark_list: OptionalNames = Field(
        default=None, alias="BENCHMARK_DATASETS", description="seeds' other name of FT_BENCHMARK_DATASETS"
    )
    benchmark_description: Text = Field(
        default=None, alias="FT_BENCHMARK_DESCRIPTION", description="overrides the task text"
    )
    base_model: Text = Field(default=None, alias="FT_BASE_MODEL", description="model when --base-model is not given")
    dataset: Names = Field(default=(), alias="FT_DATASET", description="data sets when --dataset is not given")
    upper_data_size_limit: int = Field(
        default=2000, gt=0, alias="FT_UPPER_DATA_SIZE_LIMIT", description="rows of one experiment"
    )
    benchmark_limit: Count = Field(
        default=None, alias="FT_BENCHMARK_LIMIT", description="validation items; empty or None: as many as are cheap"
    )
    data_timeout: Seconds = Field(
        default=3600.0, alias="FT_DATA_PROCESSING_TIMEOUT", description="seconds for the whole data script"
    )
    debug_data_timeout: Seconds = Field(
        default=1200.0, alias="FT_DEBUG_DATA_PROCESSING_TIMEOUT", description="seconds for the data script on samples"
    )
    micro_batch_timeout: Seconds = Field(
        default=1800.0, alias="FT_MICRO_BATCH_TIMEOUT", description="seconds for the smoke run"
    )
    debug_timeout: Seconds = Field(
        default=1800.0, alias="FT_DEBUG_TIMEOUT", description="seeds' older name of FT_MICRO_BATCH_TIMEOUT, which wins"
    )
    full_timeout: Seconds = Field(default=360000.0, alias="FT_FULL_TIMEOUT", description="seconds for one training")
    benchmark_timeout: Seconds = Field(
        default=None, alias="FT_BENCHMARK_TIMEOUT", description="seconds for one evaluation; 0: unlimited"
    )
    enable_cache: On = Field(
        default=True, alias="FT_DOCKER_ENABLE_CACHE", description="use results of evaluations again; false: never"
    )
    eval_backend: Backend = Field(
        default="auto", alias="TUNELOOP_EVAL_BACKEND", description="hf, vllm or auto: vllm on a GPU if it is installed"
    )
    use_vllm: Flag = Field(
        default=None, alias="USE_VLLM", description="seeds' name: true is vllm, false is hf; TUNELOOP_EVAL_BACKEND wins"
    )
    custom_prompt: Text = Field(
        default=None, alias="CUSTOM_PROMPT", description="seeds' name, refused: a prompt is part of its benchmark"
    )
    update_llama_factory: Flag = Field(
        default=None,
        alias="FT_UPDATE_LLAMA_FACTORY",
        description="seeds' name; true changes nothing: engines are built from locks",
    )
    env_type: Text = Field(
        default=None, alias="FT_Coder_CoSTEER_env_type", description="seeds' name of the sandbox choice"
    )
    llama_factory_path: Text = Field(
        default=None, alias="LLAMA_FACTORY_PATH", description="an existing environment or checkout"
    )
    opencompass_path: Text = Field(default=None, alias="OPENCOMPASS_PATH", description="an existing environment")
    mcp_urls: Servers = Field(
        default={},
        alias="TUNELOOP_MCP_URLS",
        description='JSON: server → URL, or {"command", "args"} to start for agents over stdio; others in process',
    )
    params_port: Annotated[Port, empty_is(8124)] = Field(
        default=8124, alias="MCP_LLAMA_PORT", description="port of the parameter server"
    )
    params_url: Text = Field(
        default=None, alias="LLAMA_FACTORY_MCP_URL", description="the parameter server, e.g. http://localhost:8124/mcp"
    )
    params_timeout: Seconds = Field(
        default=60.0, alias="LLAMA_FACTORY_MCP_TIMEOUT", description="seconds for an answer of the parameter server"
    )
    param_search: On = Field(
        default=True, alias="FT_ENABLE_MCP_PARAM_SEARCH", description="false: agents get a static list of parameters"
    )
    mcp_token: Text = Field(
        default=None, alias="TUNELOOP_MCP_TOKEN", description="token of HTTP servers and `langgraph dev`"
    )
    mcp_rate: Annotated[float, Field(ge=0, allow_inf_nan=False)] = Field(
        default=1000.0,
        alias="TUNELOOP_MCP_RATE",
        description="requests a second that these servers answer beyond loopback, twice as many at once; 0: no limit",
    )
    checkpoint_url: Text = Field(
        default=None,
        alias="TUNELOOP_CHECKPOINT_URL",
        description="postgresql://… keeps checkpoints there; empty: in the run",
    )
    team_url: Text = Field(
        default=None,
        alias="TUNELOOP_TEAM_URL",
        description="postgresql://… keeps a table of the team's runs there: tuneloop list runs --team",
    )
    state_dir: Annotated[Path | None, BeforeValidator(empty_is_none)] = Field(
        default=None,
        alias="TUNELOOP_STATE_DIR",
        description="local folder for checkpoints and locks when FT_FILE_PATH is on a network: docs/files.md",
    )
    chat_model: Text = Field(
        default=None,
        alias="CHAT_MODEL",
        description="model that thinks for the agents, gpt-5 or provider/name; none: offline",
    )
    chat_models: Table = Field(
        default={}, alias="TUNELOOP_CHAT_MODELS", description="JSON: agent → model, for agents with one of their own"
    )
    chat_fallbacks: Names = Field(
        default=(),
        alias="TUNELOOP_CHAT_FALLBACKS",
        description="models asked when one does not answer; last: the offline policy",
    )
    chat_temperature: Annotated[Annotated[float, Field(ge=0)] | None, BeforeValidator(empty_is_none)] = Field(
        default=None, alias="CHAT_TEMPERATURE", description="of the agents' model; empty: the provider's"
    )
    chat_stream: On = Field(
        default=True, alias="CHAT_STREAM", description="false: answers of the agents' model come whole"
    )
    chat_timeout: Annotated[
        float, Field(gt=0), BeforeValidator(lambda value: parse_seconds(empty_is_none(value) or 180))
    ] = Field(default=180.0, alias="TUNELOOP_CHAT_TIMEOUT", description="seconds a model may be silent")
    chat_steps: Annotated[int, Field(gt=0), empty_is(24)] = Field(
        default=24, alias="TUNELOOP_CHAT_STEPS", description="calls of the model for one answer of an agent"
    )
    chat_tokens: Annotated[int, Field(gt=0), empty_is(200_000)] = Field(
        default=200_000, alias="TUNELOOP_CHAT_TOKENS", description="tokens in and out for one answer of an agent"
    )
    api_key: Secret = Field(default=None, alias="OPENAI_API_KEY", description="key for models; no job ever sees it")
    api_base: Text = Field(
        default=None, alias="OPENAI_API_BASE", description="OpenAI-compatible endpoint, e.g. http://host/v1"
    )
    anthropic_api_key: Secret = Field(
        default=None, alias="ANTHROPIC_API_KEY", description="key for anthropic/…; no job ever sees it, nor those below"
    )
    anthropic_api_base: Text = Field(default=None, alias="ANTHROPIC_API_BASE", description="empty: api.anthropic.com")
    gemini_api_key: Secret = Field(default=None, alias="GEMINI_API_KEY", description="key for gemini/…")
    gemini_api_base: Text = Field(default=None, alias="GEMINI_API_BASE", description="empty: Google's")
    azure_api_key: Secret = Field(default=None, alias="AZURE_API_KEY", description="key for azure/DEPLOYMENT")
    azure_api_base: Text = Field(
        default=None, alias="AZURE_API_BASE", description="your resource, e.g. https://name.openai.azure.com"
    )
    azure_api_version: Annotated[str, empty_is("2024-10-21")] = Field(
        default="2024-10-21", alias="AZURE_API_VERSION", description="of its interface"
    )
    ollama_api_base: Text = Field(
        default=None, alias="OLLAMA_API_BASE", description="for ollama/…; empty: http://127.0.0.1:11434"
    )
    strong_models: Names = Field(
        default=(), alias="FT_STRONG_MODELS", description="models that data scripts may call for hard steps"
    )
    weak_models: Names = Field(
        default=(), alias="FT_WEAK_MODELS", description="models that data scripts may call for easy steps"
    )
    api_workers: Annotated[int, Field(gt=0, le=1000), empty_is(8)] = Field(
        default=8, alias="FT_API_MAX_WORKERS", description="requests of one job under way at the same time"
    )
    api_job_limits: Limits = Field(
        default=LlmQuota(requests=10_000),
        alias="TUNELOOP_API_JOB_LIMITS",
        description='JSON: "requests", "tokens", "money" that one job may use',
    )
    api_run_limits: Limits = Field(
        default=LlmQuota(), alias="TUNELOOP_API_RUN_LIMITS", description="JSON: the same for all jobs of a run together"
    )
    api_prices: Prices = Field(
        default={},
        alias="TUNELOOP_API_PRICES",
        description="JSON: model → [in, out] or [in, out, cached], USD for a million tokens; wins over list prices",
    )
    judge_model: Text = Field(
        default=None, alias="FT_JUDGE_MODEL", description="model that judges answers of a benchmark"
    )
    judge_api_key: Secret = Field(
        default=None, alias="FT_JUDGE_API_KEY", description="its key; empty: OPENAI_API_KEY at its own endpoint"
    )
    judge_api_base: Text = Field(
        default=None, alias="FT_JUDGE_API_BASE", description="its endpoint; empty: OPENAI_API_BASE"
    )
    eval_api_key: Secret = Field(
        default=None,
        alias="TUNELOOP_EVAL_API_KEY",
        description="key of TUNELOOP_EVAL_API_BASE, sent nowhere else; empty: OPENAI_API_KEY at its own endpoint",
    )
    eval_api_base: Text = Field(
        default=None, alias="TUNELOOP_EVAL_API_BASE", description="that endpoint, --endpoint; empty: OPENAI_API_BASE"
    )
    hub: HubName = Field(
        default="huggingface", alias="FT_HUB", description="huggingface or modelscope: where ids are looked up"
    )
    hf_token: Secret = Field(default=None, alias="HF_TOKEN", description="for gated models and data sets")
    hf_endpoint: Text = Field(default=None, alias="HF_ENDPOINT", description="hub mirror")
    modelscope_token: Secret = Field(default=None, alias="MODELSCOPE_API_TOKEN", description="the same for ModelScope")
    modelscope_endpoint: Text = Field(
        default=None,
        alias="MODELSCOPE_ENDPOINT",
        description="another site of ModelScope; empty: https://www.modelscope.cn",
    )
    keep_models: Annotated[KeepModels, BeforeValidator(parse_keep_models)] = Field(
        default="best,last", alias="FT_KEEP_MODELS", description="weights kept: best,last, best or all"
    )
    storage: StorageUrl = Field(
        default=None,
        alias="TUNELOOP_STORAGE",
        description="s3://bucket/path, gs:// or file://: runs are copied there after each experiment: docs/storage.md",
    )
    scorer_files: Annotated[Path | None, BeforeValidator(empty_is_none)] = Field(
        default=None,
        alias="TUNELOOP_SCORER_FILES",
        description="folder with models that some scorers need: docs/benchmarks.md",
    )
    job_memory: Count = Field(
        default=None, alias="TUNELOOP_JOB_MEMORY", description="bytes a job may use; empty: what is free"
    )
    gpu_memory: Count = Field(
        default=None,
        alias="TUNELOOP_GPU_MEMORY",
        description="bytes of one GPU of the nodes where jobs run; empty, and here: as nvidia-smi says",
    )
    train_processes: Count = Field(
        default=None,
        alias="TUNELOOP_TRAIN_PROCESSES",
        description="processes of one training on a machine; empty: one for each GPU: docs/gpu.md",
    )
    train_sharding: Annotated[Sharding, empty_is("auto")] = Field(
        default="auto",
        alias="TUNELOOP_TRAIN_SHARDING",
        description="over several GPUs: ddp, zero1, zero2, zero3, zero3_offload, fsdp, fsdp_offload; auto: what fits first",
    )
    node_files: Annotated[NodeFiles, empty_is("shared")] = Field(
        default="shared",
        alias="TUNELOOP_NODE_FILES",
        description="how a cluster's nodes get files: shared, or storage (through TUNELOOP_STORAGE): docs/storage.md",
    )
    slurm_options: Program = Field(
        default=(),
        alias="TUNELOOP_SLURM_OPTIONS",
        description="of sbatch, for every job of --executor slurm: --partition=gpu --gres=gpu:1 --account=lab",
    )
    slurm_container: Program = Field(
        default=(),
        alias="TUNELOOP_SLURM_CONTAINER",
        description="what starts a job in an image on its node: apptainer exec --nv --bind /scratch IMAGE: docs/slurm.md",
    )
    ray_resources: Program = Field(
        default=(),
        alias="TUNELOOP_RAY_RESOURCES",
        description="that every job of --executor ray asks for: num_gpus=1 num_cpus=4 memory=32GiB name=1",
    )
    ray_address: Text = Field(
        default=None, alias="RAY_ADDRESS", description="dashboard of the Ray cluster: http://HEAD:8265"
    )
    ray_token: Secret = Field(default=None, alias="RAY_AUTH_TOKEN", description="its token, where it wants one")
    device: Device = Field(
        default=None,
        alias="TUNELOOP_DEVICE",
        description="in the environment alone: cpu or cuda, what jobs compute on; empty: what this machine has",
    )
    notify_url: WebAddress = Field(
        default=None,
        alias="TUNELOOP_NOTIFY_URL",
        description="webhook that is told of ends, failures, limits, questions",
    )
    notify_secret: Secret = Field(default=None, alias="TUNELOOP_NOTIFY_SECRET", description="signs what it is told")
    notify_command: Program = Field(
        default=(),
        alias="TUNELOOP_NOTIFY_COMMAND",
        description="in the environment alone: program that gets the same on its standard input",
    )
    trackers: Trackers = Field(
        default=(),
        alias="TUNELOOP_TRACKERS",
        description="fed with every experiment: mlflow, tensorboard, wandb, trackio",
    )
    unsandboxed: Unsandboxed = Field(
        default="never",
        alias="TUNELOOP_UNSANDBOXED",
        description="in the environment alone: fallback runs generated code unprotected where no sandbox works, always does",
    )

    @model_validator(mode="before")
    @classmethod
    def add_environment(cls, given: dict[str, Any]) -> dict[str, Any]:
        """With the variables of fields that are not given; in any case of letters, an empty one counts as not set."""
        fields = {name: str(field.alias) for name, field in cls.model_fields.items()}
        missing = {alias.lower(): alias for name, alias in fields.items() if not {name, alias} & given.keys()}
        return {missing[k.lower()]: v for k, v in os.environ.items() if v and k.lower() in missing} | given

    @property
    def endpoint(self) -> str | None:
        """`OPENAI_API_BASE` as a client wants it; the seeds name host and port alone."""
        return self.api_base and add_api_version(self.api_base)

    def __hash__(self) -> int:
        """Tables among the fields have none of their own."""
        return hash(self.file_path)

    @property
    def smoke_run_timeout(self) -> float | None:
        """Seconds for the smoke run; None: unlimited."""
        return self.micro_batch_timeout if "micro_batch_timeout" in self.model_fields_set else self.debug_timeout

    @property
    def backend(self) -> Backend:
        """What answers in evaluations: TUNELOOP_EVAL_BACKEND, else USE_VLLM, else auto."""
        if "eval_backend" in self.model_fields_set or self.use_vllm is None:
            return self.eval_backend
        return "vllm" if self.use_vllm else "hf"

    @cached_property
    def servers(self) -> dict[str, McpProgram | str]:
        """MCP servers that live elsewhere: name → URL, or the program that is one."""
        return {**({"params": self.params_url} if self.params_url else {}), **self.mcp_urls}

    @property
    def scorer_folder(self) -> Path | None:
        """`TUNELOOP_SCORER_FILES`, absolute."""
        return absolute_path(self.scorer_files) if self.scorer_files else None

    @cached_property
    def home(self) -> Home:
        """Layout below `FT_FILE_PATH`, with the engines of `FT_ENGINES_DIR`."""
        root, engines = absolute_path(self.file_path), self.engines_dir or default_engines_dir()
        return Home(root, engines and absolute_path(root / engines.expanduser()))


# Jobs that root starts as another user cannot walk through root's home.
ROOTS_ENGINES = Path("/var/cache/tuneloop/engines")


def default_engines_dir() -> Path | None:
    """Where engines lie unless `FT_ENGINES_DIR` says otherwise; None for a user without a home directory."""
    folder = ROOTS_ENGINES if os.geteuid() == 0 else user_cache_path("tuneloop") / "engines"
    return folder if folder.is_absolute() else None


def read_dotenv(path: Path) -> dict[str, str]:
    """Keys and values of a `.env` file; {} when there is none.

    Raises InvalidRequestError for a malformed line, a byte that is no UTF-8 and a NUL.
    """
    if not path.is_file():
        return {}
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as e:
        raise InvalidRequestError(
            f"{path}: byte {e.start} is not UTF-8; right is a UTF-8 text of NAME=value lines"
        ) from e
    values: dict[str, str] = {}
    for binding in parse_stream(io.StringIO(text)):
        line = binding.original.string.strip()
        if binding.error or "\0" in line:
            raise InvalidRequestError(
                f"{path}:{binding.original.line}: cannot read {line.splitlines()[0]!r}; right is NAME=value"
            )
        if binding.key is not None:
            values[binding.key] = binding.value or ""
    return values


# Only the process's environment may weaken isolation or name a program: a file in a working directory is not read for it.
PROCESS_ONLY = frozenset({"TUNELOOP_UNSANDBOXED", "TUNELOOP_NOTIFY_COMMAND", "TUNELOOP_DEVICE"})


def allow_unsandboxed(always: bool) -> None:
    """Set by the owner on the command line, for this process and the commands that it starts."""
    os.environ["TUNELOOP_UNSANDBOXED"] = "always" if always else "fallback"


def load_settings(dotenv: Path | None = None, **options: Any) -> Settings:
    """Settings from the environment, what is not there from `.env` in the working directory. For entry points only.

    `options`: fields that the command line names, which win; None: not named. Raises InvalidRequestError in one line.
    """
    values = read_dotenv(dotenv or Path(".env"))
    aliases = {str(field.alias) for field in Settings.model_fields.values()} - PROCESS_ONLY
    said = {name.lower() for name, value in os.environ.items() if value}
    wanted = {alias.lower(): alias for alias in aliases if alias.lower() not in said}
    given: dict[str, Any] = {wanted[k.lower()]: v for k, v in values.items() if v.strip() and k.lower() in wanted}
    for field, value in options.items():
        if value is not None:
            given[str(Settings.model_fields[field].alias)] = value
    try:
        settings = Settings(**given)
    except ValidationError as e:
        first = e.errors()[0]
        where = first["loc"][0] if first["loc"] else "setting"
        shown = re.sub(r"://.*@", "://***@", repr(first["input"]))  # a password may stand there
        raise InvalidRequestError(f"{where}={shown}: {first['msg'].removeprefix('Value error, ')}") from e
    name_state_folder(settings.state_dir)
    return settings
