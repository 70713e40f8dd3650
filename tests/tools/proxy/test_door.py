"""The real proxy between a client and a provider that behaves as told."""

from __future__ import annotations

import json
import resource
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import openai
import pytest

from tests.tools.proxy.conftest import CANARY, House, OpenHouse, Provider, error, piece, send, tree_holds
from tests.waiting import until
from tuneloop.tools.proxy import doors, upstream
from tuneloop.tools.proxy.access import Upstream
from tuneloop.tools.proxy.ledger import sums


def code(response: Any) -> str:
    found: str = response.json()["error"]["code"]
    return found


def test_an_answer_is_passed_on_and_booked(house: House, provider: Provider) -> None:
    found = house.ask("hello")
    assert found.json()["choices"][0]["message"]["content"] == "echo hello"
    assert provider.keys == [f"Bearer {CANARY}"]
    (entry,) = house.ledger
    assert (entry.outcome, entry.tokens_in, entry.tokens_out, entry.cost) == ("answered", 10, 5, 20e-6)
    assert (entry.job, entry.model, entry.estimated, entry.tries) == ("experiments-001-build_data", "strong", False, 1)


async def test_only_the_key_is_hidden_in_an_answer() -> None:
    """Where there is no key, an answer that names the endpoint's address stays as it is."""
    for key, shown in (("", b"see localhost:8000 and sk-secret"), ("sk-secret", b"see localhost:8000 and [hidden]")):
        provider = upstream.Provider(Upstream(base="http://localhost:8000/v1", key=key))
        assert provider.hide(b"see localhost:8000 and sk-secret") == shown
        await provider.close()


def test_every_endpoint(house: House) -> None:
    with house.client() as client:
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


def test_who_has_no_token_gets_nothing(house: House, provider: Provider) -> None:
    for token in ("", "x", CANARY, house.token + "x"):
        with house.client() as client:
            found = client.get(
                "/v1/models", headers={"Authorization": f"Bearer {token}"} if token else {"Authorization": ""}
            )
        assert (found.status_code, code(found)) == (401, "wrong_token")
    assert not provider.seen


def test_a_model_that_is_not_listed(house: House, provider: Provider) -> None:
    found = house.ask(model="gpt-5")
    assert (found.status_code, code(found), found.headers["x-should-retry"]) == (403, "model_not_allowed", "false")
    assert not provider.seen
    assert [(e.outcome, e.model, e.paid) for e in house.ledger] == [("refused", "", False)]


@pytest.mark.parametrize("limits", [{"requests": 3}, {"tokens": 100}, {"money": 85e-6}])
@pytest.mark.parametrize("whose", ["JOB", "RUN"])
def test_limits(open_house: OpenHouse, provider: Provider, whose: str, limits: dict[str, Any]) -> None:
    house = open_house(**{f"TUNELOOP_API_{whose}_LIMITS": limits})
    found = [house.ask(max_tokens=5) for _ in range(6)]
    spent = sums(house.ledger)
    assert [f.status_code for f in found].count(200) == len(provider.seen) == spent.requests >= 3
    used = {"requests": spent.requests, "tokens": spent.tokens_in + spent.tokens_out, "money": spent.cost or 0.0}
    ((name, limit),) = limits.items()
    assert used[name] <= limit
    assert (found[-1].status_code, code(found[-1])) == (403, "limit_reached")
    assert f"may use {limit:g} {name} in all" in found[-1].json()["error"]["message"]


def test_limits_go_on_after_a_kill(open_house: OpenHouse, provider: Provider) -> None:
    house = open_house(TUNELOOP_API_JOB_LIMITS={"requests": 3})
    assert [house.ask().status_code for _ in range(2)] == [200, 200]
    house.kill()
    house = open_house(TUNELOOP_API_JOB_LIMITS={"requests": 3})
    assert [house.ask().status_code for _ in range(2)] == [200, 403]
    assert len(provider.seen) == 3


def test_requests_under_way_are_counted(open_house: OpenHouse, provider: Provider) -> None:
    """A hundred at once cannot slip through a limit of ten."""
    house = open_house(TUNELOOP_API_JOB_LIMITS={"requests": 10}, FT_API_MAX_WORKERS=100)
    with ThreadPoolExecutor(30) as pool:
        found = list(pool.map(lambda i: house.ask(str(i)).status_code, range(100)))
    assert (found.count(200), found.count(403), len(provider.seen)) == (10, 90, 10)


def test_no_more_at_once_than_allowed(open_house: OpenHouse, provider: Provider) -> None:
    house = open_house(FT_API_MAX_WORKERS=3)

    def wait(*_: Any) -> bool:
        provider.waiting.release()
        provider.gate.wait(20)
        return False

    provider.next = [wait] * 20
    with ThreadPoolExecutor(20) as pool:
        asked = [pool.submit(house.ask, str(i)) for i in range(20)]
        for _ in range(3):
            assert provider.waiting.acquire(timeout=20)
        assert not provider.waiting.acquire(timeout=0.2)
        provider.gate.set()
        assert {f.result().status_code for f in asked} == {200}
    assert provider.most_at_once == 3


def test_what_is_repeatable_is_paid_once(house: House, provider: Provider) -> None:
    for _ in range(3):
        assert house.ask("a", temperature=0).json()["choices"][0]["message"]["content"] == "echo a"
        assert house.ask("a", seed=1, stream=True).text.endswith("data: [DONE]\n\n")
    assert len(provider.seen) == 2
    house.ask("b", temperature=0)
    house.ask("a", temperature=0, top_p=0.5)
    assert len(provider.seen) == 4
    assert [e.outcome for e in house.ledger].count("cached") == 4
    assert sum(e.cost or 0 for e in house.ledger if e.outcome == "cached") == 0
    house.ask("a")
    house.ask("a")
    assert len(provider.seen) == 6, "what is drawn at random is drawn again"


def test_a_numbered_sample_is_paid_once_and_another_number_is_another_drawing(house: House, provider: Provider) -> None:
    for sample in (0, 1, 0, 1):
        found = house.ask("draw", temperature=1, sample=sample)
        assert found.status_code == 200
    assert found.headers["x-tuneloop-kept"] == "true"
    assert [(one["temperature"], "sample" in one) for one in provider.seen] == [(1, False)] * 2
    assert [e.outcome for e in house.ledger] == ["answered", "answered", "cached", "cached"]


def test_what_is_used_is_told(open_house: OpenHouse) -> None:
    house = open_house(TUNELOOP_API_JOB_LIMITS={"requests": 7}, TUNELOOP_API_RUN_LIMITS={"money": 1})
    house.ask()
    with house.client() as client:
        told = client.get("/v1/allowance").json()
    assert told["job"]["requests"] == {"used": 1, "limit": 7}
    assert told["job"]["tokens"] == {"used": 15, "limit": None}
    assert told["run"]["money"] == {"used": 20e-6, "limit": 1}


def test_the_same_at_once_is_paid_once(house: House, provider: Provider) -> None:
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: house.ask("same", temperature=0).text, range(24)))
    assert (len(set(found)), len(provider.seen)) == (1, 1)


def test_a_broken_or_missing_cache_is_no_trouble(open_house: OpenHouse, provider: Provider) -> None:
    house = open_house()
    house.ask("a", temperature=0)
    (file,) = (house.settings.home.cache / "answers").glob("*/*.json")
    file.write_text(file.read_text().replace("echo", "evil"))
    assert "echo a" in house.ask("a", temperature=0).text
    assert len(provider.seen) == 2
    house.kill()
    off = open_house(FT_DOCKER_ENABLE_CACHE=False)
    for _ in range(2):
        off.ask("a", temperature=0)
    assert len(provider.seen) == 3, "nothing of other runs is read, what this run has paid for is"


def test_a_stream_without_usage_for_who_did_not_ask(house: House) -> None:
    plain = house.ask(stream=True)
    assert plain.headers["content-type"].startswith("text/event-stream")
    assert plain.text.count("data: {") == 5
    assert "usage" not in plain.text
    told = house.ask(stream=True, stream_options={"include_usage": True})
    assert '"prompt_tokens": 10' in told.text
    assert [(e.tokens_out, e.estimated, e.stream) for e in house.ledger] == [(5, False, True)] * 2


def test_a_stream_that_nobody_counts_is_estimated(house: House, provider: Provider) -> None:
    def uncounted(h: Any, asked: dict[str, Any]) -> bool:
        asked.pop("stream_options")
        return False

    provider.next = [uncounted]
    house.ask(stream=True)
    assert [(e.tokens_out, e.estimated) for e in house.ledger] == [(5, True)]


def test_a_stream_is_cut_where_the_limit_is(open_house: OpenHouse, provider: Provider) -> None:
    house = open_house(TUNELOOP_API_JOB_LIMITS={"tokens": 200})
    provider.pieces = 5000
    found = house.ask(stream=True, max_tokens=10)
    assert found.text.count('"content"') < 300
    assert '"limit_reached"' in found.text
    assert "[DONE]" not in found.text
    assert [(e.outcome, e.code) for e in house.ledger] == [("cut", "limit_reached")]
    assert house.ask(max_tokens=10).status_code == 403


def test_a_stream_that_breaks_off_says_so(house: House, provider: Provider) -> None:
    def broken(h: Any, asked: dict[str, Any]) -> bool:
        h.send_response(200)
        h.send_header("Connection", "close")
        h.end_headers()
        piece(h, {"choices": [{"delta": {"content": "half"}}]})
        h.close_connection = True
        return True

    provider.next = [broken] * 2
    found = house.ask(stream=True, temperature=0)
    assert "half" in found.text
    assert "broke off" in found.text
    with (
        house.client() as client,
        client.stream("POST", "/v1/chat/completions", json={"model": "weak", "stream": True}) as r,
    ):
        next(r.iter_raw())
    assert "half" not in house.ask(stream=True, temperature=0).text, "half an answer is not kept"


def test_a_client_that_leaves_is_booked(house: House, provider: Provider) -> None:
    provider.pieces = 200_000
    with (
        house.client() as client,
        client.stream("POST", "/v1/chat/completions", json={"model": "weak", "stream": True}) as r,
    ):
        next(r.iter_raw())
    entry = until(lambda: next(iter(house.ledger), None))
    assert (entry.outcome, entry.code, entry.estimated) == ("cut", "client_left", True)
    assert entry.tokens_out > 0


def test_the_provider_is_asked_again_when_that_helps(house: House, provider: Provider) -> None:
    provider.next = [error(429, Retry_After="1"), error(503), error(500)]
    began = time.monotonic()
    assert house.ask().status_code == 200
    assert time.monotonic() - began >= 1, "Retry-After is heeded"
    assert [(e.tries, e.outcome) for e in house.ledger] == [(4, "answered")]


def test_who_wants_rest_has_it_from_everybody(house: House, provider: Provider) -> None:
    """One is told to wait; another who asks the same model waits with him, who asks another model does not."""
    came: dict[str, float] = {}

    def busy(h: Any, asked: dict[str, Any]) -> bool:
        came["told"] = time.monotonic()
        provider.waiting.release()
        return error(429, Retry_After="2")(h, asked)

    def note(_: Any, asked: dict[str, Any]) -> bool:
        came.setdefault(asked["messages"][0]["content"], time.monotonic())
        return False

    provider.next = [busy, *[note] * 3]
    with ThreadPoolExecutor(3) as pool:
        first = pool.submit(house.ask, "first")
        assert provider.waiting.acquire(timeout=20)
        until(lambda: provider.at_once == 0)
        time.sleep(0.2)  # until the refusal has been read; no other sign of it is outside
        others = [pool.submit(house.ask, "second"), pool.submit(house.ask, "third", "weak")]
        assert [one.result().status_code for one in (first, *others)] == [200] * 3
    assert came["second"] - came["told"] >= 2
    assert came["third"] < came["second"]


@pytest.mark.parametrize(
    ("status", "passed", "its_code"), [(400, 400, "boom"), (401, 502, "upstream_refused_key"), (404, 404, "boom")]
)
def test_errors_are_passed_on_without_key_and_address(
    house: House, provider: Provider, status: int, passed: int, its_code: str
) -> None:
    host = provider.url.split("/")[2]
    provider.next = [error(status, f"no {CANARY} at {host}, {provider.url} " + "x" * 5000)]
    found = house.ask()
    assert (found.status_code, code(found)) == (passed, its_code)
    assert CANARY not in found.text
    assert host not in found.text
    assert len(found.text) < 1000
    assert len(provider.seen) == 1
    assert [(e.outcome, e.tokens_in, e.cost) for e in house.ledger] == [("failed", 0, 0.0)]


def test_an_empty_purse_is_not_asked_again(house: House, provider: Provider) -> None:
    provider.next = [error(429, "You exceeded your current quota", "insufficient_quota")]
    found = house.ask()
    assert (found.status_code, code(found), len(provider.seen)) == (429, "insufficient_quota", 1)


@pytest.mark.parametrize("garbage", [b"<html>no</html>", b"", b"[[[[", b"\xff\xfe"])
def test_a_provider_that_answers_nonsense(house: House, provider: Provider, garbage: bytes) -> None:
    provider.next = [lambda h, _: send(h, 200, garbage), lambda h, _: send(h, 400, garbage)]
    assert (house.ask().status_code, house.ask().status_code) == (502, 400)
    assert [e.outcome for e in house.ledger] == ["failed", "failed"]
    assert house.ask().status_code == 200


@pytest.mark.slow
def test_a_provider_that_is_not_there(open_house: OpenHouse) -> None:
    house = open_house(OPENAI_API_BASE="http://127.0.0.1:9/v1")
    found = house.ask()
    assert (found.status_code, code(found)) == (502, "upstream_unreachable")
    assert "127.0.0.1" not in found.text


@pytest.mark.slow
def test_a_provider_that_hangs_up_was_perhaps_heard(house: House, provider: Provider) -> None:
    def hang_up(h: Any, _: dict[str, Any]) -> bool:
        h.close_connection = True
        return True

    provider.next = [hang_up] * 5
    found = house.ask(max_tokens=7)
    assert (found.status_code, code(found)) == (502, "upstream_broken")
    (entry,) = house.ledger
    assert (entry.tries, entry.tokens_out, entry.estimated) == (5, 7, True), "it may have cost"


def test_a_provider_that_echoes_the_key(house: House, provider: Provider) -> None:
    def echo(h: Any, asked: dict[str, Any]) -> bool:
        message = {"role": "assistant", "content": f"your key is {h.headers['Authorization']}"}
        if asked.get("stream"):
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
        found = house.ask(stream=stream, temperature=0)
        assert "your key is Bearer [hidden]" in found.text
        assert CANARY not in found.text + str(found.headers)
    assert tree_holds(house.settings.home.root, CANARY) == []


def test_a_real_client(house: House) -> None:
    with house.client() as http:
        client = openai.OpenAI(api_key=house.token, base_url="http://proxy/v1", http_client=http)
        made = client.chat.completions.create(model="strong", messages=[{"role": "user", "content": "hi"}])
        assert made.choices[0].message.content == "echo hi"
        pieces = client.chat.completions.create(model="weak", messages=[{"role": "user", "content": "hi"}], stream=True)
        assert "".join(p.choices[0].delta.content or "" for p in pieces) == "w0 w1 w2 w3 w4 "
        with pytest.raises(openai.PermissionDeniedError, match="right is one of strong, weak"):
            client.chat.completions.create(model="gpt-5", messages=[])


def test_a_full_ledger_asks_nobody(house: House, provider: Provider) -> None:
    """The proxy cannot write a byte more: nothing leaves that cannot be booked."""
    house.ask("before")
    resource.prlimit(house.pid, resource.RLIMIT_FSIZE, (0, 0))
    found = house.ask("after")
    assert (found.status_code, code(found)) == (503, "no_room")
    assert len(provider.seen) == 1


def test_many_doors_share_the_limit_of_the_run(open_house: OpenHouse, provider: Provider) -> None:
    house = open_house(TUNELOOP_API_RUN_LIMITS={"requests": 2})
    plate = json.loads((house.folder / "door.json").read_text())
    other = house.folder.with_name("other")
    token = doors.open_door(
        house.run, house.settings, other, {"jobs": plate["jobs"], "name": "other", "access": plate["access"]}
    )
    beside = House(house.run, house.settings, house.jobs, other, token)
    assert [house.ask().status_code, beside.ask().status_code, house.ask().status_code] == [200, 200, 403]
    assert token != house.token
    assert House(house.run, house.settings, house.jobs, other, house.token).ask().status_code == 401, "to each his own"
