"""What a model folder says about itself, read from config.json, safetensors headers and tokenizer files; no torch."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tuneloop.core.errors import InvalidRequestError
from tuneloop.core.files import parse_json, read_bytes
from tuneloop.tools.config.model_shape import ModelShape, shape_of_weights

if TYPE_CHECKING:
    from tokenizers import Tokenizer

INDEX = "model.safetensors.index.json"
MARKS, GENERATION = "special_tokens_map.json", "generation_config.json"
DTYPES = {"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16", "I8": "int8", "U8": "uint8"}
LARGEST_HEADER = 100 << 20
LARGEST_JSON = 1 << 28
MEDIA_MARK = re.compile(r"image|audio|video")  # marks in no text; models without such parts have no row for them

Tensors = dict[str, tuple[str, tuple[int, ...]]]
Stamp = tuple[tuple[Path, int, int], ...]


@dataclass(frozen=True)
class ModelCard:
    """One base model; `shape` holds its matrices, counted from the weights' headers, `tensors` every tensor's sizes.

    `tied`: the head is the embedding. `quantized`: how its weights are. `token_count`: tokens of its tokenizer.
    `custom_code`: it brings its own classes. `end_of_text`: the token behind a whole text, "" where no file names one.
    """

    folder: Path
    architecture: str
    model_type: str
    parameters: int
    dtype: str
    layers: int
    hidden: int
    vocab: int
    max_positions: int | None
    chat_template: str | None
    template: str | None
    tokens: frozenset[str] = field(repr=False)
    shape: ModelShape = field(repr=False)
    tensors: Mapping[str, tuple[int, ...]] = field(default_factory=dict, repr=False)
    tied: bool = False
    quantized: str = ""
    token_count: int = 0
    custom_code: bool = False
    end_of_text: str = ""


def read_model_card(folder: Path) -> ModelCard:
    """The card of the model in `folder`; kept in memory until a file changes.

    Raises InvalidRequestError that names the file that is missing or broken.
    """
    if not folder.is_dir():
        raise InvalidRequestError(
            f"{folder}: no such folder; right is a model folder with config.json, *.safetensors, tokenizer"
        )
    names = ("config.json", "tokenizer.json", "tokenizer_config.json", "chat_template.jinja", INDEX, MARKS, GENERATION)
    paths = [folder / name for name in names] + sorted(folder.glob("*.safetensors"))
    found = [(path, path.stat()) for path in paths if path.is_file()]
    return _read(folder, tuple((path, s.st_mtime_ns, s.st_size) for path, s in found))


@lru_cache(maxsize=16)
def _read(folder: Path, stamp: Stamp) -> ModelCard:  # noqa: ARG001 - the stamp is the cache's key
    try:
        return _card(folder)
    except (TypeError, ValueError, LookupError, AttributeError, OverflowError, OSError) as e:
        raise InvalidRequestError(f"{folder}: its files do not describe a model ({e!r}); fetch the model again") from e


def _card(folder: Path) -> ModelCard:
    config = read_model_json(folder / "config.json")
    text = config.get("text_config") or config
    tensors = _tensors(folder)
    tokens, token_count, tokenizer_config = _tokenizer(folder)
    chat = _chat_template(folder, tokenizer_config)
    dtypes: dict[str, int] = defaultdict(int)
    for kind, shape in tensors.values():
        dtypes[DTYPES.get(kind, kind)] += prod(shape)
    return ModelCard(
        folder=folder,
        architecture=str((config.get("architectures") or ["unknown"])[0]),
        model_type=str(config.get("model_type", "unknown")),
        parameters=sum(prod(shape) for _, shape in tensors.values()),
        dtype=max(dtypes, key=lambda k: dtypes[k]) if dtypes else "unknown",
        layers=int(text.get("num_hidden_layers") or text.get("n_layer") or 0),
        hidden=int(text.get("hidden_size") or text.get("n_embd") or 0),
        vocab=int(text.get("vocab_size") or 0),
        max_positions=text.get("max_position_embeddings") or text.get("n_positions"),
        chat_template=chat,
        template=template_of(chat),
        tokens=tokens,
        shape=shape_of_weights(config, tensors),
        tensors={name: sizes for name, (_, sizes) in tensors.items()},
        tied=bool(config.get("tie_word_embeddings", text.get("tie_word_embeddings", _has_tied_head(tensors)))),
        quantized=str((config.get("quantization_config") or {}).get("quant_method", "")),
        token_count=token_count,
        custom_code="auto_map" in config,
        end_of_text=_end_of_text(folder, tokenizer_config, text),
    )


def _has_tied_head(tensors: Tensors) -> bool:
    """Whether the weights hold no head of their own."""
    return not any(name.split(".")[-2:-1] in (["lm_head"], ["embed_out"]) for name in tensors)


def read_model_json(path: Path) -> dict[str, Any]:
    """An object of a model's folder. Raises InvalidRequestError."""
    try:
        value = parse_json(read_bytes(path, LARGEST_JSON).decode())
    except FileNotFoundError as e:
        raise InvalidRequestError(f"{path}: missing; right is a whole model folder in Hugging Face's format") from e
    except ValueError as e:
        raise InvalidRequestError(f"{path}: broken JSON ({e}); fetch the model again") from e
    if not isinstance(value, dict):
        raise InvalidRequestError(f"{path}: no JSON object; fetch the model again")
    return value


def load_tokenizer(path: Path) -> Tokenizer:
    """A tokenizer.json, without the padding and truncation that it may ask for. Raises InvalidRequestError."""
    from tokenizers import Tokenizer  # slow to import, and most of what reads a model needs none

    try:
        tokenizer = Tokenizer.from_buffer(read_bytes(path, LARGEST_JSON))
    except Exception as e:  # the library raises nothing narrower
        raise InvalidRequestError(
            f"{path}: no tokenizer can be read from it ({e}); right is a model with tokenizer.json"
        ) from e
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def _tensors(folder: Path) -> Tensors:
    """Name → (dtype, shape) of every tensor, from the headers only."""
    if (folder / INDEX).is_file():
        names = sorted(set(read_model_json(folder / INDEX).get("weight_map", {}).values()))
    else:
        names = sorted(path.name for path in folder.glob("*.safetensors"))
    if not names:
        pickled = any(folder.glob("*.bin")) or any(folder.glob("*.pt"))
        why = "weights are pickled, which is unsafe" if pickled else "model.safetensors is missing"
        raise InvalidRequestError(f"{folder}: {why}; right is weights as *.safetensors")
    found: Tensors = {}
    for name in names:
        found |= read_header(folder / name)
    return found


def read_header(path: Path) -> Tensors:
    """Tensors of one safetensors file. Raises InvalidRequestError when it is missing, broken or cut short."""
    try:
        with path.open("rb") as f:
            length = int.from_bytes(f.read(8), "little")
            raw = parse_json(f.read(length).decode()) if 0 < length <= LARGEST_HEADER else None
        size = path.stat().st_size
    except FileNotFoundError as e:
        raise InvalidRequestError(f"{path}: missing; fetch the model again") from e
    except ValueError as e:
        raise InvalidRequestError(f"{path}: broken safetensors header; fetch the model again") from e
    if not isinstance(raw, dict):
        raise InvalidRequestError(f"{path}: no safetensors file; fetch the model again")
    items = {name: entry for name, entry in raw.items() if name != "__metadata__"}
    end = max((entry["data_offsets"][1] for entry in items.values()), default=0)
    if size < 8 + length + end:
        raise InvalidRequestError(f"{path}: {size} bytes where {8 + length + end} are needed; fetch the model again")
    return {name: (entry["dtype"], tuple(entry["shape"])) for name, entry in items.items()}


def _tokenizer(folder: Path) -> tuple[frozenset[str], int, dict[str, Any]]:
    """Tokens that look like markup, how many tokens there are, and tokenizer_config.json."""
    config = read_model_json(folder / "tokenizer_config.json")
    whole = read_model_json(folder / "tokenizer.json")
    vocab: Iterable[Any] = (whole.get("model") or {}).get("vocab") or ()
    tokens = {t for t in vocab if isinstance(t, str) and t[:1] in "<[" and len(t) > 2}
    tokens |= {str(t.get("content")) for t in whole.get("added_tokens") or ()}
    tokens |= {str(t.get("content")) for t in (config.get("added_tokens_decoder") or {}).values()}
    texts = (t for t in whole.get("added_tokens") or () if not MEDIA_MARK.search(str(t.get("content"))))
    added = [int(t.get("id", 0)) for t in texts]
    return frozenset(tokens), max([len(list(vocab)), *(n + 1 for n in added)]), config


def _end_of_text(folder: Path, tokenizer_config: Mapping[str, Any], config: Mapping[str, Any]) -> str:
    """By the tokenizer's files; older models (gpt2) name only its number, in those of generation and model."""
    marks, generation = (read_model_json(p) if (p := folder / n).is_file() else {} for n in (MARKS, GENERATION))
    if named := _token_text(tokenizer_config.get("eos_token")) or _token_text(marks.get("eos_token")):
        return named
    number = generation.get("eos_token_id", config.get("eos_token_id"))
    first = number[0] if isinstance(number, list) and number else number
    return _token_of(read_model_json(folder / "tokenizer.json"), first) if isinstance(first, int) else ""


def _token_of(tokenizer: Mapping[str, Any], number: int) -> str:
    """The added token of this number in a tokenizer.json, "" where it has none: a text spells any other token out."""
    return next((str(t["content"]) for t in tokenizer.get("added_tokens") or () if t["id"] == number), "")


def _token_text(token: Any) -> str:
    """A special token as tokenizer_config.json writes it: as text, or as an object."""
    found = token.get("content") if isinstance(token, dict) else token
    return found if isinstance(found, str) else ""


def _chat_template(folder: Path, tokenizer_config: Mapping[str, Any]) -> str | None:
    if (folder / "chat_template.jinja").is_file():
        return read_bytes(folder / "chat_template.jinja", LARGEST_JSON).decode()
    match tokenizer_config.get("chat_template"):
        case str(text):
            return text
        case list(named):
            return next((t.get("template") for t in named if t.get("name") == "default"), None)
    return None


def template_of(chat: str | None) -> str | None:
    """LLaMA-Factory's template that renders exactly as this chat template; None: the engine reads it itself."""
    if chat is None:
        return None
    said = _template_text(chat)
    if "<|im_start|>" in said and "tools" not in chat:
        rest = re.sub(r"<\|im_(start|end)\|>|system|user|assistant", "", said)
        if not rest.strip():
            return "chatml"
    if "You are Qwen, created by Alibaba Cloud. You are a helpful assistant." in said and "<think>" not in chat:
        return "qwen"
    if "<|start_header_id|>" in said and "<|eot_id|>" in said and "tools" not in chat and "Cutting" not in chat:
        return "llama3"
    if "<start_of_turn>" in said and "tools" not in chat and "image" not in chat and "model" in said:
        return "gemma"
    return None


def _template_text(chat: str) -> str:
    """Everything a Jinja template can print of its own: text outside the tags and quoted text inside printing tags."""
    chat = re.sub(r"\{#.*?#\}", "", chat, flags=re.DOTALL)
    outside = re.sub(r"\{\{.*?\}\}|\{%.*?%\}", "", chat, flags=re.DOTALL)
    printed: list[str] = []
    for tag in re.findall(r"\{\{.*?\}\}|\{%-?\s*set\b.*?%\}", chat, flags=re.DOTALL):
        without_keys = re.sub(r"\[\s*(['\"])\w+\1\s*\]", "", tag)
        printed += [text for _, text in re.findall(r"(['\"])(.*?)\1", without_keys, flags=re.DOTALL)]
    return (outside + "".join(printed)).replace("\\n", "\n")
