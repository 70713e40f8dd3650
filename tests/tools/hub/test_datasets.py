from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.hub.server import LocalHub
from tuneloop.core.errors import InvalidRequestError
from tuneloop.core.settings import Settings
from tuneloop.tools.hub import datasets, models
from tuneloop.tools.hub.fetch import is_hub_id
from tuneloop.tools.hub.store import fingerprint
from tuneloop.tools.runs.spec import build_spec

ROW = json.dumps({"q": "1+1", "a": "2"}) + "\n"


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(FT_FILE_PATH=tmp_path / "home")


def folder(place: Path, text: str = ROW) -> str:
    place.mkdir(parents=True)
    (place / "rows.jsonl").write_text(text)
    return str(place)


def test_a_folder_and_a_file_stay_where_they_are(tmp_path: Path, settings: Settings) -> None:
    place = folder(tmp_path / "mine")
    for name, root in ((place, Path(place)), (f"{place}/rows.jsonl", Path(place) / "rows.jsonl")):
        found = datasets.resolve_dataset(name, settings.home, settings)
        assert found.root == root
    assert not settings.home.root.exists()


@pytest.mark.parametrize(
    ("name", "repository"),
    [("alpaca", "tatsu-lab/alpaca"), ("mathinstruct", "TIGER-Lab/MathInstruct"), ("the_stack", "bigcode/the-stack")],
)
def test_names_of_llamafactory_lead_to_the_hub(name: str, repository: str, hub: LocalHub, tmp_path: Path) -> None:
    hub.put("datasets", repository, {"rows.jsonl": ROW.encode()})
    settings = Settings(FT_FILE_PATH=tmp_path / "home")
    found = datasets.resolve_dataset(name, settings.home, settings)
    assert found.dataset.name == name
    assert (found.root / "rows.jsonl").read_text() == ROW
    assert datasets.resolve_dataset(repository, settings.home, settings).root == found.root


def test_each_name_of_llamafactory_is_of_one_kind() -> None:
    hub_names, others = datasets.llamafactory_names(), datasets.other_names()
    assert not hub_names.keys() & (others.files.keys() | others.refused.keys())
    assert not others.files.keys() & others.refused.keys()
    assert all(is_hub_id(repository) for repository in hub_names.values())
    for why in others.refused.values():
        assert "; right is " in why


def test_demo_data_of_a_checkout_are_files(tmp_path: Path) -> None:
    folder(tmp_path / "LLaMA-Factory" / "data")
    demo = tmp_path / "LLaMA-Factory" / "data" / "identity.json"
    demo.write_text(f"[{ROW}]")
    settings = Settings(FT_FILE_PATH=tmp_path / "home", LLAMA_FACTORY_PATH=str(tmp_path / "LLaMA-Factory"))
    assert datasets.checkout_file("identity", settings) == str(demo)
    for name in ("wiki_demo", "alpaca", "org/name"):
        assert datasets.checkout_file(name, settings) == name, "there is no such file, or it is none of these"
    spec = build_spec({"benchmark": "wordproblems", "base_model": "tiny", "datasets": ("identity",)}, settings)
    assert spec.datasets == (str(demo),)
    for name in (spec.datasets[0], "identity"):
        assert datasets.resolve_dataset(name, settings.home, settings).root == demo
    bare = Settings(FT_FILE_PATH=tmp_path / "home")
    assert datasets.checkout_file("identity", bare) == "identity"


def test_two_of_one_name_are_told_apart(tmp_path: Path, settings: Settings) -> None:
    places = [folder(tmp_path / x / "data") for x in "abc"]
    found = datasets.resolve_datasets(places, settings.home, settings)
    assert [d.dataset.name for d in found] == ["data", "data-2", "data-3"]
    assert [d.root for d in found] == [Path(p) for p in places]


def test_the_fingerprint_is_of_the_contents(tmp_path: Path) -> None:
    place = Path(folder(tmp_path / "a"))
    for root in (place, place / "rows.jsonl"):
        before = fingerprint(root)
        (place / "rows.jsonl").write_text(ROW + ROW)
        assert fingerprint(root) != before
        (place / "rows.jsonl").write_text(ROW)
        assert fingerprint(root) == before


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("wordproblms", "did you mean 'wordproblems'"),
        ("./nothing.csv", "no such file or folder"),
        ("a/b/c", "is unknown"),
        ("alpaca_em", "did you mean 'alpaca_en'"),
        ("identity", r"which its package does not ship; right is the path of its data/identity\.json"),
        ("dpo_mix_en", "one part of a repository; right is all of it, llamafactory/DPO-En-Zh-20k"),
        ("llava_1k_en", "holds images; right is"),
        ("deepctrl", "right is FT_HUB=modelscope"),
    ],
)
def test_what_is_not_there_is_one_line(name: str, said: str) -> None:
    with pytest.raises(InvalidRequestError, match=said) as caught:
        datasets.check_dataset(name)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ((), r"config\.json is missing"),
        (("config.json",), r"tokenizer_config\.json is missing"),
        (
            ("config.json", "tokenizer_config.json", "training_args.bin"),
            r"no \*\.safetensors in it, nor pytorch_model\*\.bin",
        ),
    ],
)
def test_a_folder_that_is_no_model(tmp_path: Path, files: tuple[str, ...], said: str) -> None:
    for name in files:
        (tmp_path / name).write_text("{}")
    with pytest.raises(InvalidRequestError, match=said):
        models.check_model(str(tmp_path))


def test_a_registered_name_wins_over_a_folder_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tiny").mkdir()
    monkeypatch.chdir(tmp_path)
    models.check_model("tiny")
