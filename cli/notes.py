"""Warn once about keys of a `.env` file that have no effect."""

from __future__ import annotations

import difflib
from pathlib import Path

from tuneloop.core.file_systems import network_kind, refuses_locks
from tuneloop.core.settings import PROCESS_ONLY, Settings, read_dotenv
from tuneloop.core.state_folder import state_folder
from tuneloop.tools.runs.spec import ENV_TYPES

OWN_PROMPT = (
    "the prompt is part of a benchmark, and of what its scores mean; right is a benchmark folder of your own with "
    "`prompt:` (docs/own_task.md)"
)


def _keys(text: str) -> frozenset[str]:
    return frozenset(text.split())


FOREIGN_KEYS = _keys("""
    CHAT_FREQUENCY_PENALTY CHAT_PRESENCE_PENALTY FT_JUDGE_RETRY MAX_RETRY RETRY_WAIT_SECONDS REASONING_THINK_RM
    BACKEND EMBEDDING_MODEL MULTI_PROC_N STEP_SEMAPHORE DUMP_CHAT_CACHE USE_CHAT_CACHE DUMP_EMBEDDING_CACHE
    USE_EMBEDDING_CACHE LOG_LLM_CHAT_CONTENT LOG_TRACE_PATH WORKSPACE_PATH CONDA_ENV_NAME
    FT_CODER_MAX_LOOP FT_RUNNER_MAX_LOOP FT_DATA_SAMPLE_COUNT
    FT_FORCE_THINK_TOKEN FT_EMBEDDING_MODELS FT_BENCHMARK_NUM_RUNS FT_BENCHMARK_PASS_K FT_USER_TARGET_SCENARIO
    FT_LOG_PATH FT_LOG_BASE FT_WORKSPACE_BASE
""")


def dotenv_notes(path: Path) -> list[str]:
    """One line for each kind of key in `path` that is not used. Raises InvalidRequestError when the file is malformed."""
    keys = [key.upper() for key in read_dotenv(path)]
    used = {str(field.alias).upper() for field in Settings.model_fields.values()}
    foreign = sorted(FOREIGN_KEYS.intersection(keys))
    unknown = sorted(k for k in keys if k.startswith(("FT_", "TUNELOOP_")) and k not in used | FOREIGN_KEYS)
    notes = []
    if foreign:
        notes.append(f"{path}: has no meaning here, see docs/seeds.md: {', '.join(foreign)}")
    notes += [f"{path}: {key} counts in the environment alone" for key in sorted(PROCESS_ONLY.intersection(keys))]
    return notes + [f"{path}: {key} is no setting{_hint(key, used)}" for key in unknown]


def _hint(key: str, used: set[str]) -> str:
    close = difflib.get_close_matches(key, used, n=1, cutoff=0.8)
    return f"; did you mean {close[0]}?" if close else ""


def network_notes(settings: Settings) -> list[str]:
    """What is slower, and where locks lie, when the home is on a network file system."""
    home = settings.home.root
    if not (kind := network_kind(home)):
        return []
    locks = f"; it refuses locks, which lie in {state_folder()}" if refuses_locks(home) else ""
    checkpoint = "" if settings.state_dir else ", and so is each step's checkpoint without --state-dir DIR"
    return [
        f"FT_FILE_PATH is on a network file system ({kind}): models and data sets are read and written "
        f"at its speed{checkpoint}{locks}; one machine at a time may use it"
    ]


def settings_notes(settings: Settings) -> list[str]:
    """What of the seeds' settings is read but answered in another way, and what a home on a network changes."""
    notes = network_notes(settings)
    if settings.env_type and settings.env_type.lower() in ENV_TYPES:
        notes.append(f"FT_Coder_CoSTEER_env_type={settings.env_type}: jobs run on the host's programs, in bubblewrap")
    if settings.update_llama_factory:
        notes.append(
            "FT_UPDATE_LLAMA_FACTORY: nothing is pulled, engines are built from locks so that runs can be repeated; "
            "right is a newer tuneloop, or LLAMA_FACTORY_PATH with a checkout of yours"
        )
    if settings.custom_prompt:
        notes.append(f"CUSTOM_PROMPT is not used: {OWN_PROMPT}")
    return notes
