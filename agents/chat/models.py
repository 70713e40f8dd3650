"""Chat models by name: `gpt-5`, `anthropic:claude-…`; a bare name is asked at the OpenAI-compatible endpoint."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from langchain.chat_models import init_chat_model
from langchain.chat_models.base import _BUILTIN_PROVIDERS as PROVIDERS
from langchain_core.language_models import BaseChatModel

from tuneloop.agents.policy.planner import AGENTS
from tuneloop.core.errors import SetupError
from tuneloop.core.settings import Settings

# An endpoint of one's own often wants no key, and the client always sends one.
NO_KEY = "none"


def split(name: str, settings: Settings) -> tuple[str, str]:
    """Provider and model. `provider/model`, as the seeds' LiteLLM writes it, counts where no endpoint is set."""
    for mark in ":" if settings.api_base else ":/":
        provider, found, model = name.partition(mark)
        if found and model and provider in PROVIDERS:
            return provider, model
    return "openai", name


def chain_of(agent: str, settings: Settings) -> tuple[str, ...]:
    """The agent's model and those asked after it, each once."""
    own = settings.chat_models.get(agent) or settings.chat_model or ""
    return tuple(dict.fromkeys(name for name in (own, *settings.chat_fallbacks) if name))


def every_model(settings: Settings) -> tuple[str, ...]:
    """All that any agent may ask."""
    return tuple(dict.fromkeys((*chain_of("", settings), *settings.chat_models.values())))


@lru_cache(maxsize=16)
def make(name: str, settings: Settings, without: frozenset[str] = frozenset()) -> BaseChatModel:
    """The client of a model, made once; `without`: parameters that it does not take. Raises SetupError."""
    provider, model = split(name, settings)
    values: dict[str, Any] = {"timeout": settings.chat_timeout, "max_retries": 0}
    if settings.chat_temperature is not None:
        values["temperature"] = settings.chat_temperature
    if provider == "openai":
        values |= _openai(settings)
    values = {key: value for key, value in values.items() if key not in without}
    if "stream_options" in without:
        values["stream_usage"] = False
    try:
        client: BaseChatModel = init_chat_model(model, model_provider=provider, **values)
    except ImportError as e:
        raise SetupError(f"CHAT_MODEL={name}: {' '.join(str(e).split())}") from e
    except Exception as e:
        raise SetupError(f"CHAT_MODEL={name}: {' '.join(str(e).split())[:300]}") from e
    return client


def _openai(settings: Settings) -> dict[str, Any]:
    """Chat completions wherever an endpoint is set: what speaks OpenAI's protocol seldom has its newer one."""
    key = settings.api_key.get_secret_value() if settings.api_key else NO_KEY
    values: dict[str, Any] = {"api_key": key, "stream_usage": True, "stream_chunk_timeout": None}
    if settings.endpoint:
        values |= {"base_url": settings.endpoint, "use_responses_api": False}
    return values


def check_models(settings: Settings) -> None:
    """Everything that can be seen to be wrong before anything is asked. Raises SetupError."""
    for agent in settings.chat_models:
        if agent not in (names := (*AGENTS, "listener")):
            raise SetupError(f"TUNELOOP_CHAT_MODELS: no agent {agent!r}; there are {', '.join(names)}")
    for name in every_model(settings):
        provider, _ = split(name, settings)
        if provider == "openai" and not (settings.api_key or settings.api_base):
            raise SetupError(
                f"CHAT_MODEL={name}: set OPENAI_API_KEY, or OPENAI_API_BASE for an endpoint of your own; "
                "or leave CHAT_MODEL empty: the offline policy plans then"
            )
        make(name, settings)
