"""A job's endpoint inside the proxy: checks token, models and quotas, and answers each request."""

from __future__ import annotations

import asyncio
import hmac
import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

from tuneloop.tools.llm_proxy.access import EndpointConfig
from tuneloop.tools.llm_proxy.answer_cache import Answer, AnswerCache, cache_key
from tuneloop.tools.llm_proxy.backpressure import Backpressure
from tuneloop.tools.llm_proxy.errors import ApiError
from tuneloop.tools.llm_proxy.http import ClientDisconnectError, Exchange, Request
from tuneloop.tools.llm_proxy.ledger import Entry, Ledger, experiment_of, new_id, now, read_ledger
from tuneloop.tools.llm_proxy.model_request import ModelRequest, parse_model_request
from tuneloop.tools.llm_proxy.quota import Amount, Quota, amount_of
from tuneloop.tools.llm_proxy.relay import Reservation, Store, discard, relay_stream, relay_whole
from tuneloop.tools.llm_proxy.sse import TokenUsage
from tuneloop.tools.llm_proxy.upstream import Provider, UpstreamError

MODELS, ALLOWANCE = "/v1/models", "/v1/allowance"
MAX_REQUEST_BYTES = 32 << 20  # of one job's requests in memory
MAX_REFUSALS = 1000  # of one job in the ledger: an endless loop must not fill the disk
KEPT = [("x-tuneloop-kept", "true")]  # the answer was paid for before
INTERNAL_ERROR = ApiError(500, "internal", "the model proxy failed; its log has the place", 1)


class Endpoint:
    """The endpoint of one job; `provider` opens the provider on first use."""

    def __init__(
        self,
        name: str,
        config: EndpointConfig,
        run: Quota,
        ledger: Ledger,
        cache: AnswerCache,
        provider: Callable[[], Provider],
    ) -> None:
        self.name, self.token, self.access = name, config.token, config.access
        self.job = Quota("this job", config.access.job)
        for entry in read_ledger(ledger.path):
            self.job.used += amount_of(entry) if entry.job == name else Amount()
        self.last_request = time.time()
        self._run, self._ledger, self._cache, self._provider = run, ledger, cache, provider
        self._workers, self._backpressure = asyncio.Semaphore(config.access.workers), Backpressure(MAX_REQUEST_BYTES)
        self._refusals = 0

    async def serve(self, exchange: Exchange) -> None:
        """Answer one request; a client that leaves is no error."""
        self.last_request = time.time()
        try:
            async with self._backpressure.share() as acquire:
                await self._answer(exchange, await exchange.read(acquire))
        except ClientDisconnectError:
            pass
        except ApiError as e:
            await exchange.respond_error(e)
        except Exception as e:  # noqa: BLE001 - uvicorn would log the message, which may quote a request
            asyncio.get_running_loop().call_exception_handler({"message": "request failed", "exception": e})
            await exchange.respond_error(INTERNAL_ERROR)
        finally:
            exchange.close()

    async def _answer(self, exchange: Exchange, http_request: Request) -> None:
        """Answer an HTTP request. Raises ApiError or ClientDisconnectError."""
        if not hmac.compare_digest(http_request.token.encode(), self.token.encode()):
            raise ApiError(401, "wrong_token", "the token is not this job's; right is what OPENAI_API_KEY holds")
        if http_request.path == MODELS and http_request.method in ("GET", "HEAD"):
            return await exchange.respond(200, self._models())
        if http_request.path == ALLOWANCE and http_request.method == "GET":
            quotas = {"job": self.job.as_json(), "run": self._run.as_json()}
            return await exchange.respond(200, json.dumps(quotas).encode())
        if http_request.method != "POST":
            raise ApiError(405, "wrong_method", f"right is POST, or GET {MODELS} or {ALLOWANCE}")
        try:
            request = parse_model_request(http_request.path, http_request.body, self.access.models)
        except ApiError as e:
            self._book_refusal(e)
            raise
        if not request.repeatable:
            return await self._ask(exchange, request, discard)
        key = cache_key(self._provider().base, request)
        async with self._cache.lock(key):
            cached = await self._cache.read(key)
            if cached is None:
                return await self._ask(exchange, request, partial(self._cache.write, key))
        return await self._answer_from_cache(exchange, request, cached)

    async def _ask(self, exchange: Exchange, request: ModelRequest, store: Store) -> None:
        """Ask the provider; the client gets the end of the answer after it is cached and booked."""
        async with self._workers:
            if exchange.disconnected:
                raise ClientDisconnectError
            with self._reserve(request) as reservation:
                try:
                    async with self._provider().reply(request) as reply:
                        reservation.settle("killed", 0, tries=reply.tries)
                        if request.stream:
                            end = await relay_stream(exchange, request, reply, reservation, store, self._check_excess)
                        else:
                            end = await relay_whole(request, reply, reservation, store)
                except UpstreamError as e:
                    if not e.may_have_cost:
                        reservation.use(0, 0, reported=True)
                    reservation.settle("failed", e.error.status, tries=e.tries, code=e.error.code)
                    raise e.error from e
                except ApiError as e:
                    reservation.settle("failed", e.status, code=e.code)
                    raise
        return await (exchange.end(end) if request.stream else exchange.respond(200, end))

    async def _answer_from_cache(self, exchange: Exchange, request: ModelRequest, answer: Answer) -> None:
        """Book and send an answer that was paid for before."""
        reservation = self._new_reservation(request)
        reservation.use(answer.tokens_in, answer.tokens_out, reported=answer.reported)
        reservation.settle("cached", 200, cost=0.0)
        self._book(reservation.entry)
        if not request.stream:
            return await exchange.respond(200, answer.body.encode(), KEPT)
        await exchange.start_stream()
        return await exchange.end(answer.body.encode())

    def _check_excess(self, request: ModelRequest, usage: TokenUsage) -> None:
        """Check the tokens beyond those reserved against what is left. Raises ApiError."""
        excess = usage.tokens_out - request.expected_out
        if excess > 0:
            for quota in (self.job, self._run):
                quota.check(Amount(0, excess, self.access.cost(request.model, 0, excess) or 0.0))

    @contextmanager
    def _reserve(self, request: ModelRequest) -> Iterator[Reservation]:
        """Reserve what the request may use, and book what it used, whatever happens. Raises ApiError."""
        reservation = self._new_reservation(request)
        reserved, quotas = amount_of(reservation.entry), (self.job, self._run)
        try:
            for quota in quotas:
                quota.check(reserved)
            self._ledger.begin(reservation.entry)
        except ApiError as e:
            self._book_refusal(e)
            raise
        except OSError as e:
            raise ApiError(503, "no_room", "the disk is full, and what cannot be booked is not asked", 10) from e
        for quota in quotas:
            quota.reserved += reserved
        try:
            yield reservation
        finally:
            for quota in quotas:
                quota.reserved -= reserved
                quota.used += amount_of(reservation.entry)
            self._book(reservation.entry)

    def _new_reservation(self, request: ModelRequest) -> Reservation:
        """A reservation whose entry is what is booked when the proxy is killed before the answer."""
        facts: dict[str, Any] = {"id": new_id(), "at": now(), "job": self.name, "model": request.model}
        facts["endpoint"] = request.endpoint
        facts |= {"outcome": "killed", "status": 0, "stream": request.stream, "experiment": experiment_of(self.name)}
        reservation = Reservation(Entry.model_validate(facts), partial(self.access.cost, request.model))
        reservation.use(request.expected_in, request.expected_out, reported=False)
        return reservation

    def _book_refusal(self, error: ApiError) -> None:
        self._refusals += 1
        if self._refusals <= MAX_REFUSALS:
            facts = {"model": "", "endpoint": "", "outcome": "refused", "status": error.status, "code": error.code}
            self._book(Entry.model_validate({"id": new_id(), "at": now(), "job": self.name, **facts}))

    def _book(self, entry: Entry) -> None:
        with suppress(OSError):  # its note in begun.jsonl stays, and the next proxy books it
            self._ledger.write(entry)

    def _models(self) -> bytes:
        listed = [{"id": name, "object": "model", "created": 0, "owned_by": "user"} for name in self.access.models]
        return json.dumps({"object": "list", "data": listed}).encode()
