"""Escape untrusted text in prompts: it cannot close its block, nor look like a role of the conversation."""

from __future__ import annotations

import json
import re

# Role markers of chat templates: some servers interpret them anywhere in the text.
BORDERS = re.compile(
    r"<(?=\||｜|/?(?:s|start_of_turn|end_of_turn|bos|eos|unk|pad|think|tool_call|tool_response|system|im_start|im_end)>|<SYS>>|</SYS>>)"
    r"|\[(?=/?(?:INST|SYSTEM_PROMPT|TOOL_CALLS|TOOL_RESULTS|AVAILABLE_TOOLS)\])",
    re.IGNORECASE,
)

# Line ends and invisible characters that JSON does not escape.
LINES = re.compile("[\x7f-\x9f\u2028\u2029]")


def escape_role_markers(text: str) -> str:
    """Insert a blank into everything that a chat template takes for a role marker."""
    return BORDERS.sub(lambda found: f"{found[0]} ", text)


def fence(language: str, text: str) -> str:
    """A fenced block; its fence is longer than any inside the text."""
    mark = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", text)), default=0))
    return f"{mark}{language}\n{text.rstrip()}\n{mark}"


def quote_line(text: str, most: int) -> str:
    """The text as one quoted line of at most `most` characters, the middle left out."""
    whole = json.dumps(escape_role_markers(shorten_middle(text, most)), ensure_ascii=False)
    return LINES.sub(lambda found: f"\\u{ord(found[0]):04x}", whole)


def shorten_middle(text: str, most: int) -> str:
    """The beginning and, twice as long, the end of a text: a reply's conclusion is at its end."""
    if len(text) <= most:
        return text
    head = most // 3
    return f"{text[:head]} […{len(text) - most} letters…] {text[len(text) - (most - head) :]}"


def one_line(text: object, most: int) -> str:
    """The text as one line that opens no fence."""
    return shorten_middle(re.sub("`{3,}", "'''", " ".join(escape_role_markers(str(text)).split())), most)


def table_cell(text: object, most: int) -> str:
    """The text as one cell of a Markdown table."""
    return one_line(str(text).replace("|", "/"), most)
