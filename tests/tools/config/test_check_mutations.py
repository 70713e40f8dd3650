"""A sound config is broken in ways that are known to be bad: every one is refused, and the key named."""

from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tools.config import world
from tuneloop.tools.config.catalog import Catalog, Parameter
from tuneloop.tools.config.check import check_config
from tuneloop.tools.config.value_check import RANGES

SOUND = [c for c in world.cases("good_engine_configs.yaml") if not c.overrides]
WORDS = st.text("abcdefghijklmnopqrstuvwxyz", min_size=4, max_size=12).filter(
    lambda w: w not in ("true", "false", "null")
)


def named(text: str, key: str, catalog: Catalog, place: Path, device: str = "cpu") -> bool:
    found = check_config(text, catalog, None, device, profile="engine", here=place)
    return any(f.level == "error" and f.key == key for f in found)


def with_value(case: Any, key: str, value: str) -> str:
    kept = [line for line in case.text.splitlines() if line.partition(":")[0] != key]
    return "\n".join([*kept, f"{key}: {value}"])


def misspelt(name: str, data: st.DataObject) -> str:
    at = data.draw(st.integers(0, len(name) - 2))
    ways = (
        name[:at] + name[at + 1 :],
        name[:at] + name[at] + name[at:],
        name[:at] + name[at + 1] + name[at] + name[at + 2 :],
    )
    return data.draw(st.sampled_from((*ways, name.upper(), name.replace("_", "-") + "-", name + "s_")))


@settings(deadline=None)
@given(data=st.data())
def test_a_misspelt_key(data: st.DataObject, catalog: Catalog, place: Path) -> None:
    case = data.draw(st.sampled_from(SOUND))
    name = data.draw(st.sampled_from(sorted(catalog.parameters)))
    wrong = misspelt(name, data)
    if wrong not in catalog.parameters:
        assert named(f"{case.text}\n{wrong}: 1", wrong, catalog, place, case.device)


def beyond(parameter: Parameter, data: st.DataObject) -> str:
    """A number outside of a parameter's range."""
    limits = RANGES[parameter.name]
    low = [v for v in (limits.low - 1, limits.low - 0.5, -7) if v < limits.low and v not in limits.also]
    high = [limits.high * 2 + 1] if limits.high < 1e9 else []
    edge = [limits.low] * limits.above + [limits.high] * limits.below
    value = data.draw(st.sampled_from([v for v in (*low, *high, *edge) if abs(v) < 1e12 and v not in limits.also]))
    return str(round(value) if parameter.kinds & {"int"} and value == round(value) else value)


@settings(deadline=None)
@given(data=st.data())
def test_a_number_outside_its_range(data: st.DataObject, catalog: Catalog, place: Path) -> None:
    case = data.draw(st.sampled_from(SOUND))
    ranged = [name for name in RANGES if name in catalog.parameters and abs(RANGES[name].low) < 1e9]
    name = data.draw(st.sampled_from(sorted(ranged)))
    text = with_value(case, name, beyond(catalog.parameters[name], data))
    assert named(text, name, catalog, place, case.device)


@settings(deadline=None)
@given(data=st.data())
def test_a_value_of_another_type(data: st.DataObject, catalog: Catalog, place: Path) -> None:
    case = data.draw(st.sampled_from(SOUND))
    plain = [
        p for p in catalog.parameters.values() if p.settable and p.kinds and p.kinds <= {"int", "float", "bool", "none"}
    ]
    parameter = data.draw(st.sampled_from(plain))
    number = data.draw(st.integers(1, 99))
    wrong = [
        "[1]",
        "{a: 1}",
        data.draw(WORDS),
        f"'{number}'",
        f"{number}k",
        f"{number}%",
        f"{number},",
        f"{number} {number}",
    ]
    if "bool" not in parameter.kinds:
        wrong += ["yes", "false"]
    if parameter.kinds <= {"int", "none"}:
        wrong += [f"{number}.5", f"{number}.0"]
    text = with_value(case, parameter.name, data.draw(st.sampled_from(wrong)))
    assert named(text, parameter.name, catalog, place, case.device)


@settings(deadline=None)
@given(data=st.data())
def test_a_choice_that_is_none(data: st.DataObject, catalog: Catalog, place: Path) -> None:
    case = data.draw(st.sampled_from(SOUND))
    parameter = data.draw(
        st.sampled_from([p for p in catalog.parameters.values() if p.choices and p.kinds <= {"none"}])
    )
    near = str(data.draw(st.sampled_from(parameter.choices)))
    value = data.draw(st.sampled_from([near.upper(), near + "x", near[1:] or "x", f"[{near}]", "true", "7"]))
    if value not in parameter.choices:
        assert named(with_value(case, parameter.name, value), parameter.name, catalog, place, case.device)


@settings(deadline=None)
@given(data=st.data())
def test_names_that_are_not_there(data: st.DataObject, catalog: Catalog, place: Path) -> None:
    case = data.draw(st.sampled_from([c for c in SOUND if c.line == ""]))
    key = data.draw(
        st.sampled_from(
            ["dataset", "template", "lora_target", "additional_target", "dataset_dir", "model_name_or_path"]
        )
    )
    known = {*world.registered(), *catalog.templates, "data", "model"}
    name = data.draw(WORDS.filter(lambda w: w not in known))
    assert named(with_value(case, key, f"./{name}" if key == "model_name_or_path" else name), key, catalog, place)


def test_nothing_is_wrong_beside_a_large_data_set(catalog: Catalog, place: Path) -> None:
    (place / "data/large.jsonl").write_text('{"instruction": "say a", "input": "", "output": "a"}\n' * 100_000)
    info = place / "data/dataset_info.json"
    info.write_text(info.read_text()[:-1] + ', "large": {"file_name": "large.jsonl"}}')
    text = with_value(SOUND[0], "dataset", "large")
    for _ in range(2):  # profiled, then remembered
        found = check_config(text, catalog, None, "cpu", 64 << 30, profile="engine", here=place)
        assert not [f for f in found if f.level == "error"]
