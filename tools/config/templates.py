"""LLaMA-Factory's chat templates as its source registers them."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tuneloop.core.untrusted import parse_python

CONTENT = "{{content}}"
MEDIA = ("image", "video", "audio")
FRAME = ("format_prefix", "format_user", "format_assistant")


@dataclass(frozen=True)
class Template:
    """One template. `needs`: tokens that the tokenizer must have; `frame`: the text around one question and answer.

    `stops`: tokens among them that are added where they lack. `efficient_eos`: a turn is ended by its next token.
    `media`: what it takes beside text, of image, video and audio.
    """

    name: str
    needs: tuple[str, ...]
    frame: str
    default_system: str
    stops: tuple[str, ...] = ()
    efficient_eos: bool = False
    media: frozenset[str] = frozenset()


def template_registrations(path: Path) -> dict[str, Mapping[str, ast.expr]]:
    """The options of every `register_template(name=...)` of the file, by name. Raises OSError or SyntaxError."""
    return _registrations(path, path.stat().st_mtime_ns)


@functools.lru_cache(maxsize=4)
def _registrations(path: Path, stamp: int) -> dict[str, Mapping[str, ast.expr]]:  # noqa: ARG001 - a checkout changes
    found: dict[str, Mapping[str, ast.expr]] = {}
    for node in parse_python(path.read_text(encoding="utf-8"), str(path)).body:
        match node:
            case ast.Expr(value=ast.Call(func=ast.Name(id="register_template"), keywords=keywords)):
                options = {k.arg: k.value for k in keywords if k.arg}
                found[_texts(options.get("name"))[0]] = options
    return found


def read_templates(path: Path) -> dict[str, Template]:
    """Every template of the file. Raises OSError or SyntaxError."""
    return {name: _template(name, options) for name, options in template_registrations(path).items()}


def _template(name: str, options: Mapping[str, ast.expr]) -> Template:
    slots = {name: _slots(options[name]) for name in FRAME if name in options}
    tokens = [text for parts in slots.values() for text, single in parts if single]
    frame = "".join(text for parts in slots.values() for text, _ in parts).replace(CONTENT, "")
    stop_words = _texts(options.get("stop_words"))
    system = _texts(options.get("default_system"))
    return Template(
        name=name,
        needs=tuple(dict.fromkeys([*stop_words, *tokens])),
        frame=frame,
        default_system=system[0] if system else "",
        stops=tuple(stop_words),
        efficient_eos=_is_true(options.get("efficient_eos")),
        media=_media(options.get("mm_plugin")),
    )


def _media(node: ast.expr | None) -> frozenset[str]:
    """What a plugin has a token for, as in `get_mm_plugin(name="qwen2_vl", image_token="<|image_pad|>")`."""
    given = {k.arg: k.value for k in node.keywords if k.arg} if isinstance(node, ast.Call) else {}
    return frozenset(medium for medium in MEDIA if _texts(given.get(f"{medium}_token")))


def _is_true(node: ast.expr | None) -> bool:
    return isinstance(node, ast.Constant) and node.value is True


def _texts(node: ast.expr | None) -> list[str]:
    items = node.elts if isinstance(node, ast.List | ast.Tuple) else [node]
    return [item.value for item in items if isinstance(item, ast.Constant) and isinstance(item.value, str)]


def _slots(node: ast.expr) -> list[tuple[str, bool]]:
    """Texts of a formatter's slots, and whether each is written as one token, `{"token": "<|x|>"}`."""
    found: list[tuple[str, bool]] = []
    for item in ast.walk(node):
        if isinstance(item, ast.keyword) and item.arg == "slots" and isinstance(item.value, ast.List):
            for slot in item.value.elts:
                match slot:
                    case ast.Constant(value=str(text)):
                        found.append((text, False))
                    case ast.Dict(values=[ast.Constant(value=str(text))]):
                        found.append((text, True))
    return found


def templates_like(text: str, names: Iterable[str]) -> list[str]:
    """Templates that a model's name suggests; the closest first."""
    said = re.sub(r"[^a-z0-9]", "", text.lower())
    if len(said) < 2 or said.isdigit():
        return []
    flat = {name: re.sub(r"[^a-z0-9]", "", name.lower()) for name in names}
    starts = [name for name, short in flat.items() if short.startswith(said)]
    inside = [name for name, short in flat.items() if len(short) > 2 and said.startswith(short) and name not in starts]
    return sorted(starts, key=lambda n: (len(n), n)) + sorted(inside, key=lambda n: (-len(n), n))
