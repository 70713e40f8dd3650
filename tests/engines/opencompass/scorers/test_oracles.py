"""Learned oracles: read without scikit-learn and without running anything, and never taken for something else."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.benchmark_answers import Answerer, item_set, written
from tests.stand_in_engine import collect_scores
from tuneloop.core.errors import InvalidRequestError
from tuneloop.core.files import digest_file
from tuneloop.core.settings import Settings
from tuneloop.sandboxes.bubblewrap import BubblewrapSandbox, probe_bubblewrap
from tuneloop.sandboxes.jobs import launch, log_tail, wait
from tuneloop.sandboxes.process import ProcessSandbox
from tuneloop.tools.benchmark_items import resolve
from tuneloop.tools.engines import Engine
from tuneloop.tools.evaluation.item_sets import EvaluationConditions, ItemSet, ModelWeights, evaluation_command
from tuneloop.tools.scoring import scorer
from tuneloop.tools.scoring.scorer import JUDGING, THEIRS

NAME = "chemcotbench_mol_opt_oracles"
HERE = Path(__file__).parent
REAL = os.environ.get("TUNELOOP_TEST_ORACLES", "")
KEPT = {"drd": "drd2", "gsk": "gsk3b", "jnk": "jnk3"}


@dataclass(frozen=True)
class Made:
    """Oracles of the test, what scikit-learn says of molecules, and our scorers with these files' hashes."""

    folder: Path
    said: dict[str, list[Any]]
    scorers: Path


@pytest.fixture(scope="module")
def made(opencompass: Engine, tmp_path_factory: pytest.TempPathFactory) -> Made:
    folder, scorers = tmp_path_factory.mktemp("oracles"), tmp_path_factory.mktemp("pinned") / "scorers"
    said = told(opencompass, HERE.parent / "make_model_oracles.py", "make", folder)
    shutil.copytree(THEIRS, scorers)
    file = scorers / "chem_oracles.py"
    text = file.read_text()
    for name, known in scorer.scorer_files(resolve.load_entry(NAME)[0]).items():
        assert known in text
        text = text.replace(known, digest_file(folder / name))
    file.write_text(text)
    return Made(folder, said, scorers)


def told(engine: Engine, script: Path, *words: str | Path, given: Any = None) -> Any:
    return json.loads(run(engine, script, *words, given=given))


def run(engine: Engine, script: Path, *words: str | Path, given: Any = None) -> str:
    argv = [str(engine.python), "-B", "-W", "ignore", str(script), *map(str, words)]
    done = subprocess.run(argv, input=json.dumps(given), env=engine.env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


def read(engine: Engine, made: Made, *files: str) -> Any:
    places = [made.folder / name for name in files]
    return told(engine, HERE.parent / "make_model_oracles.py", "read", JUDGING, made.scorers / "_oracles.py", *places)


def test_probabilities_are_those_of_scikit_learn(opencompass: Engine, made: Made) -> None:
    """Also of a forest as a release wrote it whose trees no release of today loads, and of a sparse machine."""
    files = {f"tdc/{kept}_current.pkl": name for name, kept in KEPT.items()}
    found = read(opencompass, made, *files, "old")
    for file, name in files.items():
        assert found[Path(file).name] == pytest.approx(made.said[name], abs=1e-9)
        assert max(made.said[name]) - min(made.said[name]) > 0.5
    assert found["old"] == pytest.approx(made.said["gsk"], abs=1e-9)


BROKEN = {
    "code": "it asks for posix.system",
    "text": "is no oracle",
    "cut": "is no oracle",
    "empty": "is no oracle",
    "list": "it holds a list; right is RandomForestClassifier or SVC",
    "classes": "its classes are not 0 and 1",
    "linear": "its kernel is 'linear'",
    "narrow": "not of two classes and 2048 bits",
    "round": "its trees have no end",
}


def test_what_is_no_oracle_is_one_line_and_runs_nothing(opencompass: Engine, made: Made) -> None:
    found = read(opencompass, made, *BROKEN, "sparse")
    for name, why in BROKEN.items():
        assert why in found[name]
        assert "\n" not in found[name]
    assert len(found["sparse"]) == len(made.said["smiles"])
    assert not Path("ran").exists()


def test_a_reply_is_judged_by_the_probability_that_it_gains(opencompass: Engine, made: Made) -> None:
    smiles = made.said["smiles"]
    pairs = [(name, i, (i + step) % len(smiles)) for name in KEPT for i in range(0, len(smiles), 9) for step in (1, 5)]
    asked = [(json.dumps({"property": n, "source": smiles[i]}), json.dumps({"output": smiles[j]})) for n, i, j in pairs]
    place = made.scorers / "chem_oracles.py"
    found = told(opencompass, HERE.parent / "judge_replies.py", JUDGING, place, made.folder, given=asked)
    gains = [made.said[n][j] - made.said[n][i] for n, i, j in pairs]
    verdicts = found["verdicts"]
    assert [one["error"] for one in verdicts] == [""] * len(pairs)
    assert [one["extra"]["gain"] for one in verdicts] == pytest.approx(gains, abs=1e-9)
    assert {one["value"] for one, gain in zip(verdicts, gains, strict=True) if gain > 1e-6} == {0, 1}
    assert not any(one["value"] for one, gain in zip(verdicts, gains, strict=True) if gain <= 0)
    assert found["summary"].keys() == set(resolve.load_entry(NAME)[0].metrics)


def test_without_the_very_files_nothing_is_asked(made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(folder: str) -> str:
        with pytest.raises(InvalidRequestError) as e:
            resolve.check_benchmark(NAME, Settings(TUNELOOP_SCORER_FILES=folder))
        assert "\n" not in str(e.value)
        return str(e.value)

    assert "cannot be judged: TUNELOOP_SCORER_FILES= lacks tdc/drd2_current.pkl, tdc/gsk3b" in refused("")
    assert f"TUNELOOP_SCORER_FILES={tmp_path} lacks tdc/drd2_current.pkl" in refused(str(tmp_path))
    assert "is another file: its SHA-256 is" in refused(str(made.folder))
    monkeypatch.setattr(scorer, "THEIRS", made.scorers)
    assert resolve.check_benchmark(NAME, Settings(TUNELOOP_SCORER_FILES=str(made.folder))).name == NAME
    damaged = tmp_path / "damaged"
    shutil.copytree(made.folder, damaged)
    with (damaged / "tdc" / "jnk3_current.pkl").open("ab") as f:
        f.write(b".")
    assert "jnk3_current.pkl is another file" in refused(str(damaged))


def test_through_the_real_engine_in_the_sandbox(
    opencompass: Engine, made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Together with the other scorer that needs files, in one job."""
    monkeypatch.setattr(scorer, "THEIRS", made.scorers)
    run(opencompass, HERE.parent / "make_model_sentences.py", made.folder)
    asked, written_out = item_set(NAME, tmp_path), item_set("bioprobench_gen", tmp_path)
    meaning = written_out.benchmark.model_copy(update={"answer": "scorer:bioprobench_gen_meaning"})
    protocols = ItemSet("bioprobench_gen", meaning, "validation", written_out.items)
    said = dict(zip(made.said["smiles"], zip(*(made.said[name] for name in KEPT), strict=True), strict=True))

    def gain(item: Any, new: str) -> float:
        gold, place = json.loads(item.answer), list(KEPT).index(item.group)
        return float(said[new][place] - said[gold["source"]][place])

    def good_reply(given: ItemSet, item: Any) -> str:
        gold = json.loads(item.answer)
        if given is asked:
            return json.dumps({"output": gold["source"] + "Cl"})
        return f"[ANSWER_START]{gold if isinstance(gold, str) else chr(10).join(gold)}[ANSWER_END]"

    answer: dict[str, Answerer] = {"good": good_reply, "nothing": lambda _, item: ""}
    sets = [asked, protocols]
    models = [ModelWeights(who, written(tmp_path, who, sets, one), replies=True) for who, one in answer.items()]
    command = evaluation_command(opencompass, models, sets, tmp_path / "out", EvaluationConditions(files=made.folder))
    sandbox = ProcessSandbox() if probe_bubblewrap() else BubblewrapSandbox()
    job = launch(sandbox, tmp_path / "jobs", "evaluate", command)
    assert wait(sandbox, job).ok, log_tail(job)
    scores = collect_scores(tmp_path / "out", sets)
    meant = scores["good", protocols.name].metrics
    assert min(meant["step_recall"], meant["keyword_f1"], meant["meteor"]) > 95
    assert set(scores["nothing", protocols.name].metrics.values()) == {0}
    good, none = scores["good", NAME], scores["nothing", NAME]
    assert good.groups.keys() == set(KEPT)
    assert (none.value, none.parsed, good.parsed) == (0, 0, 100)
    for item, result in zip(asked.items, good.items, strict=True):
        source = json.loads(item.answer)["source"]
        if source in said and f"{source}Cl" in said:
            assert result.extra["gain"] == pytest.approx(gain(item, f"{source}Cl"), abs=1e-9)
            assert result.correct == (gain(item, f"{source}Cl") > 1e-6)
    assert any(f"{json.loads(item.answer)['source']}Cl" in said for item in asked.items)


@pytest.mark.skipif(not REAL, reason="TUNELOOP_TEST_ORACLES names no folder with TDC's files")
def test_the_known_files_say_what_is_known_of_them(opencompass: Engine) -> None:
    """Values of TDC's own tests and documents."""
    known = {
        "drd": (0.0015465365340340924, 0.0023541754878916416, 0.004715407010872501),
        "gsk": (0.03, 0.0, 0.0),
        "jnk": (0.01, 0.0, 0.01),
    }
    smiles = (
        "CC(C)(C)[C@H]1CCc2c(sc(NC(=O)COc3ccc(Cl)cc3)c2C(N)=O)C1",
        "CCNC(=O)c1ccc(NC(=O)N2CC[C@H](C)[C@H](O)C2)c(C)c1",
        "C[C@@H]1CCN(C(=O)CCCc2ccccc2)C[C@@H]1O",
    )
    ways = [(name, i, j) for name in known for i, j in ((0, 1), (1, 2), (2, 0))]
    asked = [(json.dumps({"property": n, "source": smiles[i]}), json.dumps({"output": smiles[j]})) for n, i, j in ways]
    place = THEIRS / "chem_oracles.py"
    found = told(opencompass, HERE.parent / "judge_replies.py", JUDGING, place, REAL, given=asked)
    gains = [known[n][j] - known[n][i] for n, i, j in ways]
    assert [one["extra"]["gain"] for one in found["verdicts"]] == pytest.approx(gains, abs=1e-9)
