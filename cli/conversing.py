"""The chat in a terminal: what was said, what happens, and a line to type."""

from __future__ import annotations

import io
import threading

import click
from rich.console import Console
from rich.markdown import Markdown

from tuneloop.cli.approving import edit, shown
from tuneloop.cli.exchange import await_answer
from tuneloop.cli.plain import too_soon
from tuneloop.cli.screen import Screen, remembering
from tuneloop.cli.slash import SLASHES, listed, parsed
from tuneloop.cli.status import show
from tuneloop.cli.words import line
from tuneloop.core.directive import Line
from tuneloop.core.directive_log import read_conversation
from tuneloop.core.errors import SetupError, WorldError
from tuneloop.core.event_log import read_events
from tuneloop.core.events import Event
from tuneloop.core.layout import RunFolder
from tuneloop.core.locks import is_locked
from tuneloop.core.settings import Settings
from tuneloop.core.wording import clean
from tuneloop.tools.runs.approvals import open_question
from tuneloop.tools.runs.background import resume_behind
from tuneloop.tools.runs.status import run_state, run_status
from tuneloop.tools.runs.talking import acknowledgement, say

POLL, PATIENCE, SHOWN = 0.25, 2.0, 20
# What the conversation itself shows, or comes too often to be read beside it.
UNSHOWN = {"told", "node_started", "tool_used", "model_called"}
STAND = {
    "new": "nobody works on it, /resume starts it",
    "running": "somebody works on it",
    "paused": "nobody works on it, /resume goes on",
    "finished": "it is over: /report; tuneloop fork goes on from any of its experiments",
}


class Conversation:
    """One run, one terminal."""

    def __init__(self, run: RunFolder, settings: Settings) -> None:
        self.run, self.settings, self.screen = run, settings, Screen()
        self.over = threading.Event()
        self.sent = set[str]()
        self.heard = 0
        self.at = run.events.stat().st_size if run.events.is_file() else 0
        self.progress: dict[tuple[int, str], float] = {}

    def hold(self) -> None:
        """Until /quit, Ctrl-D or Ctrl-C."""
        self.begin()
        follower = threading.Thread(target=self.follow, name="chat view", daemon=True)
        follower.start()
        try:
            with remembering(self.settings.home.root / "chat_history", [f"/{name}" for name in SLASHES]):
                while self.turn():
                    pass
        except (EOFError, KeyboardInterrupt):
            click.echo()
        finally:
            self.over.set()
            follower.join(5)

    def begin(self) -> None:
        """Where the run stands, and the end of what was said."""
        status = run_status(self.run)
        self.screen.say(
            f"{status.id}: {status.state}, {status.benchmark}, {status.base_model}; {STAND[status.state]}. /help"
        )
        said = read_conversation(self.run.conversation)
        self.heard = len(said)
        for one in said[-SHOWN:]:
            self.screen.say(voice(one))
        asked = open_question(self.run)
        if asked is not None:
            self.screen.say(f"{shown(asked)}\n/approve, /approve no REASON, or /edit")

    def turn(self) -> bool:
        """One line that was typed; False ends the chat."""
        typed = self.screen.ask().strip()
        name = typed[1:].partition(" ")[0] if typed.startswith("/") else ""
        own = {
            "help": self.help,
            "resume": self.resume,
            "report": self.report,
            "status": self.status,
            "edit": self.edit,
        }
        try:
            if name == "quit":
                return False
            if name in own:
                own[name]()
            elif typed:
                self.tell(typed)
        except (SetupError, WorldError) as e:
            self.screen.say(click.style(clean(str(e), 2000), fg="red"))
        return True

    def tell(self, typed: str) -> None:
        """Say it; the answer appears above the prompt, however late it comes."""
        said, meaning = parsed(typed)
        message = say(self.run, said, meaning)
        self.sent.add(message)
        answered = await_answer(self.run, self.settings, message, PATIENCE)
        if answered is None and acknowledgement(self.run, message) is None:
            self.screen.say("not read yet: who works on the run reads between two steps; the answer appears here")
        self.look()

    def follow(self) -> None:
        """Show what happens until the chat is over."""
        while not self.over.wait(POLL):
            self.look()

    def look(self) -> None:
        """Show what is new: first what happened, then what was said."""
        with self.screen.looking:
            events, self.at = read_events(self.run.events, self.at)
            for event in events:
                if (text := self.told(event)) is not None:
                    self.screen.say(click.style(text, dim=True))
            said = read_conversation(self.run.conversation)
            for one in said[self.heard :]:
                if one.id not in self.sent:
                    self.screen.say(voice(one))
            self.heard = len(said)

    def told(self, event: Event) -> str | None:
        """An event in words; None for what is not shown here."""
        if event.kind in UNSHOWN or too_soon(event, self.progress):
            return None
        text = line(event)
        where = f"[{event.experiment}] " if event.experiment else ""
        return None if text is None else shortened(f"{event.at:%H:%M:%S} {where}{text}")

    def help(self) -> None:
        """All commands."""
        self.screen.say(f"{listed()}\nAnything else is said to the run: it answers, and obeys what it understands.")

    def status(self) -> None:
        """The table of `tuneloop status`."""
        out = io.StringIO()
        show(run_status(self.run), Console(file=out, width=Console().width, force_terminal=True), last=10)
        self.screen.say(out.getvalue().rstrip())

    def resume(self) -> None:
        """Go on in the background."""
        if run_state(self.run) == "finished" or is_locked(self.run.lock):
            self.screen.say(STAND[run_state(self.run)])
            return
        refusal = resume_behind(self.run)
        self.screen.say(clean(refusal, 2000) or "it goes on in the background; leaving this chat does not stop it")

    def edit(self) -> None:
        """Change what waits for approval."""
        asked = open_question(self.run)
        if asked is None:
            self.screen.say("nothing waits for approval")
            return
        decision = edit(self.run, asked)
        self.screen.say(f"{decision.decision}: {STAND[run_state(self.run)]}")

    def report(self) -> None:
        """The whole report."""
        if not self.run.report_json.is_file():
            self.screen.say("no report yet: it is written when the run is over")
            return
        out = io.StringIO()
        text = self.run.report.read_text(encoding="utf-8")
        Console(file=out, width=Console().width, force_terminal=True).print(Markdown(text))
        self.screen.say(f"{out.getvalue().rstrip()}\n({self.run.report})")


def shortened(text: str) -> str:
    """Beside a conversation an event has two lines at most; /status and /report have it whole."""
    most = 2 * Console().width
    return text if len(text) <= most else f"{text[: most - 1]}…"


def voice(one: Line) -> str:
    """A line of the conversation, as foreign text is written."""
    text = "\n  ".join(clean(part, 2000) for part in one.text.splitlines())
    name, colour = ("you", "magenta") if one.who == "user" else ("tuneloop", "cyan")
    return f"{click.style(name, fg=colour, bold=True)}  {text}"
