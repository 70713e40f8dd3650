"""Providers other than OpenAI: each client, as its package makes it, at a stand-in that speaks the provider's protocol."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from tuneloop.agents.chat.models import ChatRequest, check_models, make_client, send_request
from tuneloop.core.async_bridge import run_sync
from tuneloop.core.errors import InvalidRequestError
from tuneloop.core.settings import Settings
from tuneloop.core.transcript import Message

CALL = {"name": "data_look", "arguments": {"where": "near"}}
TOOL = {
    "name": "data_look",
    "description": "looks",
    "parameters": {"type": "object", "properties": {"where": {"type": "string"}}, "required": ["where"]},
}
KEY = "secret-of-the-provider"


@dataclass
class StandIn:
    """Where it listens, and what it was asked: path, headers, body."""

    address: str = ""
    asked: list[tuple[str, dict[str, str], dict[str, Any]]] = field(default_factory=list)
    status: int = 200


def events(*pieces: dict[str, Any], named: bool = False) -> str:
    """Server-sent events."""
    return "".join((f"event: {p['type']}\n" if named else "") + f"data: {json.dumps(p)}\n\n" for p in pieces)


def anthropic(path: str, body: dict[str, Any]) -> str:
    """Anthropic's Messages."""
    assert path == "/v1/messages"
    message = {"id": "m1", "type": "message", "role": "assistant", "model": body["model"], "stop_sequence": None}
    block = {"type": "tool_use", "id": "t1", "name": CALL["name"]}
    if not body.get("stream"):
        used = {"input_tokens": 11, "output_tokens": 5}
        content = [{**block, "input": CALL["arguments"]}]
        return json.dumps({**message, "content": content, "stop_reason": "tool_use", "usage": used})
    begun = {**message, "content": [], "stop_reason": None, "usage": {"input_tokens": 11, "output_tokens": 0}}
    delta = {"type": "input_json_delta", "partial_json": json.dumps(CALL["arguments"])}
    return events(
        {"type": "message_start", "message": begun},
        {"type": "content_block_start", "index": 0, "content_block": {**block, "input": {}}},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
        {
            "type": "message_delta",
            "delta": {"stop_reason": "tool_use"},
            "usage": {"input_tokens": 11, "output_tokens": 5},
        },
        {"type": "message_stop"},
        named=True,
    )


def gemini(path: str, body: dict[str, Any]) -> str:
    """Google's generateContent."""
    assert path.startswith("/v1beta/models/m:")
    part = {"functionCall": {"name": CALL["name"], "args": CALL["arguments"]}}
    reply = {
        "candidates": [{"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}],
        "usageMetadata": {"promptTokenCount": 11, "candidatesTokenCount": 5, "totalTokenCount": 16},
    }
    return events(reply) if "streamGenerateContent" in path else json.dumps(reply)


def ollama(path: str, body: dict[str, Any]) -> str:
    """Ollama's chat, a JSON object a line."""
    assert path == "/api/chat"
    message = {"role": "assistant", "content": "", "tool_calls": [{"function": CALL}]}
    about = {"model": body["model"], "created_at": "2026-01-01T00:00:00Z", "message": message}
    ended = {"done": True, "done_reason": "stop", "prompt_eval_count": 11, "eval_count": 5}
    return json.dumps({**about, **ended}) + "\n"


def azure(path: str, body: dict[str, Any]) -> str:
    """OpenAI's chat completions below a deployment."""
    assert path == "/openai/deployments/m/chat/completions?api-version=2024-10-21"
    function = {"name": CALL["name"], "arguments": json.dumps(CALL["arguments"])}
    call = {"index": 0, "id": "t1", "type": "function", "function": function}
    said = {"role": "assistant", "content": None, "tool_calls": [call]}
    about = {"id": "c1", "created": 1, "model": "m"}
    used = {"prompt_tokens": 11, "completion_tokens": 5, "total_tokens": 16}
    choice = {"index": 0, "finish_reason": "tool_calls"}
    if not body.get("stream"):
        whole = {**about, "object": "chat.completion", "choices": [{**choice, "message": said}], "usage": used}
        return json.dumps(whole)
    piece = {**about, "object": "chat.completion.chunk"}
    first, last = {**piece, "choices": [{**choice, "delta": said}]}, {**piece, "choices": [], "usage": used}
    return events(first, last) + "data: [DONE]\n\n"


PROTOCOLS = {"anthropic": anthropic, "gemini": gemini, "ollama": ollama, "azure": azure}


@pytest.fixture
def stand_in() -> Iterator[StandIn]:
    """All four providers at one address."""
    made = StandIn()

    class Handler(BaseHTTPRequestHandler):
        """Answers by path."""

        def log_message(self, *_: Any) -> None:
            """Nothing."""

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            made.asked.append((self.path, {k.lower(): v for k, v in self.headers.items()}, body))
            kinds = {"/v1/": "anthropic", "/v1beta/": "gemini", "/api/": "ollama", "/openai/": "azure"}
            protocol = PROTOCOLS[next(name for begin, name in kinds.items() if self.path.startswith(begin))]
            said = protocol(self.path, body) if made.status == 200 else json.dumps({"error": {"message": "busy"}})
            self.send_response(made.status)
            self.send_header(
                "content-type", "text/event-stream" if said.startswith(("data", "event")) else "application/json"
            )
            self.send_header("content-length", str(len(said.encode())))
            self.end_headers()
            self.wfile.write(said.encode())

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    made.address = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    yield made
    server.shutdown()
    thread.join()
    server.server_close()


def settings_of(provider: str, address: str, **more: str) -> Settings:
    """As a user would set them."""
    key = {} if provider == "ollama" else {f"{provider.upper()}_API_KEY": KEY}
    given: dict[str, Any] = {f"{provider.upper()}_API_BASE": address, "CHAT_MODEL": f"{provider}/m", **key, **more}
    return Settings(**given)


ASKED = (Message(role="system", content="You look."), Message(role="user", content="Where?"))


def ask(settings: Settings, stream: bool, messages: tuple[Message, ...] = ASKED) -> Any:
    """One request with one tool."""
    request = ChatRequest(messages, ({"type": "function", "function": TOOL},), "data_look", "tools", 20, stream, 1000)
    return run_sync(send_request(make_client(settings.chat_model or "", settings), request, lambda _: None))


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("provider", PROTOCOLS)
def test_a_provider_is_asked_with_its_key_and_calls_a_tool(stand_in: StandIn, provider: str, stream: bool) -> None:
    settings = settings_of(provider, stand_in.address, CHAT_TEMPERATURE="0.5")
    check_models(settings)
    reply, tokens = ask(settings, stream)
    assert [(a.name, a.arguments) for a in reply.asks] == [("data_look", {"where": "near"})]
    assert (tokens.into, tokens.out, tokens.estimated) == (11, 5, False)
    ((path, headers, body),) = stand_in.asked
    assert "data_look" in json.dumps(body) and "You look." in json.dumps(body)
    assert '"temperature": 0.5' in json.dumps(body)
    if provider != "ollama":
        assert KEY in " ".join(headers.values())
        assert KEY not in path
    result = Message(role="tool", content="found-it", call=reply.asks[0].id, name="data_look")
    ask(settings, stream, (*ASKED, reply, result))
    sent = json.dumps(stand_in.asked[1][2])
    assert "found-it" in sent and "near" in sent


@pytest.mark.parametrize("provider", PROTOCOLS)
def test_the_client_does_not_try_again_by_itself(stand_in: StandIn, provider: str) -> None:
    stand_in.status = 503
    with pytest.raises(Exception, match=r"503|busy"):
        ask(settings_of(provider, stand_in.address), stream=False)
    assert len(stand_in.asked) == 1


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("anthropic/m", "set ANTHROPIC_API_KEY"),
        ("gemini/m", "set GEMINI_API_KEY"),
        ("azure/m", "set AZURE_API_KEY"),
        ("groq/m", "groq .of langchain-groq. is not supported; right are openai, anthropic, gemini, azure, ollama"),
        ("mistral/m", "mistral .of langchain-mistralai. is not supported"),
        ("vertex_ai/m", "vertex_ai .of langchain-google-vertexai. is not supported"),
        ("mistralai:m", "mistralai .of langchain-mistralai. is not supported"),
    ],
)
def test_what_is_missing_is_one_line(name: str, said: str) -> None:
    with pytest.raises(InvalidRequestError, match=said) as caught:
        check_models(Settings(CHAT_MODEL=name))
    assert "\n" not in str(caught.value)
