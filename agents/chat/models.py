"""Chat models by name: `gpt-5`, `anthropic:claude-…`; a bare name is asked at the OpenAI-compatible endpoint."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from langchain.chat_models import init_chat_model
from langchain.chat_models.base import _BUILTIN_PROVIDERS
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_core.runnables import Runnable

from tuneloop.agents.chat.provider_errors import StreamCutError
from tuneloop.agents.chat.tool_calling import (
    SCHEMA,
    Card,
    Dialect,
    as_plain_conversation,
    from_langchain,
    parse_tool_call,
    to_langchain,
)
from tuneloop.agents.policy.planner import AGENTS
from tuneloop.core.errors import InvalidRequestError
from tuneloop.core.settings import Settings
from tuneloop.core.transcript import Message, Tokens

# An endpoint of one's own often wants no key, and the client always sends one.
NO_KEY = "none"


@dataclass(frozen=True)
class Provider:
    """Where models are asked: LangChain's name of it, its package, what its client is given, the settings it needs."""

    client: str
    package: str
    values: Callable[[Settings], dict[str, Any]]
    needs: tuple[str, ...] = ()


def _openai(settings: Settings) -> dict[str, Any]:
    """Chat completions wherever an endpoint is set: what speaks OpenAI's protocol seldom has its newer one."""
    key = settings.api_key.get_secret_value() if settings.api_key else NO_KEY
    values: dict[str, Any] = {"api_key": key, "stream_usage": True, "stream_chunk_timeout": None}
    if settings.endpoint:
        values |= {"base_url": settings.endpoint, "use_responses_api": False}
    return values


def _azure(settings: Settings) -> dict[str, Any]:
    own = {"api_key": settings.azure_api_key, "azure_endpoint": settings.azure_api_base}
    return {**own, "api_version": settings.azure_api_version, "stream_usage": True, "stream_chunk_timeout": None}


def _ollama(settings: Settings) -> dict[str, Any]:
    """Its client takes the time limit in another place."""
    return {"base_url": settings.ollama_api_base, "client_kwargs": {"timeout": settings.chat_timeout}}


# By the prefix that LiteLLM gives their models.
PROVIDERS = {
    "openai": Provider("openai", "langchain-openai", _openai),
    "anthropic": Provider(
        "anthropic",
        "langchain-anthropic",
        lambda s: {"api_key": s.anthropic_api_key, "base_url": s.anthropic_api_base},
        needs=("anthropic_api_key",),
    ),
    "gemini": Provider(
        "google_genai",
        "langchain-google-genai",
        lambda s: {"api_key": s.gemini_api_key, "base_url": s.gemini_api_base},
        needs=("gemini_api_key",),
    ),
    "azure": Provider("azure_openai", "langchain-openai", _azure, needs=("azure_api_key", "azure_api_base")),
    "ollama": Provider("ollama", "langchain-ollama", _ollama),
}
OTHER_NAMES = {
    "google-genai": "gemini",
    "google_genai": "gemini",
    "azure_openai": "azure",
    "ollama_chat": "ollama",
    # LiteLLM's prefixes of providers that LangChain knows by another name
    "mistral": "mistralai",
    "vertex_ai": "google_vertexai",
    "together_ai": "together",
    "fireworks_ai": "fireworks",
    "cohere_chat": "cohere",
    "nvidia_nim": "nvidia",
    "watsonx": "ibm",
}


def split_name(name: str, settings: Settings) -> tuple[str, str]:
    """Provider and model. `provider/model`, as LiteLLM writes it, counts where no endpoint is set.

    Raises InvalidRequestError for a provider that is known to LangChain and not to this project.
    """
    for mark in ":" if settings.api_base else ":/":
        found, has_mark, model = name.partition(mark)
        provider = OTHER_NAMES.get(found, found)
        if has_mark and model and provider in PROVIDERS:
            return provider, model
        if has_mark and provider in _BUILTIN_PROVIDERS:
            package = _BUILTIN_PROVIDERS[provider][0].partition(".")[0].replace("_", "-")
            raise InvalidRequestError(
                f"CHAT_MODEL={name}: {found} (of {package}) is not supported; right are {', '.join(PROVIDERS)}, "
                "or OPENAI_API_BASE with any endpoint that speaks OpenAI's protocol"
            )
    return "openai", name


def model_chain(agent: str, settings: Settings) -> tuple[str, ...]:
    """The agent's model and those asked after it, each once."""
    own = settings.chat_models.get(agent) or settings.chat_model or ""
    return tuple(dict.fromkeys(name for name in (own, *settings.chat_fallbacks) if name))


def all_models(settings: Settings) -> tuple[str, ...]:
    """All that any agent may ask."""
    return tuple(dict.fromkeys((*model_chain("", settings), *settings.chat_models.values())))


@lru_cache(maxsize=16)
def make_client(name: str, settings: Settings, without: frozenset[str] = frozenset()) -> BaseChatModel:
    """The client of a model, made once; `without`: parameters that it does not take. Raises InvalidRequestError."""
    provider, model = split_name(name, settings)
    values: dict[str, Any] = {"timeout": settings.chat_timeout, "max_retries": 0}
    if settings.chat_temperature is not None:
        values["temperature"] = settings.chat_temperature
    values |= {key: value for key, value in PROVIDERS[provider].values(settings).items() if value is not None}
    values = {key: value for key, value in values.items() if key not in without}
    if "stream_options" in without:
        values["stream_usage"] = False
    try:
        client: BaseChatModel = init_chat_model(model, model_provider=PROVIDERS[provider].client, **values)
    except ImportError as e:
        package = PROVIDERS[provider].package
        raise InvalidRequestError(f"CHAT_MODEL={name}: needs {package}; pip install 'tuneloop[providers]'") from e
    except Exception as e:
        raise InvalidRequestError(f"CHAT_MODEL={name}: {' '.join(str(e).split())[:300]}") from e
    return client


def check_models(settings: Settings) -> None:
    """Everything that can be seen to be wrong before anything is asked. Raises InvalidRequestError."""
    for agent in settings.chat_models:
        if agent not in (names := (*AGENTS, "listener")):
            raise InvalidRequestError(f"TUNELOOP_CHAT_MODELS: no agent {agent!r}; there are {', '.join(names)}")
    for name in all_models(settings):
        provider, _ = split_name(name, settings)
        if provider == "openai" and not (settings.api_key or settings.api_base):
            raise InvalidRequestError(
                f"CHAT_MODEL={name}: set OPENAI_API_KEY, or OPENAI_API_BASE for an endpoint of your own; "
                "or leave CHAT_MODEL empty: the offline policy plans then"
            )
        for field in PROVIDERS[provider].needs:
            if not getattr(settings, field):
                raise InvalidRequestError(f"CHAT_MODEL={name}: set {field.upper()}")
        make_client(name, settings)


# One request to one model: streamed and shown while it comes, its silence bounded, its tokens counted.

# An answer may take so many times the seconds that a model may be silent.
STREAM_TIMEOUT = 10
# As o200k_base counts what agents are sent: 3.2 of talk, much of it JSON, 4.5 of tools.
LETTERS_PER_TOKEN, OF_TOOLS = 3, 4.5


@dataclass(frozen=True)
class ChatRequest:
    """`answer`: the tool whose arguments are the agent's answer; `silence`: seconds."""

    messages: Sequence[Message]
    tools: Sequence[Card]
    answer: str
    dialect: Dialect
    silence: float
    stream: bool
    most_tokens: int


async def send_request(
    model: BaseChatModel, request: ChatRequest, show: Callable[[str], None]
) -> tuple[Message, Tokens]:
    """The reply in the agent's terms. Raises what the provider's client raises, TimeoutError and CutError."""
    plain = request.dialect != "tools"
    messages = (
        as_plain_conversation(request.messages, request.tools, request.answer) if plain else list(request.messages)
    )
    sent = [to_langchain(message) for message in messages]
    client = _client(model, request)
    said = await (_streamed(client, sent, request, show) if request.stream else _complete(client, sent, request))
    reply = from_langchain(said)
    cards = () if plain else request.tools  # else they stand in the messages
    return parse_tool_call(reply, request.tools, request.answer), count_tokens(said, messages, reply, cards)


def _client(model: BaseChatModel, request: ChatRequest) -> Runnable[Any, Any]:
    if request.dialect == "tools":
        return model.bind_tools(list(request.tools))
    return model.bind(response_format=SCHEMA) if request.dialect == "schema" else model


async def _complete(client: Runnable[Any, Any], sent: list[Any], request: ChatRequest) -> AIMessage:
    async with asyncio.timeout(request.silence):
        said: AIMessage = await client.ainvoke(sent)
    return said


async def _streamed(
    client: Runnable[Any, Any], sent: list[Any], request: ChatRequest, show: Callable[[str], None]
) -> AIMessage:
    """Piece by piece; what outgrows the agent's tokens is no longer listened to."""
    began, pieces, letters = time.monotonic(), list[AIMessageChunk](), 0
    async with asyncio.timeout(request.silence) as limit:
        stream = client.astream(sent)
        async for piece in stream:
            pieces.append(piece)
            words = piece.text + "".join(c.get("args") or "" for c in piece.tool_call_chunks)
            letters += len(words)
            show(words)
            if letters > LETTERS_PER_TOKEN * request.most_tokens:
                return _join_chunks(pieces)
            left = STREAM_TIMEOUT * request.silence - (time.monotonic() - began)
            limit.reschedule(asyncio.get_running_loop().time() + min(request.silence, left))
    said = _join_chunks(pieces)
    if said.response_metadata.get("model_provider") == "openai" and not said.response_metadata.get("finish_reason"):
        raise StreamCutError("the stream broke off")
    return said


def _join_chunks(pieces: list[AIMessageChunk]) -> AIMessageChunk:
    """All pieces as one, in time that grows with their number only."""
    if not pieces:
        raise StreamCutError("the stream was empty")
    first, *rest = pieces
    return first.__add__(rest) if rest else first


def count_tokens(said: AIMessage, messages: Sequence[Message], reply: Message, tools: Sequence[Card] = ()) -> Tokens:
    """What the provider says it took; else an estimate from letters."""
    used = said.usage_metadata
    if used and (used["input_tokens"] or used["output_tokens"]):
        details: Any = used.get("input_token_details") or {}
        return Tokens(into=used["input_tokens"], out=used["output_tokens"], cached=details.get("cache_read") or 0)
    return Tokens(into=estimate_tokens(messages, tools), out=estimate_tokens((reply,)), estimated=True)


def estimate_tokens(messages: Sequence[Message], tools: Sequence[Card] = ()) -> int:
    """Tokens of some messages and tools, roughly."""
    letters = sum(len(m.text) + sum(len(str(a.arguments)) + len(a.name) for a in m.asks) for m in messages)
    return int(letters / LETTERS_PER_TOKEN + sum(len(str(card)) for card in tools) / OF_TOOLS) + 1
