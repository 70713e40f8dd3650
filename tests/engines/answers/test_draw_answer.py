"""What a reply draws is read from its axes, however it was drawn; what it does besides is held."""

from __future__ import annotations

from typing import Any

import pytest

from tests.engines.answers.test_run_answers import Given, run_items
from tuneloop.tools.engines import Engine
from tuneloop.tools.scoring.chart_matching import KINDS

TABLE = 'town,people,visits\nAdal,"1,200",10\nBrin,"2,300",20.5\nCove,900,30\n'
VISITS = [10.0, 20.5, 30.0]
HEAD = "import numpy as np\nimport pandas as pd\nimport matplotlib.pyplot as plt\ndf = pd.read_csv('table.csv')\n"
CODES = {
    "bar": "plt.bar(df['town'], df['visits'])\nplt.show()",
    "bar by pandas": "df.plot(x='town', y='visits', kind='bar')\nplt.tight_layout()\nplt.savefig('x.png')\nplt.close()",
    "bar by axes": "fig, ax = plt.subplots()\nax.bar(range(3), df['visits'])\nax.axhline(5)\nax.axvspan(0, 1)",
    "hbar": "df.plot.barh(x='town', y='visits')\nplt.show()",
    "line": "plt.plot(df['town'], df['visits'], marker='o')\nplt.axhline(3)\nplt.show()",
    "pie": "plt.pie(df['visits'], labels=df['town'], autopct='%1.1f%%')",
    "scatter": "plt.scatter(df['town'], df['visits'])",
    "scatter of marks": "plt.plot(df['town'], df['visits'], 'o')",
    "area": "df.set_index('town')[['visits']].plot.area()",
    "area of layers": "plt.stackplot(range(3), df['visits'], [1, 2, 3])",
    "radar": "a = np.linspace(0, 2 * np.pi, 3, endpoint=False).tolist()\nv = df['visits'].tolist()\n"
    "fig, ax = plt.subplots(subplot_kw=dict(polar=True))\nax.plot(a + a[:1], v + v[:1])\nax.fill(a, v)",
    "bar cleared after it was saved": "plt.bar(df.town, df.visits)\nplt.savefig('a.png')\nplt.clf()\nplt.close('all')",
    "bar of a program": "def main():\n    plt.bar(df.town, df.visits)\nif __name__ == '__main__':\n    main()",
    "bar twice": "fig, (a, b) = plt.subplots(1, 2)\na.bar(df.town, df.visits)\nb.bar(df.town, df.visits)",
}
OTHERS = {
    "nothing": "print(df)",
    "fails": "plt.bar(df['town'], df['nothing'])",
    "connects": "import socket\nsocket.create_connection(('127.0.0.1', 80))",
    "forks": "import os\nos.fork()",
    "reads": "open('/etc/passwd').read()",
    "ends": "import os\nos._exit(0)",
    "spins": "while True: pass",
}


@pytest.fixture(scope="module")
def given(opencompass: Engine, tmp_path_factory: pytest.TempPathFactory) -> Given:
    rows = [
        {"id": name, "code": HEAD + code, "files": {"table.csv": TABLE}} for name, code in {**CODES, **OTHERS}.items()
    ]
    return run_items(tmp_path_factory.mktemp("drawn"), rows, str(opencompass.python), seconds=5)


@pytest.mark.parametrize("name", CODES)
def test_what_was_drawn_is_found(name: str, given: Given) -> None:
    kind = name.partition(" ")[0]
    (one,) = given[name]["results"] or [{}]
    odd: dict[str, list[Any]] = {
        "pie": [pytest.approx([value / 60.5 for value in VISITS])],
        "area of layers": [VISITS, [1, 2, 3]],
        "bar twice": [VISITS, VISITS],
    }
    assert one["value"][KINDS[kind]] == odd.get(name, [VISITS])


@pytest.mark.parametrize(
    ("name", "results"),
    [
        ("nothing", [{"value": {}}]),
        ("fails", [{"error": "KeyError"}]),
        ("connects", [{"error": "PermissionError"}]),
        ("forks", [{"error": "PermissionError"}]),
        ("reads", [{"error": "PermissionError"}]),
        ("ends", None),
        ("spins", None),
    ],
)
def test_what_a_reply_does_besides_is_held(name: str, results: Any, given: Given) -> None:
    assert given[name]["results"] == results
