"""The pages and what they send: Starlette routes over `views.py`; every text goes through templates that escape it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from tuneloop.core.commands import find_command
from tuneloop.core.directive import NewRun, Pause, Resume
from tuneloop.core.errors import InfrastructureError, InvalidRequestError, ToolError
from tuneloop.core.formatting import format_duration, format_size
from tuneloop.core.layout import RunFolder
from tuneloop.core.run_lease import is_worked_on
from tuneloop.core.settings import Settings
from tuneloop.graph.lifecycle.lock import hold_lock
from tuneloop.graph.steering.exchange import await_answer
from tuneloop.tools.runs import messages, start
from tuneloop.tools.runs.approvals import edit_to_answer, editable_texts, open_question, write_decision
from tuneloop.tools.runs.manifest import find_run
from tuneloop.tools.runs.signature import check_signed
from tuneloop.ui import matrices, views
from tuneloop.ui.guard import guards

HERE = Path(__file__).parent
LOOK = 0.5  # seconds between two looks at a run's files
ANSWER_SECONDS = 5.0  # that a command waits for its answer
ALIVE = 15.0  # seconds after which a stream says that it lives
FIELDS = (
    "benchmark", "base_model", "datasets", "loop_n", "timeout", "patience", "max_cost", "max_tokens", "seeds", "seed",
    "parallel", "approve", "executor", "run_id",
)  # fmt: skip
LONGEST_BODY, LONGEST_RECIPE = 1 << 16, 1 << 20  # bytes

Handler = Callable[[Request], Awaitable[Response]]


def build_app(settings: Settings, token: str, hosts: tuple[str, ...] = ()) -> Starlette:
    """The application for the runs of one home; `token` is what the link holds, `hosts` names beyond loopback."""
    pages = Pages(settings)
    one, experiment = "/runs/{run}", "/runs/{run}/experiments/{number:int}"
    routes = [
        Route("/", pages.runs),
        Route("/compare", pages.compare),
        Route("/batches", pages.batches),
        Route("/batches/{batch}", pages.batch),
        Route("/matrices", pages.matrices),
        Route("/matrices/{task}/report", pages.matrix),
        Route("/matrices/{task}/item", pages.matrix_item),
        Route("/matrices/{task}/{file}", pages.matrix_plot),
        Route("/new", pages.new),
        Route("/new", pages.start, methods=["POST"]),
        Route(one, pages.run),
        Route(f"{one}/now", pages.now),
        Route(f"{one}/events", pages.events),
        Route(f"{one}/say", pages.say, methods=["POST"]),
        Route(f"{one}/approve", pages.recipe),
        Route(f"{one}/approve", pages.approve, methods=["POST"]),
        Route(f"{one}/report", pages.report),
        Route(f"{one}/report/{{file}}", pages.plot),
        Route(experiment, pages.experiment),
        Route(f"{experiment}/answers/{{file}}", pages.answer),
        Route(f"{experiment}/log/{{file}}", pages.log),
        Mount("/static", StaticFiles(directory=HERE / "static")),
    ]
    refusals: dict[Any, Any] = {
        InvalidRequestError: pages.refused,
        ToolError: pages.refused,
        InfrastructureError: pages.refused,
        OSError: pages.refused,  # removed or closed while it was looked at
        HTTPException: pages.refused,
    }
    return Starlette(routes=routes, middleware=guards(token, hosts), exception_handlers=refusals)


class Pages:
    """Handlers of the routes."""

    def __init__(self, settings: Settings) -> None:
        self.settings, self.home = settings, settings.home
        self.templates = Environment(
            loader=FileSystemLoader(HERE / "templates"), autoescape=True, undefined=StrictUndefined, trim_blocks=True
        )
        self.templates.filters |= {"duration": format_duration, "size": format_size, "path": quote_path}

    async def runs(self, request: Request) -> Response:
        """The list."""
        asked = request.query_params
        return await self._page(
            "runs.html", views.runs_page, self.home, asked.get("q", ""), asked.get("sort", "newest")
        )

    async def compare(self, request: Request) -> Response:
        """Runs side by side."""
        return await self._page("compare.html", views.compare_page, self.home, request.query_params.getlist("run"))

    async def batches(self, _request: Request) -> Response:
        """All batches."""
        return await self._page("batches.html", views.batches_page, self.home)

    async def batch(self, request: Request) -> Response:
        """One batch."""
        return await self._page("batch.html", views.batch_page, self.settings, request.path_params["batch"])

    async def matrices(self, _request: Request) -> Response:
        """All result trees of `tuneloop matrix`."""
        return await self._page("matrices.html", matrices.matrices_page, self.home)

    async def matrix(self, request: Request) -> Response:
        """One of them."""
        return await self._page("matrix.html", matrices.matrix_page, self.home, request.path_params["task"])

    async def matrix_item(self, request: Request) -> Response:
        """What its cells said to one item."""
        task, item = request.path_params["task"], request.query_params.get("id", "")
        return await self._page("matrix_item.html", matrices.item_page, self.home, task, item)

    async def matrix_plot(self, request: Request) -> Response:
        """A picture of its report."""
        tree = await run_in_threadpool(matrices.find_tree, self.home, request.path_params["task"])
        return FileResponse(await run_in_threadpool(views.picture, tree.root, request.path_params["file"]))

    async def run(self, request: Request) -> Response:
        """One run, live."""
        return await self._page("run.html", views.run_page, self.home, request.path_params["run"])

    async def now(self, request: Request) -> Response:
        """What of it changes while it works."""
        return await self._page("now.html", views.run_page, self.home, request.path_params["run"])

    async def events(self, request: Request) -> Response:
        """A stream that says when something has changed."""
        run = await run_in_threadpool(find_run, self.home, request.path_params["run"])
        return StreamingResponse(changes(run), media_type="text/event-stream")

    async def experiment(self, request: Request) -> Response:
        """One experiment."""
        against = request.query_params.get("against", "")
        number = int(against) if against.isdecimal() and len(against) < 9 else None
        given = request.path_params
        return await self._page(
            "experiment.html", views.experiment_page, self.home, given["run"], given["number"], number
        )

    async def answer(self, request: Request) -> Response:
        """What an agent was told or answered."""
        return await self._text(views.answer_file, request)

    async def log(self, request: Request) -> Response:
        """A job's log."""
        return await self._text(views.job_log, request)

    async def report(self, request: Request) -> Response:
        """The report."""
        return await self._page("report.html", views.report_page, self.home, request.path_params["run"])

    async def plot(self, request: Request) -> Response:
        """One of its pictures."""
        run = await run_in_threadpool(find_run, self.home, request.path_params["run"])
        return FileResponse(await run_in_threadpool(views.picture, run.root, request.path_params["file"]))

    async def say(self, request: Request) -> Response:
        """Give a run a command; its answer stands in the conversation."""
        run = await run_in_threadpool(find_run, self.home, request.path_params["run"])
        text = (await form(request)).get("text", "").strip()
        told = await run_in_threadpool(self._told, run, text)
        if told:
            return await self._page("told.html", lambda: {"run": run.id, "text": text, "told": told})
        return RedirectResponse(f"/runs/{quote_path(run.id)}", 303)

    def _told(self, run: RunFolder, text: str) -> str:
        """What is said at once; "" where the page of the run shows it."""
        if not text or len(text) > LONGEST_BODY // 4:
            raise InvalidRequestError("a command is a line of text, e.g. `limit num_train_epochs<=3`; `help` lists all")
        command = find_command(text)
        if isinstance(command, Pause):
            return str(messages.stop(run, self.settings)["note"])
        if isinstance(command, Resume):
            start.resume_run(self.home, run)
            return ""
        if isinstance(command, NewRun):
            raise InvalidRequestError("a run cannot start another run; right is the page Start a run")
        check_signed(run)
        answered = await_answer(run, self.settings, messages.say(run, text), ANSWER_SECONDS)
        return (
            answered.text if answered else "It has not answered yet: the conversation shows the answer when it comes."
        )

    async def recipe(self, request: Request) -> Response:
        """The recipe that waits for a yes, to be changed."""
        return await self._page("approve.html", views.approval_page, self.home, request.path_params["run"])

    async def approve(self, request: Request) -> Response:
        """Answer with the changed recipe, which passes all checks again; or show it again with what is wrong."""
        run = await run_in_threadpool(find_run, self.home, request.path_params["run"])
        given = {name: text.replace("\r\n", "\n") for name, text in (await form(request, LONGEST_RECIPE)).items()}
        shown = await run_in_threadpool(views.approval_page, self.home, run.id)
        try:
            told = await run_in_threadpool(self._approved, run, given)
        except InvalidRequestError as error:
            again = {**shown, "texts": {name: given.get(name, "") for name in shown["texts"]}, "refused": str(error)}
            return await self._page("approve.html", lambda: again)
        return await self._page("told.html", lambda: {"run": run.id, "text": "Recipe changed", "told": told})

    def _approved(self, run: RunFolder, given: dict[str, str]) -> str:
        check_signed(run)
        asked = open_question(run)
        if asked is None or asked.key != given.get("key"):
            raise InvalidRequestError("the run does not ask about this recipe any more: open its page again")
        folder = run.experiment(asked.experiment)
        before = editable_texts(folder)
        decision = edit_to_answer(before, {name: given.get(name, text) for name, text in before.items()})
        with hold_lock(run.lock):
            write_decision(folder, asked.at, asked.key, decision)
        return f"answered: {decision.decision}. Resume goes on with it"

    async def new(self, _request: Request) -> Response:
        """The form that starts a run."""
        return await self._page("new.html", lambda: {"fields": dict.fromkeys(FIELDS, ""), "refused": ""})

    async def start(self, request: Request) -> Response:
        """Start it, or show the form again with what is wrong."""
        given = {name: value.strip() for name, value in (await form(request)).items() if name in FIELDS}
        asked = {name: value for name, value in given.items() if value}
        try:
            run = await run_in_threadpool(start.start_from_options, self.settings, asked)
        except (InvalidRequestError, ToolError) as error:
            refused = str(error)
            return await self._page(
                "new.html", lambda: {"fields": dict.fromkeys(FIELDS, "") | given, "refused": refused}
            )
        return RedirectResponse(f"/runs/{quote_path(run.id)}", 303)

    async def refused(self, request: Request, error: Exception) -> Response:
        """What is wrong, on a page."""
        wrong = 404 if request.method in ("GET", "HEAD") else 400
        status = error.status_code if isinstance(error, HTTPException) else wrong
        text = error.detail if isinstance(error, HTTPException) else str(error)
        return HTMLResponse(self.templates.get_template("refused.html").render(text=text), status)

    async def _page(self, template: str, view: Callable[..., dict[str, Any]], *given: Any) -> Response:
        shown = await run_in_threadpool(view, *given)
        return HTMLResponse(await run_in_threadpool(self.templates.get_template(template).render, **shown))

    async def _text(self, view: Callable[..., str], request: Request) -> Response:
        given = request.path_params
        text = await run_in_threadpool(view, self.home, given["run"], given["number"], given["file"])
        return await self._page("text.html", lambda: {**given, "text": text})


def quote_path(name: str) -> str:
    """A name as one piece of a path."""
    return quote(name, safe="")


async def form(request: Request, longest: int = LONGEST_BODY) -> dict[str, str]:
    """The fields of a form of so many bytes. Raises HTTPException for a body that is none."""
    if request.headers.get("content-type", "").partition(";")[0] != "application/x-www-form-urlencoded":
        raise HTTPException(415, "Right is a form.")
    body = b""
    async for piece in request.stream():
        body += piece
        if len(body) > longest:
            raise HTTPException(413, "Too long.")
    return dict(parse_qsl(body.decode(errors="replace"), keep_blank_values=True))


async def changes(run: RunFolder) -> AsyncGenerator[bytes, None]:
    """`changed` whenever the run's files did, looked at twice a second; a comment when nothing has for a while."""
    seen, quiet = await run_in_threadpool(stamp, run), 0.0
    yield b": here\n\n"
    while True:
        await asyncio.sleep(LOOK)
        quiet += LOOK
        now = await run_in_threadpool(stamp, run)
        if now != seen:
            seen, quiet = now, 0.0
            yield b"event: changed\ndata: 1\n\n"
        elif quiet >= ALIVE:
            quiet = 0.0
            yield b": here\n\n"


def stamp(run: RunFolder) -> tuple[object, ...]:
    """What differs when something new is to be seen."""
    sizes = [file.stat().st_size if file.is_file() else -1 for file in (run.events, run.conversation, run.report_json)]
    return (*sizes, is_worked_on(run.root))
