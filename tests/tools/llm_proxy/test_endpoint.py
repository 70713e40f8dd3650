"""The real proxy between a client and a provider with the behaviour that a test sets."""

from __future__ import annotations

import resource
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import openai
import pytest

from tests.tools.llm_proxy.conftest import (
    CANARY,
    JobEndpoint,
    MakeEndpoint,
    Provider,
    access_of,
    error,
    piece,
    send,
    tree_holds,
)
from tests.waiting import until
from tuneloop.tools.llm_proxy import launcher, upstream
from tuneloop.tools.llm_proxy.access import Upstream
from tuneloop.tools.llm_proxy.ledger import sums


def code(response: Any) -> str:
    found: str = response.json()["error"]["code"]
    return found


def test_answer_is_relayed_and_booked(endpoint: JobEndpoint, provider: Provider) -> None:
    found = endpoint.ask("hello")
    assert found.json()["choices"][0]["message"]["content"] == "echo hello"
    assert provider.keys == [f"Bearer {CANARY}"]
    (entry,) = endpoint.ledger
    assert (entry.outcome, entry.tokens_in, entry.tokens_out, entry.cost) == ("answered", 10, 5, 20e-6)
    assert (entry.job, entry.model, entry.estimated, entry.tries) == ("experiments-001-build_data", "strong", False, 1)


async def test_answers_hide_the_key_only() -> None:
    """Where there is no key, an answer that names the endpoint's address stays as it is."""
    for key, shown in (("", b"see localhost:8000 and sk-secret"), ("sk-secret", b"see localhost:8000 and [hidden]")):
        provider = upstream.Provider(Upstream(base="http://localhost:8000/v1", key=key))
        assert provider.hide(b"see localhost:8000 and sk-secret") == shown
        await provider.close()


def test_every_route(endpoint: JobEndpoint) -> None:
    with endpoint.client() as client:
        listed = [model["id"] for model in client.get("/v1/models").json()["data"]]
        assert listed == ["strong", "weak"]
        assert client.post("/v1/embeddings", json={"model": "weak", "input": "x"}).json()["data"][0]["embedding"] == [
            0.5
        ]
        assert (
            client.post("/v1/completions", json={"model": "weak", "prompt": "x"}).json()["choices"][0]["text"] == "echo"
        )
        assert client.get("/v1/chat/completions").status_code == 405
        assert client.get("/v1/files").status_code == 405
        assert client.head("/v1/models").status_code == 200


def test_an_error_in_the_form_of_an_answer_is_one_and_is_not_kept(endpoint: JobEndpoint, provider: Provider) -> None:
    odd = ({"error": {"code": 502, "message": "Provider returned error"}}, {"id": "x"}, ["no answer"])
    for body in odd:
        provider.next.append(partial(lambda body, h, _: send(h, 200, body), body))
        found = endpoint.ask("hello", temperature=0)
        assert (found.status_code, code(found)) == (502, "upstream_error"), body
    assert endpoint.ask("hello", temperature=0).json()["choices"][0]["message"]["content"] == "echo hello"


@pytest.mark.parametrize(
    ("usage", "booked"),
    [
        ({"input_tokens": 70, "output_tokens": 30}, (70, 30, False)),
        ({"prompt_tokens": 70}, (70, 0, False)),
        ({"total_tokens": 100}, None),
        ({"prompt_tokens": None, "completion_tokens": 5}, None),
    ],
)
def test_tokens_are_read_under_either_name_and_estimated_without(
    endpoint: JobEndpoint, provider: Provider, usage: dict[str, Any], booked: tuple[int, int, bool] | None
) -> None:
    body = {"choices": [{"message": {"content": "word " * 40}}], "usage": usage}
    provider.next.append(lambda h, _: send(h, 200, body))
    assert endpoint.ask("hello").status_code == 200
    (entry,) = endpoint.ledger
    if booked:
        assert (entry.tokens_in, entry.tokens_out, entry.estimated) == booked
    else:
        assert entry.estimated and entry.tokens_out == 50


def test_wrong_token(endpoint: JobEndpoint, provider: Provider) -> None:
    for token in ("", "x", CANARY, endpoint.token + "x"):
        with endpoint.client() as client:
            found = client.get(
                "/v1/models", headers={"Authorization": f"Bearer {token}"} if token else {"Authorization": ""}
            )
        assert (found.status_code, code(found)) == (401, "wrong_token")
    assert not provider.seen


def test_model_not_allowed(endpoint: JobEndpoint, provider: Provider) -> None:
    found = endpoint.ask(model="gpt-5")
    assert (found.status_code, code(found), found.headers["x-should-retry"]) == (403, "model_not_allowed", "false")
    assert not provider.seen
    assert [(e.outcome, e.model, e.paid) for e in endpoint.ledger] == [("refused", "", False)]


@pytest.mark.parametrize("limits", [{"requests": 3}, {"tokens": 100}, {"money": 85e-6}])
@pytest.mark.parametrize("whose", ["JOB", "RUN"])
def test_limits(make_endpoint: MakeEndpoint, provider: Provider, whose: str, limits: dict[str, Any]) -> None:
    endpoint = make_endpoint(**{f"TUNELOOP_API_{whose}_LIMITS": limits})
    found = [endpoint.ask(max_tokens=5) for _ in range(6)]
    spent = sums(endpoint.ledger)
    assert [f.status_code for f in found].count(200) == len(provider.seen) == spent.requests >= 3
    used = {"requests": spent.requests, "tokens": spent.tokens_in + spent.tokens_out, "money": spent.cost or 0.0}
    ((name, limit),) = limits.items()
    assert used[name] <= limit
    assert (found[-1].status_code, code(found[-1])) == (403, "limit_reached")
    assert f"may use {limit:g} {name} in all" in found[-1].json()["error"]["message"]


def test_limits_survive_a_kill(make_endpoint: MakeEndpoint, provider: Provider) -> None:
    endpoint = make_endpoint(TUNELOOP_API_JOB_LIMITS={"requests": 3})
    assert [endpoint.ask().status_code for _ in range(2)] == [200, 200]
    endpoint.kill()
    endpoint = make_endpoint(TUNELOOP_API_JOB_LIMITS={"requests": 3})
    assert [endpoint.ask().status_code for _ in range(2)] == [200, 403]
    assert len(provider.seen) == 3


def test_limits_count_reservations(make_endpoint: MakeEndpoint, provider: Provider) -> None:
    """A hundred at once cannot slip through a limit of ten."""
    endpoint = make_endpoint(TUNELOOP_API_JOB_LIMITS={"requests": 10}, FT_API_MAX_WORKERS=100)
    with ThreadPoolExecutor(30) as pool:
        found = list(pool.map(lambda i: endpoint.ask(str(i)).status_code, range(100)))
    assert (found.count(200), found.count(403), len(provider.seen)) == (10, 90, 10)


def test_max_workers(make_endpoint: MakeEndpoint, provider: Provider) -> None:
    endpoint = make_endpoint(FT_API_MAX_WORKERS=3)

    def wait(*_: Any) -> bool:
        provider.waiting.release()
        provider.gate.wait(20)
        return False

    provider.next = [wait] * 20
    with ThreadPoolExecutor(20) as pool:
        pending = [pool.submit(endpoint.ask, str(i)) for i in range(20)]
        for _ in range(3):
            assert provider.waiting.acquire(timeout=20)
        assert not provider.waiting.acquire(timeout=0.2)
        provider.gate.set()
        assert {f.result().status_code for f in pending} == {200}
    assert provider.most_at_once == 3


def test_repeatable_requests_are_cached(endpoint: JobEndpoint, provider: Provider) -> None:
    for _ in range(3):
        assert endpoint.ask("a", temperature=0).json()["choices"][0]["message"]["content"] == "echo a"
        assert endpoint.ask("a", seed=1, stream=True).text.endswith("data: [DONE]\n\n")
    assert len(provider.seen) == 2
    endpoint.ask("b", temperature=0)
    endpoint.ask("a", temperature=0, top_p=0.5)
    assert len(provider.seen) == 4
    assert [e.outcome for e in endpoint.ledger].count("cached") == 4
    assert sum(e.cost or 0 for e in endpoint.ledger if e.outcome == "cached") == 0
    endpoint.ask("a")
    endpoint.ask("a")
    assert len(provider.seen) == 6, "what is drawn at random is drawn again"


def test_numbered_samples_are_cached(endpoint: JobEndpoint, provider: Provider) -> None:
    for sample in (0, 1, 0, 1):
        found = endpoint.ask("draw", temperature=1, sample=sample)
        assert found.status_code == 200
    assert found.headers["x-tuneloop-kept"] == "true"
    assert [(one["temperature"], "sample" in one) for one in provider.seen] == [(1, False)] * 2
    assert [e.outcome for e in endpoint.ledger] == ["answered", "answered", "cached", "cached"]


def test_allowance_route(make_endpoint: MakeEndpoint) -> None:
    endpoint = make_endpoint(TUNELOOP_API_JOB_LIMITS={"requests": 7}, TUNELOOP_API_RUN_LIMITS={"money": 1})
    endpoint.ask()
    with endpoint.client() as client:
        allowance = client.get("/v1/allowance").json()
    assert allowance["job"]["requests"] == {"used": 1, "limit": 7}
    assert allowance["job"]["tokens"] == {"used": 15, "limit": None}
    assert allowance["run"]["money"] == {"used": 20e-6, "limit": 1}


def test_equal_concurrent_requests_are_paid_once(endpoint: JobEndpoint, provider: Provider) -> None:
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: endpoint.ask("same", temperature=0).text, range(24)))
    assert (len(set(found)), len(provider.seen)) == (1, 1)


def test_broken_or_disabled_cache(make_endpoint: MakeEndpoint, provider: Provider) -> None:
    endpoint = make_endpoint()
    endpoint.ask("a", temperature=0)
    (file,) = (endpoint.settings.home.cache / "answers").glob("*/*.json")
    file.write_text(file.read_text().replace("echo", "evil"))
    assert "echo a" in endpoint.ask("a", temperature=0).text
    assert len(provider.seen) == 2
    endpoint.kill()
    off = make_endpoint(FT_DOCKER_ENABLE_CACHE=False)
    for _ in range(2):
        off.ask("a", temperature=0)
    assert len(provider.seen) == 3, "nothing of other runs is read, what this run has paid for is"


def test_stream_usage_only_on_request(endpoint: JobEndpoint) -> None:
    plain = endpoint.ask(stream=True)
    assert plain.headers["content-type"].startswith("text/event-stream")
    assert plain.text.count("data: {") == 5
    assert "usage" not in plain.text
    with_usage = endpoint.ask(stream=True, stream_options={"include_usage": True})
    assert '"prompt_tokens": 10' in with_usage.text
    assert [(e.tokens_out, e.estimated, e.stream) for e in endpoint.ledger] == [(5, False, True)] * 2


def test_stream_without_usage_is_estimated(endpoint: JobEndpoint, provider: Provider) -> None:
    def uncounted(h: Any, request: dict[str, Any]) -> bool:
        request.pop("stream_options")
        return False

    provider.next = [uncounted]
    endpoint.ask(stream=True)
    assert [(e.tokens_out, e.estimated) for e in endpoint.ledger] == [(5, True)]


def test_stream_is_cut_at_the_limit(make_endpoint: MakeEndpoint, provider: Provider) -> None:
    endpoint = make_endpoint(TUNELOOP_API_JOB_LIMITS={"tokens": 200})
    provider.pieces = 5000
    found = endpoint.ask(stream=True, max_tokens=10)
    assert found.text.count('"content"') < 300
    assert '"limit_reached"' in found.text
    assert "[DONE]" not in found.text
    assert [(e.outcome, e.code) for e in endpoint.ledger] == [("cut", "limit_reached")]
    assert endpoint.ask(max_tokens=10).status_code == 403


def test_broken_stream_reports_an_error(endpoint: JobEndpoint, provider: Provider) -> None:
    def broken(h: Any, request: dict[str, Any]) -> bool:
        h.send_response(200)
        h.send_header("Connection", "close")
        h.end_headers()
        piece(h, {"choices": [{"delta": {"content": "half"}}]})
        h.close_connection = True
        return True

    provider.next = [broken] * 2
    found = endpoint.ask(stream=True, temperature=0)
    assert "half" in found.text
    assert "broke off" in found.text
    with (
        endpoint.client() as client,
        client.stream("POST", "/v1/chat/completions", json={"model": "weak", "stream": True}) as r,
    ):
        next(r.iter_raw())
    assert "half" not in endpoint.ask(stream=True, temperature=0).text, "half an answer is not kept"


def test_client_disconnect_is_booked(endpoint: JobEndpoint, provider: Provider) -> None:
    provider.pieces = 200_000
    with (
        endpoint.client() as client,
        client.stream("POST", "/v1/chat/completions", json={"model": "weak", "stream": True}) as r,
    ):
        next(r.iter_raw())
    entry = until(lambda: next(iter(endpoint.ledger), None))
    assert (entry.outcome, entry.code, entry.estimated) == ("cut", "client_left", True)
    assert entry.tokens_out > 0


def test_provider_errors_are_retried(endpoint: JobEndpoint, provider: Provider) -> None:
    provider.next = [error(429, Retry_After="1"), error(503), error(500)]
    began = time.monotonic()
    assert endpoint.ask().status_code == 200
    assert time.monotonic() - began >= 1, "Retry-After is heeded"
    assert [(e.tries, e.outcome) for e in endpoint.ledger] == [(4, "answered")]


def test_rate_limit_holds_for_all_requests_of_a_model(endpoint: JobEndpoint, provider: Provider) -> None:
    """A 429 delays other requests for the same model, and none for another model."""
    came: dict[str, float] = {}

    def busy(h: Any, request: dict[str, Any]) -> bool:
        came["refused"] = time.monotonic()
        provider.waiting.release()
        return error(429, Retry_After="2")(h, request)

    def note(_: Any, request: dict[str, Any]) -> bool:
        came.setdefault(request["messages"][0]["content"], time.monotonic())
        return False

    provider.next = [busy, *[note] * 3]
    with ThreadPoolExecutor(3) as pool:
        first = pool.submit(endpoint.ask, "first")
        assert provider.waiting.acquire(timeout=20)
        until(lambda: provider.at_once == 0)
        time.sleep(0.2)  # until the refusal has been read; no other sign of it is outside
        others = [pool.submit(endpoint.ask, "second"), pool.submit(endpoint.ask, "third", "weak")]
        assert [one.result().status_code for one in (first, *others)] == [200] * 3
    assert came["second"] - came["refused"] >= 2
    assert came["third"] < came["second"]


@pytest.mark.parametrize(
    ("status", "passed", "its_code"), [(400, 400, "boom"), (401, 502, "upstream_refused_key"), (404, 404, "boom")]
)
def test_errors_hide_key_and_address(
    endpoint: JobEndpoint, provider: Provider, status: int, passed: int, its_code: str
) -> None:
    host = provider.url.split("/")[2]
    provider.next = [error(status, f"no {CANARY} at {host}, {provider.url} " + "x" * 5000)]
    found = endpoint.ask()
    assert (found.status_code, code(found)) == (passed, its_code)
    assert CANARY not in found.text
    assert host not in found.text
    assert len(found.text) < 1000
    assert len(provider.seen) == 1
    assert [(e.outcome, e.tokens_in, e.cost) for e in endpoint.ledger] == [("failed", 0, 0.0)]


def test_insufficient_quota_is_not_retried(endpoint: JobEndpoint, provider: Provider) -> None:
    provider.next = [error(429, "You exceeded your current quota", "insufficient_quota")]
    found = endpoint.ask()
    assert (found.status_code, code(found), len(provider.seen)) == (429, "insufficient_quota", 1)


@pytest.mark.parametrize("garbage", [b"<html>no</html>", b"", b"[[[[", b"\xff\xfe"])
def test_invalid_provider_answers(endpoint: JobEndpoint, provider: Provider, garbage: bytes) -> None:
    provider.next = [lambda h, _: send(h, 200, garbage), lambda h, _: send(h, 400, garbage)]
    assert (endpoint.ask().status_code, endpoint.ask().status_code) == (502, 400)
    assert [e.outcome for e in endpoint.ledger] == ["failed", "failed"]
    assert endpoint.ask().status_code == 200


@pytest.mark.slow
def test_unreachable_provider(make_endpoint: MakeEndpoint) -> None:
    endpoint = make_endpoint(OPENAI_API_BASE="http://127.0.0.1:9/v1")
    found = endpoint.ask()
    assert (found.status_code, code(found)) == (502, "upstream_unreachable")
    assert "127.0.0.1" not in found.text


@pytest.mark.slow
def test_provider_disconnect_may_have_cost(endpoint: JobEndpoint, provider: Provider) -> None:
    def hang_up(h: Any, _: dict[str, Any]) -> bool:
        h.close_connection = True
        return True

    provider.next = [hang_up] * 5
    found = endpoint.ask(max_tokens=7)
    assert (found.status_code, code(found)) == (502, "upstream_broken")
    (entry,) = endpoint.ledger
    assert (entry.tries, entry.tokens_out, entry.estimated) == (5, 7, True), "it may have cost"


def test_echoed_key_is_hidden(endpoint: JobEndpoint, provider: Provider) -> None:
    def echo(h: Any, request: dict[str, Any]) -> bool:
        message = {"role": "assistant", "content": f"your key is {h.headers['Authorization']}"}
        if request.get("stream"):
            h.send_response(200)
            h.send_header("Connection", "close")
            h.end_headers()
            piece(h, {"choices": [{"delta": message}]})
            h.wfile.write(b"data: [DONE]\n\n")
            h.close_connection = True
            return True
        return send(h, 200, {"choices": [{"message": message}]}, X_Key=CANARY)

    provider.next = [echo, echo]
    for stream in (False, True):
        found = endpoint.ask(stream=stream, temperature=0)
        assert "your key is Bearer [hidden]" in found.text
        assert CANARY not in found.text + str(found.headers)
    assert tree_holds(endpoint.settings.home.root, CANARY) == []


def test_openai_client(endpoint: JobEndpoint) -> None:
    with endpoint.client() as http:
        client = openai.OpenAI(api_key=endpoint.token, base_url="http://proxy/v1", http_client=http)
        made = client.chat.completions.create(model="strong", messages=[{"role": "user", "content": "hi"}])
        assert made.choices[0].message.content == "echo hi"
        pieces = client.chat.completions.create(model="weak", messages=[{"role": "user", "content": "hi"}], stream=True)
        assert "".join(p.choices[0].delta.content or "" for p in pieces) == "w0 w1 w2 w3 w4 "
        with pytest.raises(openai.PermissionDeniedError, match="right is one of strong, weak"):
            client.chat.completions.create(model="gpt-5", messages=[])


def test_full_disk_stops_requests(endpoint: JobEndpoint, provider: Provider) -> None:
    """The proxy cannot write a byte more: nothing leaves that cannot be booked."""
    endpoint.ask("before")
    resource.prlimit(endpoint.pid, resource.RLIMIT_FSIZE, (0, 0))
    found = endpoint.ask("after")
    assert (found.status_code, code(found)) == (503, "no_room")
    assert len(provider.seen) == 1


def test_endpoints_share_the_run_limit(make_endpoint: MakeEndpoint, provider: Provider) -> None:
    endpoint = make_endpoint(TUNELOOP_API_RUN_LIMITS={"requests": 2})
    run, settings, jobs, folder = endpoint.run, endpoint.settings, endpoint.jobs, endpoint.folder.with_name("other")
    access = access_of(settings)
    token = launcher.open_endpoint(run, settings, folder, jobs=jobs, name="other", access=access)
    other = JobEndpoint(run, settings, jobs, folder, token)
    assert [endpoint.ask().status_code, other.ask().status_code, endpoint.ask().status_code] == [200, 200, 403]
    assert token != endpoint.token
    assert JobEndpoint(run, settings, jobs, folder, endpoint.token).ask().status_code == 401, "a token of another job"
