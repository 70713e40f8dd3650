"""The kinds of values that settings have, and how they are read from what people write into variables."""

from __future__ import annotations

import json
import re
import shlex
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import BeforeValidator, ConfigDict, Field, SecretStr

from tuneloop.core.budget import LlmQuota
from tuneloop.core.frozen import Frozen
from tuneloop.core.prices import Price


def parse_names(value: object) -> object:
    """A JSON list, or names with commas; quotes around a JSON list are a shell habit and are dropped."""
    if not isinstance(value, str):
        return value
    text = value.strip().strip("'")
    if text.startswith("["):
        return json.loads(text)
    return [part.strip() for part in text.split(",") if part.strip()]


def parse_table(value: object) -> object:
    """A JSON object; empty means none."""
    return json.loads(value.strip().strip("'") or "{}") if isinstance(value, str) else value


def add_api_version(address: str) -> str:
    """An address without a path gets the one that OpenAI's protocol has."""
    bare = address.rstrip("/")
    return bare if urlsplit(bare).path else f"{bare}/v1"


def empty_is_none(value: object) -> object:
    """`FT_X=` means unset."""
    return None if isinstance(value, str) and not value.strip() else value


def empty_is(default: object) -> BeforeValidator:
    """`FT_X=` means the default."""
    return BeforeValidator(lambda value: default if empty_is_none(value) is None else value)


def unlimited_is_none(value: object) -> object:
    """The seeds write `None` for no limit."""
    return None if isinstance(value, str) and value.strip().lower() in ("", "none", "null", "unlimited") else value


def parse_keep_models(value: object) -> object:
    """`last, best` is `best,last`: the incumbent's weights always stay."""
    if not isinstance(value, str):
        return value
    words = sorted({word.strip().lower() for word in value.split(",")} - {""})
    return {"": "best,last", "last": "best,last"}.get(",".join(words), ",".join(words))


def parse_web_address(value: object) -> object:
    """An address of HTTP; empty means none. Raises ValueError for anything else."""
    said = empty_is_none(value)
    try:
        parts = urlsplit(said) if isinstance(said, str) else None
        right = parts is None or (parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0)
    except ValueError:  # a port or an IPv6 address that is none
        right = False
    if not right:
        raise ValueError("right is https://host/path")
    return said


STORAGE_URL = re.compile(r"(s3|gs)://[^/@:]+(/[^\0]*)?|file:///[^\0]+")


def is_storage_url(name: str) -> bool:
    """Whether it names an object storage."""
    return name.startswith(("s3://", "gs://", "file://"))


def parse_storage_url(value: object) -> object:
    """An address of object storage, without a slash at its end; empty means none. Raises ValueError."""
    said = empty_is_none(value)
    if said is None:
        return None
    steps = str(said).rstrip("/").split("/")[3:]
    if not (isinstance(said, str) and STORAGE_URL.fullmatch(said)) or not {"", ".", ".."}.isdisjoint(steps):
        raise ValueError("right is s3://bucket/path, gs://bucket/path or file:///path, without user and password")
    return said.rstrip("/")


def parse_program(value: object) -> object:
    """A program and its arguments, quoted as for a shell, which is not used; empty means none. Raises ValueError."""
    try:
        return tuple(shlex.split(value)) if isinstance(value, str) else value
    except ValueError as e:
        raise ValueError(f"{e}; right is a program and its arguments, quoted as for a shell") from None


Names = Annotated[tuple[str, ...], BeforeValidator(parse_names)]
OptionalNames = Annotated[tuple[str, ...] | None, BeforeValidator(lambda value: parse_names(empty_is_none(value)))]
Table = Annotated[dict[str, str], BeforeValidator(parse_table)]
Prices = Annotated[dict[str, Price], BeforeValidator(parse_table)]
Secret = Annotated[SecretStr | None, BeforeValidator(empty_is_none)]
Text = Annotated[str | None, BeforeValidator(empty_is_none)]
WebAddress = Annotated[str | None, BeforeValidator(parse_web_address)]
StorageUrl = Annotated[str | None, BeforeValidator(parse_storage_url)]
Program = Annotated[tuple[str, ...], BeforeValidator(parse_program)]
Device = Annotated[Literal["cpu", "cuda"] | None, BeforeValidator(empty_is_none)]
Port = Annotated[int, Field(gt=0, lt=65536)]
Sharding = Literal["auto", "ddp", "zero1", "zero2", "zero3", "zero3_offload", "fsdp", "fsdp_offload"]
KeepModels = Literal["best,last", "best", "all"]
TrackerName = Literal["mlflow", "tensorboard", "wandb", "trackio"]
Trackers = Annotated[tuple[TrackerName, ...], BeforeValidator(parse_names)]
NodeFiles = Literal["shared", "storage"]
Unsandboxed = Literal["never", "fallback", "always"]
On = Annotated[bool, empty_is(True)]
Backend = Annotated[Literal["auto", "hf", "vllm"], empty_is("auto")]
HubName = Annotated[
    Literal["huggingface", "modelscope"], BeforeValidator(lambda value: (empty_is_none(value) or "huggingface").lower())
]
Count = Annotated[Annotated[int, Field(gt=0)] | None, BeforeValidator(unlimited_is_none)]
Flag = Annotated[bool | None, BeforeValidator(empty_is_none)]


Limits = Annotated[LlmQuota, BeforeValidator(parse_table)]


class McpProgram(Frozen):
    """An MCP server that is started and spoken to over stdio, as clients' configurations write it."""

    model_config = ConfigDict(extra="forbid")

    command: str = Field(min_length=1)
    args: tuple[str, ...] = ()
    env: dict[str, str] = {}


def parse_server_address(value: object) -> object:
    """How each server is reached: a URL, or the program to start. Raises ValueError for what is neither."""
    found = parse_table(value)
    for name, how in found.items() if isinstance(found, dict) else ():
        web = isinstance(how, str) and how.startswith(("http://", "https://"))
        told = isinstance(how, dict) and {"command"} <= how.keys() <= McpProgram.model_fields.keys()
        if not (web or told or isinstance(how, McpProgram)):
            raise ValueError(f'{name}: {how!r}; right is a URL or {{"command": "…", "args": ["…"]}}')
    return found


Servers = Annotated[dict[str, McpProgram | str], BeforeValidator(parse_server_address)]
