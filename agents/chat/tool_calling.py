"""How a model is told of tools and calls them: by the provider's own tool calling, by JSON mode, or by plain words.

Whatever the provider can, an agent sees the same: messages, tool calls, results. Without tool calling the tools
stand in the first message, and the model answers with one JSON object, `{"tool": …, "arguments": …}`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any, Literal

from langchain_core.messages import AIMessage, AIMessageChunk, AnyMessage, HumanMessage, SystemMessage, ToolMessage

from tuneloop.core.prompt_escaping import fence
from tuneloop.core.transcript import Message, ToolRequest

Dialect = Literal["tools", "schema", "text"]
DIALECTS: tuple[Dialect, ...] = ("tools", "schema", "text")
Card = dict[str, Any]
PLAIN_PROMPT = """
## How to use tools
You have the tools below. Say nothing but one JSON object: {{"tool": "<name>", "arguments": {{…}}}}. You then get the
result in the next message. When you know enough, call `{answer}`: its arguments are your answer, and it ends your work.

{tools}"""
SCHEMA: dict[str, Any] = {
    "type": "json_schema",
    "json_schema": {
        "name": "tool_call",
        "schema": {
            "type": "object",
            "properties": {"tool": {"type": "string"}, "arguments": {"type": "object"}},
            "required": ["tool", "arguments"],
        },
    },
}
TRIES = 200
# Stands for the arguments of a call whose arguments were no JSON object.
BROKEN_ARGUMENTS = "no_json"
RESERVED = frozenset({"self", "tool", "config", "run_manager"})  # which Python code between takes for its own
# A template may have opened a thought, and one that never ends holds no answer.
THINKING = re.compile(r"<think>.*?(?:</think>|\Z)|\A(?:(?!<think>).)*?</think>", re.DOTALL)


def name_of(card: Card) -> str:
    """Of a tool in OpenAI's form."""
    return str(card["function"]["name"])


def next_dialect(dialect: Dialect) -> Dialect | None:
    """The next that wants less of the provider."""
    rest = DIALECTS[DIALECTS.index(dialect) + 1 :]
    return rest[0] if rest else None


def as_plain_conversation(messages: Sequence[Message], tools: Sequence[Card], answer: str) -> list[Message]:
    """The same conversation for a model without tool calling."""
    told = PLAIN_PROMPT.format(answer=answer, tools="\n\n".join(map(_describe_tool, tools)))
    first, rest = (messages[0].text, messages[1:]) if messages and messages[0].role == "system" else ("", messages)
    return [Message(role="system", content=f"{first}\n{told}".strip()), *map(_plain, rest)]


def _describe_tool(card: Card) -> str:
    f = card["function"]
    return f"### {f['name']}\n{f.get('description', '')}\nArguments: {json.dumps(f.get('parameters', {}), ensure_ascii=False)}"


def _plain(message: Message) -> Message:
    if message.role == "tool":
        return Message(role="user", content=f"Result of {message.name}:\n{fence('', message.text)}")
    if message.role == "assistant" and message.asks:
        calls = (json.dumps({"tool": a.name, "arguments": a.arguments}, ensure_ascii=False) for a in message.asks)
        return Message(role="assistant", content="\n".join(calls))
    return message


def parse_tool_call(reply: Message, tools: Sequence[Card], answer: str) -> Message:
    """The reply with the tool call that its text holds, where it calls none itself."""
    if reply.asks or reply.refused:
        return reply
    names = {name_of(card) for card in tools}
    fields = next((_fields(card) for card in tools if name_of(card) == answer), frozenset())
    for found in json_objects(THINKING.sub("", reply.text)):
        name = found.get("tool") or (found.get("name") if found.get("name") in names else None)
        arguments = found.get("arguments", found.get("parameters"))
        if isinstance(name, str) and (name in names or isinstance(arguments, dict)):
            return reply.model_copy(update={"asks": (_text_request(name, arguments),)})
        if found.keys() <= fields and found:
            return reply.model_copy(update={"asks": (ToolRequest(id="", name=answer, arguments=found),)})
    return reply


def _text_request(name: str, arguments: object) -> ToolRequest:
    """Arguments as an object, or as OpenAI writes them, as text."""
    if isinstance(arguments, str):
        return _parse_arguments("", name, arguments)
    return ToolRequest(id="", name=name, arguments=arguments if isinstance(arguments, dict) else {})


def _fields(card: Card) -> frozenset[str]:
    return frozenset(card["function"].get("parameters", {}).get("properties", {}))


def json_objects(text: str) -> Iterator[dict[str, Any]]:
    """The outermost JSON objects in a text, in order; line breaks in strings are forgiven, `TRIES` braces are tried."""
    decoder, at = json.JSONDecoder(strict=False), 0
    for _ in range(TRIES):
        if (at := text.find("{", at)) < 0:
            return
        try:
            found, at = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            at += 1
            continue
        if isinstance(found, dict):
            yield found


def to_langchain(message: Message) -> AnyMessage:
    """For a provider's client."""
    match message.role:
        case "system":
            return SystemMessage(message.content)
        case "user":
            return HumanMessage(message.content)
        case "tool":
            return ToolMessage(message.content, tool_call_id=message.call, name=message.name)
    calls: list[Any] = [
        {
            "type": "tool_call",
            "id": a.id,
            "name": a.name,
            "args": langchain_arguments(a),
        }
        for a in message.asks
    ]
    return AIMessage(message.content or "", tool_calls=calls)


def langchain_arguments(asked: ToolRequest) -> dict[str, Any]:
    """Arguments as a tool gets them; those that it cannot get say so."""
    if asked.broken:
        return {BROKEN_ARGUMENTS: asked.broken}
    unknown = sorted(RESERVED & asked.arguments.keys())
    return {BROKEN_ARGUMENTS: f"no tool knows {', '.join(unknown)}"} if unknown else asked.arguments


def from_langchain(message: AnyMessage) -> Message:
    """What the agent's loop or a provider's client said."""
    match message:
        case SystemMessage():
            return Message(role="system", content=message.content)
        case ToolMessage():
            return Message(role="tool", content=message.content, call=message.tool_call_id, name=message.name or "")
        case AIMessage():
            return _reply(message)
    return Message(role="user", content=message.content)


def _reply(message: AIMessage) -> Message:
    told = message.response_metadata
    return Message(
        role="assistant",
        content=message.content,
        asks=_from_chunks(message) if isinstance(message, AIMessageChunk) else _tool_requests(message),
        ended=str(told.get("finish_reason") or told.get("stop_reason") or ""),
        refused=str(message.additional_kwargs.get("refusal") or ""),
    )


def _tool_requests(message: AIMessage) -> tuple[ToolRequest, ...]:
    good = [ToolRequest(id=c["id"] or "", name=c["name"], arguments=c["args"]) for c in message.tool_calls]
    bad = [_broken_request(c["id"], c["name"], c["args"]) for c in message.invalid_tool_calls]
    return (*good, *bad)


def _from_chunks(message: AIMessageChunk) -> tuple[ToolRequest, ...]:
    """From the letters that came: langchain would complete arguments that were cut off, and half a script is none."""
    return tuple(_parse_arguments(c["id"], c["name"], c["args"]) for c in message.tool_call_chunks) or _tool_requests(
        message
    )


def _parse_arguments(call: str | None, name: str | None, text: str | None) -> ToolRequest:
    try:
        arguments = json.loads(text or "{}", strict=False)
    except (ValueError, RecursionError):
        return _broken_request(call, name, text)
    if not isinstance(arguments, dict):
        return _broken_request(call, name, text)
    return ToolRequest(id=call or "", name=name or "unknown", arguments=arguments)


def _broken_request(call: str | None, name: str | None, text: str | None) -> ToolRequest:
    return ToolRequest(id=call or "", name=name or "unknown", broken=(text or "")[:2000] or "nothing")
