"""The chat in a terminal: what was said, what happens, and a line to type."""

from __future__ import annotations

import io
import threading
from collections.abc import Mapping

import click
from rich.console import Console

from tuneloop.cli.approval_prompt import edit_recipe, format_question
from tuneloop.cli.plain_view import is_throttled
from tuneloop.cli.screen import Screen, remembering
from tuneloop.cli.status import show_status
from tuneloop.cli.terminal import PlainConsole
from tuneloop.core.commands import COMMANDS, find_command, table
from tuneloop.core.directive import Edit, Line, NewRun, Pause, Question, Resume
from tuneloop.core.directive_log import read_conversation
from tuneloop.core.errors import InfrastructureError, InvalidRequestError
from tuneloop.core.event_log import read_events
from tuneloop.core.events import Event
from tuneloop.core.files import read_text
from tuneloop.core.formatting import printable
from tuneloop.core.layout import RunFolder
from tuneloop.core.run_lease import LOST, find_holder, is_worked_on
from tuneloop.core.settings import Settings
from tuneloop.graph.steering.exchange import await_answer
from tuneloop.tools.runs.approvals import open_question
from tuneloop.tools.runs.event_text import event_line
from tuneloop.tools.runs.messages import acknowledgement, is_at_work, say
from tuneloop.tools.runs.status import run_state, run_status

POLL, PATIENCE, SHOWN = 0.25, 2.0, 20
# Events that the conversation shows already, or that are too frequent for it.
UNSHOWN = {"message_answered", "node_started", "tool_used", "model_called"}
STAND = {
    "new": "no process works on it; resume starts it",
    "running": "a process works on it",
    "paused": "no process works on it; resume continues it",
    "finished": "it is over: report; tuneloop fork goes on from any of its experiments",
}


class Conversation:
    """One terminal, and one run at a time; None: there is no run yet."""

    def __init__(self, run: RunFolder | None, settings: Settings) -> None:
        self.settings, self.screen = settings, Screen()
        self.over = threading.Event()
        self.sent = set[str]()
        self.shown = 0
        self.at = 0
        self.progress: dict[tuple[int, str], float] = {}
        self.run = run
        if run is not None:
            self.follow_run(run)

    def follow_run(self, run: RunFolder) -> None:
        """Turn to a run."""
        self.run = run
        self.shown = len(read_conversation(run.conversation))
        self.at = run.events.stat().st_size if run.events.is_file() else 0

    def hold(self) -> None:
        """Until `quit`, Ctrl-D or Ctrl-C."""
        self.begin()
        follower = threading.Thread(target=self.follow, name="chat view", daemon=True)
        follower.start()
        words = [*sorted(spec.name for spec in COMMANDS), "quit"]
        try:
            with remembering(self.settings.home.root / "chat_history", words):
                while self.turn():
                    pass
        except (EOFError, KeyboardInterrupt):
            click.echo()
        finally:
            self.over.set()
            follower.join(5)

    def begin(self) -> None:
        """Where the run stands, and the end of the conversation."""
        if self.run is None:
            self.screen.say("There is no run yet: run benchmark=B base_model=M starts one. help lists the commands.")
            return
        status = run_status(self.run)
        self.screen.say(
            f"{status.id}: {status.state}, {status.benchmark}, {status.base_model}; {STAND[status.state]}. "
            "help lists the commands"
        )
        for one in read_conversation(self.run.conversation)[-SHOWN:]:
            self.screen.say(voice(one))
        asked = open_question(self.run)
        if asked is not None:
            self.screen.say(f"{format_question(asked)}\nyes, no REASON, or edit")

    def turn(self) -> bool:
        """One line that was typed; False ends the chat."""
        typed = self.screen.ask().strip()
        if typed.removeprefix("/") in ("quit", "exit"):
            return False
        try:
            if typed:
                self.obey(typed)
        except (InvalidRequestError, InfrastructureError) as e:
            self.screen.say(click.style(printable(str(e), 2000), fg="red"))
        return True

    def obey(self, typed: str) -> None:
        """Do what concerns this terminal here; send everything else to the run. Raises InvalidRequestError."""
        match find_command(typed):
            case NewRun(options=options):
                self.start(options)
            case Question(topic="help"):
                self.screen.say(f"{table()}\n{'quit':40}  leave; the run goes on")
            case _ if self.run is None:
                raise InvalidRequestError("there is no run yet; right is run benchmark=B base_model=M")
            case Question(topic="status"):
                self.status(self.run)
            case Question(topic="report"):
                self.report(self.run)
            case Resume():
                self.resume(self.run)
            case Edit():
                self.edit(self.run)
            case _:
                self.tell(self.run, typed)

    def start(self, options: Mapping[str, str]) -> None:
        """A new run in the background, and this chat with it."""
        from tuneloop.tools.runs.start import start_from_options  # catalogs are heavy, and a chat begins without them

        self.follow_run(start_from_options(self.settings, options))
        self.begin()

    def tell(self, run: RunFolder, typed: str) -> None:
        """Send it; the answer appears above the prompt, however late it comes."""
        if isinstance(find_command(typed), Pause):
            is_at_work(run)  # a process that takes up the run this moment is the one to pause
        message = say(run, typed)
        self.sent.add(message)
        answered = await_answer(run, self.settings, message, PATIENCE)
        if answered is None and acknowledgement(run, message) is None:
            self.screen.say("not read yet: the run reads between two steps; the answer appears here")
        self.look()

    def follow(self) -> None:
        """Show what happens until the chat is over."""
        while not self.over.wait(POLL):
            self.look()

    def look(self) -> None:
        """Show what is new: first what happened, then what was said."""
        if self.run is None:
            return
        with self.screen.looking:
            events, self.at = read_events(self.run.events, self.at)
            for event in events:
                if (text := self.told(event)) is not None:
                    self.screen.say(click.style(text, dim=True))
            said = read_conversation(self.run.conversation)
            for one in said[self.shown :]:
                if one.id not in self.sent:
                    self.screen.say(voice(one))
            self.shown = len(said)

    def told(self, event: Event) -> str | None:
        """An event in words; None for what is not shown here."""
        if event.kind in UNSHOWN or is_throttled(event, self.progress):
            return None
        text = event_line(event)
        where = f"[{event.experiment}] " if event.experiment else ""
        return None if text is None else shortened(f"{event.at:%H:%M:%S} {where}{text}")

    def status(self, run: RunFolder) -> None:
        """The table of `tuneloop status`."""
        out = io.StringIO()
        show_status(run_status(run), PlainConsole(file=out, width=Console().width, force_terminal=True), last=10)
        self.screen.say(out.getvalue().rstrip())

    def resume(self, run: RunFolder) -> None:
        """Go on in the background; whether another machine still works on the run, `tuneloop resume` finds out."""
        from tuneloop.tools.runs.start import resume_detached

        other = find_holder(run.root, elsewhere=True)
        if run_state(run) == "finished" or (other is None and is_worked_on(run.root)):
            self.screen.say(STAND[run_state(run)])
            return
        if other is not None:
            self.screen.say(f"{other} was last at work; looking for a sign of life, up to {LOST:.0f} s")
        refusal = resume_detached(run)
        self.screen.say(printable(refusal, 2000) or "it goes on in the background; leaving this chat does not stop it")

    def edit(self, run: RunFolder) -> None:
        """Change what waits for approval."""
        asked = open_question(run)
        if asked is None:
            self.screen.say("nothing waits for approval")
            return
        decision = edit_recipe(run, asked)
        self.screen.say(f"{decision.decision}: {STAND[run_state(run)]}")

    def report(self, run: RunFolder) -> None:
        """The whole report."""
        from rich.markdown import Markdown

        if not run.report_json.is_file():
            self.screen.say("no report yet: it is written when the run is over")
            return
        out = io.StringIO()
        text = read_text(run.report)
        PlainConsole(file=out, width=Console().width, force_terminal=True).print(Markdown(text))
        self.screen.say(f"{out.getvalue().rstrip()}\n({run.report})")


def shortened(text: str) -> str:
    """Beside a conversation an event has two lines at most; status and report have it whole."""
    most = 2 * Console().width
    return text if len(text) <= most else f"{text[: most - 1]}…"


def voice(one: Line) -> str:
    """A line of the conversation, as foreign text is written."""
    text = "\n  ".join(printable(part, 2000) for part in one.text.splitlines())
    name, colour = ("you", "magenta") if one.who == "user" else ("tuneloop", "cyan")
    return f"{click.style(name, fg=colour, bold=True)}  {text}"
