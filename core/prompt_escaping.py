"""Text of strangers in what a model is told: it cannot close what it stands in, nor look like a role of the conversation."""

from __future__ import annotations

import json
import re

# Borders of roles in templates of chat models: some servers read them as such wherever they stand.
BORDERS = re.compile(
    r"<(?=\||｜|/?(?:s|start_of_turn|end_of_turn|bos|eos|unk|pad|think|tool_call|tool_response|system|im_start|im_end)>|<SYS>>|</SYS>>)"
    r"|\[(?=/?(?:INST|SYSTEM_PROMPT|TOOL_CALLS|TOOL_RESULTS|AVAILABLE_TOOLS)\])",
    re.IGNORECASE,
)

# Ends of lines, and unseen signs, that JSON leaves as they are.
LINES = re.compile("[\x7f-\x9f\u2028\u2029]")


def escape_role_markers(text: str) -> str:
    """The text with a blank inside whatever a chat template takes for the border of a role."""
    return BORDERS.sub(lambda found: f"{found[0]} ", text)


def fence(language: str, text: str) -> str:
    """A block with a fence longer than any inside."""
    mark = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", text)), default=0))
    return f"{mark}{language}\n{text.rstrip()}\n{mark}"


def quote_line(text: str, most: int) -> str:
    """One line in quotes, of at most so many letters of the text, the middle left out."""
    whole = json.dumps(escape_role_markers(shorten_middle(text, most)), ensure_ascii=False)
    return LINES.sub(lambda found: f"\\u{ord(found[0]):04x}", whole)


def shorten_middle(text: str, most: int) -> str:
    """Its beginning and, twice as long, its end: what a reply comes to stands there."""
    if len(text) <= most:
        return text
    head = most // 3
    return f"{text[:head]} […{len(text) - most} letters…] {text[len(text) - (most - head) :]}"


def one_line(text: object, most: int) -> str:
    """One line of prose that opens no fence."""
    return shorten_middle(re.sub("`{3,}", "'''", " ".join(escape_role_markers(str(text)).split())), most)


def table_cell(text: object, most: int) -> str:
    """Text that breaks no table."""
    return one_line(str(text).replace("|", "/"), most)
