"""The web page: everything shown is escaped, nothing is read beside the runs, only the page itself may steer."""

from __future__ import annotations

import asyncio
import json
import shutil
from random import Random
from urllib.parse import quote

import pytest
from starlette.testclient import TestClient

from tests.crash.damage import damage, photograph, time_limit
from tests.graph.conftest import long_run
from tests.ui.conftest import BASE, HOSTILE, TOKEN, check_harmless, stranger
from tuneloop.core.directive_log import open_directives
from tuneloop.core.event_log import append
from tuneloop.core.events import AgentAnswered, JobProgress, NodeStarted, ToolCalled
from tuneloop.core.experiment import ApprovalRequest
from tuneloop.core.files import read_json, write_json
from tuneloop.core.layout import Home, RunFolder
from tuneloop.graph import build as graph
from tuneloop.graph.lifecycle.lock import hold_lock
from tuneloop.tools.runs.approvals import find_decision, write_question
from tuneloop.ui import app, views
from tuneloop.ui.app import changes
from tuneloop.ui.guard import cookie_name
from tuneloop.ui.views import NODES

OWN = {"Origin": BASE}
PAGES = (
    "/", "/?q=done&sort=best", "/?sort=name", "/new", "/batches", "/batches/one",
    "/compare?run=done&run=open", "/runs/done", "/runs/open", "/runs/done/now",
    "/matrices", "/matrices/sums/report", "/matrices/sums/item?id=v50",
    "/runs/done/report", "/runs/done/experiments/1", "/runs/done/experiments/2?against=1", "/runs/open/experiments/3",
)  # fmt: skip


def test_every_page_shows_and_loads_nothing_foreign(page: TestClient) -> None:
    for path in PAGES:
        shown = page.get(path)
        assert shown.status_code == 200, (path, shown.text[-300:])
        check_harmless(shown.text)
        assert shown.headers["content-security-policy"].startswith("default-src 'none'; script-src 'self'")
    for name in ("style.css", "live.js", "icon.svg"):
        assert page.get(f"/static/{name}").status_code == 200


def test_run_says_why_an_experiment_was_turned_down(page: TestClient) -> None:
    shown = page.get("/runs/open").text
    assert "not promoted" in shown and "because because" in shown
    assert 'aria-current="step">evaluate<' in shown
    assert "num_train_epochs" in shown, "the conversation"


def test_an_experiment_without_an_idea_can_be_looked_at(page: TestClient, home: Home) -> None:
    home.run("done").experiment(1).hypothesis.unlink()
    assert page.get("/runs/done/experiments/1").status_code == 200
    assert page.get("/runs/done/experiments/99").status_code == 404


def test_without_the_link_nothing_is_shown(home: Home) -> None:
    with stranger(home) as client:
        for path in (*PAGES, "/static/style.css", "/runs/done/events", "/nothing"):
            assert client.get(path).status_code == 401
        for token in ("", "wrong", TOKEN + "x"):
            assert client.get("/login", params={"token": token}).status_code == 401
        client.cookies.set(cookie_name(TOKEN), TOKEN)
        assert client.get("/").status_code == 401, "the link's secret is not the cookie's"
        assert client.post("/runs/open/say", data={"text": "finish"}, headers=OWN).status_code == 401


def test_cookie_is_for_this_site_and_no_script(home: Home) -> None:
    with stranger(home) as client:
        said = client.get(f"/login?token={TOKEN}").headers["set-cookie"].lower()
    assert "httponly" in said and "samesite=strict" in said


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "evil.example"}, 421),
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "http://127.0.0.1:8888"}, 403),
        ({"Origin": "null"}, 403),
        ({"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}, 403),
    ],
    ids=str,
)
def test_other_sites_are_refused_though_they_had_the_cookie(
    page: TestClient, headers: dict[str, str], status: int
) -> None:
    assert page.get("/", headers=headers).status_code == status
    assert (
        page.post(
            "/runs/open/say", data={"text": "finish"}, headers={**(OWN if "Host" in headers else {}), **headers}
        ).status_code
        == status
    )


def test_what_changes_something_comes_from_the_page_itself(page: TestClient, home: Home) -> None:
    before = sorted(home.run("open").inbox.glob("*"))
    assert page.post("/runs/open/say", data={"text": "finish"}).status_code == 403, "no Origin"
    sent = page.post(
        "/runs/open/say", content=b'{"text": "finish"}', headers={**OWN, "Content-Type": "application/json"}
    )
    assert sent.status_code == 415
    assert page.post("/runs/open/say", data={"text": "x" * 70_000}, headers=OWN).status_code == 413
    assert page.get("/runs/open/say?text=finish").status_code == 405
    assert sorted(home.run("open").inbox.glob("*")) == before


def test_command_is_answered_as_in_the_chat(page: TestClient, home: Home) -> None:
    """Also of a run that nobody works on."""
    run = home.run("open")
    told = page.post("/runs/open/say", data={"text": "limit num_train_epochs<=2"}, headers=OWN)
    assert told.status_code == 200 and "num_train_epochs at most 2" in told.text
    assert [d.text for d in open_directives(run.directives)] == ["limit num_train_epochs<=2"]
    assert "with the options of tuneloop run" in page.post("/runs/open/say", data={"text": "help"}, headers=OWN).text
    new = "run benchmark=wordproblems base_model=tiny"
    for text, why in (
        ("pause", "nothing to stop"),
        ("/pause", "nothing to stop"),
        ("Pause", "nothing to stop"),
        ("", "a command is a line of text"),
        (new, "cannot start another run"),
    ):
        refused = page.post("/runs/open/say", data={"text": text}, headers=OWN)
        assert refused.status_code == 400 and why in refused.text, text


@pytest.mark.parametrize("text", ["resume", "/resume", "Resume"])
def test_resume_goes_on_however_it_is_typed(page: TestClient, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    resumed = []
    monkeypatch.setattr("tuneloop.tools.runs.start.resume_run", lambda _, run: resumed.append(run.id))
    page.post("/runs/open/say", data={"text": text}, headers=OWN)
    assert resumed == ["open"]


def test_busy_run_answers_in_the_conversation(page: TestClient, home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app, "ANSWER_SECONDS", 0.2)
    run = home.run("open")
    with hold_lock(run.lock):
        told = page.post("/runs/open/say", data={"text": "status"}, headers=OWN)
        assert "has not answered yet" in told.text
        assert "status" in [read_json(file)["text"] for file in run.inbox.glob("*.json")]


def test_run_of_another_home_takes_no_command(page: TestClient, home: Home) -> None:
    (home.root / "signing.key").unlink()
    before = sorted(home.run("open").inbox.glob("*"))
    refused = page.post("/runs/open/say", data={"text": "limit num_train_epochs<=2"}, headers=OWN)
    assert refused.status_code == 400 and "open" in refused.text
    assert sorted(home.run("open").inbox.glob("*")) == before


def test_refused_request_is_shown_with_what_was_filled_in(page: TestClient, home: Home) -> None:
    asked = {
        "benchmark": "nonsense<b>",
        "loop_n": "3",
        "run_id": "mine",
        "sandbox": "process",
        "allow_unsandboxed": "true",
    }
    shown = page.post("/new", data=asked, headers=OWN)
    assert shown.status_code == 200 and "nonsense&lt;b&gt;" in shown.text and 'role="alert"' in shown.text
    assert 'value="mine"' in shown.text
    assert not home.run("mine").root.exists()
    assert "is not a time" in page.post("/new", data={"benchmark": "wordproblems", "timeout": "soon"}, headers=OWN).text


@pytest.mark.parametrize(
    ("given", "refusal"),
    [
        ({"parallel": "300"}, "--parallel"),
        ({"parallel": "two"}, "--parallel"),
        ({"parallel": "2", "benchmark": "none", "loop_n": "", "datasets": "."}, "compares nothing"),
        ({"executor": "pbs"}, "--executor"),
        ({"executor": "ray"}, "RAY_ADDRESS names no cluster"),
    ],
)
def test_where_a_run_works_is_checked_as_in_a_terminal(page: TestClient, given: dict[str, str], refusal: str) -> None:
    asked = {"benchmark": "wordproblems", "base_model": "tiny", "loop_n": "2", "sandbox": "landlock", **given}
    shown = page.post("/new", data=asked, headers=OWN)
    assert shown.status_code == 200 and 'role="alert"' in shown.text
    assert refusal in shown.text.partition('role="alert">')[2].partition("<")[0]
    if given.get("executor") == "ray":
        assert "<option selected>ray</option>" in shown.text


def test_all_open_experiments_are_shown(page: TestClient, home: Home) -> None:
    run = home.run("open")
    shutil.copytree(run.experiment(3).root, run.experiment(4).root)
    append(run.events, NodeStarted(experiment=3, node="evaluate"))
    append(run.events, NodeStarted(experiment=4, node="train"))
    for number, job in ((3, "evaluate"), (4, "train")):
        append(run.events, JobProgress(experiment=number, job=job, done=number, total=9))
    shown = page.get("/runs/open/now").text
    assert "with 2 open experiments" in shown
    for number, node in ((3, "evaluate"), (4, "train")):
        assert f'/runs/open/experiments/{number}">{number}</a></td><td></td><td></td><td>at {node}</td>' in shown
        assert f"experiment {number}, {node}" in shown and f'value="{number}" aria-label="{node}"' in shown
        assert f'aria-current="step">{node}<' in shown


def ask_about(home: Home, text: str = "carry out?") -> None:
    """The open run waits for an answer."""
    folder = home.run("open").experiment(3)
    folder.script.write_text("print(1)\n")
    folder.config.write_text("a: 1\n")
    write_question(folder, ApprovalRequest(at="plan", experiment=3, key="k", text=text))


def test_recipe_is_changed_at_an_approval(page: TestClient, home: Home) -> None:
    assert page.get("/runs/open/approve").status_code == 404
    ask_about(home, "<b>carry out?")
    assert "&lt;b&gt;carry out?" in page.get("/runs/open").text
    shown = page.get("/runs/open/approve")
    assert "print(1)" in shown.text and "train.yaml" in shown.text
    check_harmless(shown.text)
    wrong = {
        "key": "k",
        "hypothesis.yaml": "statement: ''",
        "process_data.py": "print(2)\r\n",
        "train.yaml": "a: 1\r\n",
    }
    again = page.post("/runs/open/approve", data=wrong, headers=OWN)
    assert 'role="alert"' in again.text and "print(2)" in again.text
    folder = home.run("open").experiment(3)
    assert find_decision(folder, "plan", "k") is None
    stale = page.post("/runs/open/approve", data={"key": "other"}, headers=OWN)
    assert "not ask about this recipe any more" in stale.text
    given = {"key": "k", "process_data.py": "print(2)\r\n", "train.yaml": "a: 1\r\n"}
    assert page.post("/runs/open/approve", data=given).status_code == 403
    assert "answered: edit" in page.post("/runs/open/approve", data=given, headers=OWN).text
    decision = find_decision(folder, "plan", "k")
    assert decision is not None and decision.files == {"process_data.py": "print(2)\n"}


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_text_is_text(page: TestClient, home: Home, text: str) -> None:
    """In ideas, scripts, configs, transcripts, logs, the report, events, the conversation, scores and rows."""
    run = home.run("done")
    folder = run.experiment(2)
    found = read_json(folder.result)
    found["hypothesis"] |= {"statement": text, "reason": text}
    found["feedback"]["critique"] |= {"explanation": text, "lesson": text}
    write_json(folder.result, found)
    score = read_json(folder.scores)
    for item in score["items"]:
        item |= {"prediction": text, "parsed": text}
    write_json(folder.scores, score)
    write_json(folder.data / "data.json", [{"instruction": text, "output": text}])
    for file in (folder.script, folder.config, run.report, folder.answers / "researcher.0.md"):
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
    (folder.jobs / "train.1").mkdir(parents=True, exist_ok=True)
    (folder.jobs / "train.1" / "log.txt").write_text(text)
    append(run.events, AgentAnswered(agent="critic", says=text, why=text))
    for _ in range(2):
        append(run.events, ToolCalled(agent=text, tool=text, arguments=text, says=text))
    for path in (
        "/runs/done", "/runs/done/experiments/2", "/runs/done/report", "/runs/done/experiments/2/answers/researcher.0.md",
        "/runs/done/experiments/2/log/train.1", f"/?q={quote(text)}", f"/runs/{quote(text, safe='')}",
    ):  # fmt: skip
        shown = page.get(path)
        assert shown.status_code in (200, 404)
        check_harmless(shown.text)
        assert "69993" not in shown.text, "a template in a text is no template"


def test_markdown_of_a_report_makes_no_link_that_runs(page: TestClient, home: Home) -> None:
    home.run("done").report.write_text("[a](javascript:alert(1)) ![b](data:text/html,x) <b>c</b>\n\n|d|\n|-|\n|e|\n")
    shown = page.get("/runs/done/report").text
    check_harmless(shown)
    assert "<table>" in shown and "&lt;b&gt;c" in shown


@pytest.mark.parametrize(
    "path",
    [
        "/runs/..%2f..%2fetc/now",
        "/runs/done/report/..%2frun.yaml",
        "/runs/done/report/..%2f..%2f..%2fsigning.key",
        "/runs/done/experiments/1/answers/..%2f..%2f..%2frun.yaml",
        "/runs/done/experiments/1/answers/link",
        "/runs/done/experiments/1/log/..%2fmodel",
        "/runs/done/experiments/1/log/linked.1",
        "/runs/done/report/link.png",
        "/runs/done/experiments/99",
        "/static/..%2f..%2fapp.py",
        "/static/%2e%2e/app.py",
    ],
)
def test_no_path_leaves_the_run(page: TestClient, home: Home, path: str) -> None:
    secret = home.root / "secret.txt"
    secret.write_text("canary-4711")
    folder = home.run("done").experiment(1)
    (folder.answers).mkdir(exist_ok=True)
    (folder.answers / "link").symlink_to(secret)
    (folder.jobs / "linked.1").mkdir(parents=True)
    (folder.jobs / "linked.1" / "log.txt").symlink_to(secret)
    (home.run("done").root / "report").mkdir(exist_ok=True)
    (home.run("done").root / "report" / "link.png").symlink_to(secret)
    shown = page.get(path)
    assert shown.status_code == 404, shown.text
    assert "canary-4711" not in shown.text


@pytest.mark.parametrize("name", ["process_data.py", "train.yaml", "hypothesis.json"])
def test_linked_file_of_a_received_run_is_not_offered_for_change(page: TestClient, home: Home, name: str) -> None:
    ask_about(home, "carry out?")
    outside = home.root / "outside.txt"
    outside.write_text('{"statement": "canary-4711"}')
    file = home.run("open").experiment(3).root / name
    file.unlink()
    file.symlink_to(outside)
    shown = page.get("/runs/open/approve")
    assert shown.status_code == 404 and "canary-4711" not in shown.text


@pytest.mark.parametrize("linked", ["answers", "jobs/linked.1", "report", "process_data.py"])
def test_linked_folder_of_a_received_run_is_not_looked_into(page: TestClient, home: Home, linked: str) -> None:
    outside = home.root / "outside"
    outside.mkdir()
    for name in ("researcher.0.md", "log.txt", "scores.png", "code.py"):
        (outside / name).write_text("canary-4711")
    run = home.run("done")
    folder = run.root if linked == "report" else run.experiment(2).root
    place = folder / linked
    if place.is_dir():
        shutil.rmtree(place)
    place.unlink(missing_ok=True)
    place.parent.mkdir(exist_ok=True)
    place.symlink_to(outside / "code.py" if linked.endswith(".py") else outside)
    for path in (
        "/runs/done/experiments/2", "/runs/done/experiments/2/answers/researcher.0.md", "/runs/done/report/scores.png",
        "/runs/done/experiments/2/log/linked.1",
    ):  # fmt: skip
        assert "canary-4711" not in page.get(path).text, path


def test_removed_and_damaged_runs_are_a_sentence(page: TestClient, home: Home) -> None:
    with home.run("open").events.open("ab") as f:
        f.write(b'{"kind": "node_started", \xff\n[1]\n')
    assert page.get("/runs/open").status_code == 200
    home.run("open").experiment(1).result.write_text("{")
    assert "is damaged" in page.get("/runs/open").text
    assert "damaged" in page.get("/").text and page.get("/").status_code == 200
    shutil.rmtree(home.run("open").root)
    gone = page.get("/runs/open/now")
    assert gone.status_code == 404 and "no run &#39;open&#39;" in gone.text


async def test_stream_says_when_something_has_changed(home: Home) -> None:
    run = home.run("open")
    stream = changes(run)
    assert (await anext(stream)).startswith(b":")
    waiting = asyncio.ensure_future(anext(stream))
    await asyncio.sleep(0.7)
    assert not waiting.done(), "nothing has changed"
    append(run.events, AgentAnswered(agent="critic", says="new"))
    assert await asyncio.wait_for(waiting, 5) == b"event: changed\ndata: 1\n\n"
    await stream.aclose()


def test_steps_are_those_of_the_graph() -> None:
    assert tuple(graph.NODES) == NODES


def test_list_is_bounded(page: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(views, "SHOWN_RUNS", 1)
    shown = page.get("/").text
    assert "1 of the newest 1 of 2 runs" in shown and shown.count('href="/runs/') == 1


def test_failures_have_their_kind(page: TestClient, home: Home) -> None:
    """A reply as long as the benchmark allows was cut off; a short one has another form than the scorer reads."""
    folder = home.run("done").experiment(2)
    score = read_json(folder.scores)
    for number, item in enumerate(score["items"]):
        item |= {"correct": False, "value": 0.0, "parsed": None, "prediction": "no end " * 5000 if number else "short"}
    write_json(folder.scores, score)
    shown = page.get("/runs/done/experiments/2").text
    assert "unparsed: 1" in shown and f"cut_off: {len(score['items']) - 1}" in shown


def test_it_says_by_which_rule_an_experiment_was_judged(page: TestClient) -> None:
    shown = page.get("/runs/done/experiments/2").text
    assert "romoted because it" in shown and "items won and" in shown and "against the best before it" in shown


def test_failures_show_what_was_asked(page: TestClient, home: Home) -> None:
    setup = read_json(home.run("done").setup)
    item = read_json(home.run("done").experiment(2).scores)["items"][0]
    place = home.benchmarks / "shown"
    place.mkdir(parents=True, exist_ok=True)
    question = {"id": item["id"], "question": "How many <b>apples</b>?", "answer": "1"}
    (place / "validation.jsonl").write_text(json.dumps(question) + "\n")
    score = read_json(home.run("done").experiment(2).scores)
    score["items"][0] |= {"correct": False, "value": 0.0}
    write_json(home.run("done").experiment(2).scores, score)
    for root, seen in ((place, True), (home.root.parent, False)):
        write_json(home.run("done").setup, {**setup, "benchmark_root": str(root)})
        assert ("How many &lt;b&gt;apples" in page.get("/runs/done/experiments/2").text) == seen


def test_long_run_is_bounded(home: Home, page: TestClient) -> None:
    long_run(RunFolder(home.runs / "long"), experiments=300, progress=20)
    shown = page.get("/runs/long").text
    assert shown.count("/experiments/") == 50 and "250 earlier ones" in shown
    assert len(shown) < 100_000


def test_sealed_items_are_on_no_page_before_the_end(page: TestClient, home: Home) -> None:
    """What agents do not see of validation is compared, and not named."""
    folder = home.run("open").experiment(1)
    hidden = folder.root / "sealed"
    hidden.mkdir(exist_ok=True)
    item = {"id": "canary-item", "prediction": "canary-reply", "parsed": "1", "answer": "2", "correct": False}
    (hidden / "b.json").write_text(json.dumps({"measured_with": "", "items": [item]}))
    assert "canary" not in page.get("/runs/open/experiments/1").text
    assert page.get("/runs/open/experiments/1/answers/..%2fsealed%2fb.json").status_code == 404


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_damaged_homes_are_a_sentence(home: Home, seed: int) -> None:
    """Nothing is written, nothing hangs, no traceback."""
    damage(home.root, Random(seed))
    before = photograph(home.root)
    with stranger(home) as client, time_limit(60):
        client.get(f"/login?token={TOKEN}")
        for path in PAGES:
            assert client.get(path).status_code in (200, 404), path
    assert photograph(home.root) == before
