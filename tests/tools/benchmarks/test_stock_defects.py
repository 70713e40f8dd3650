"""Where OpenCompass's own scoring of these benchmarks is wrong, ours is right: both really run."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

from tests.benchmark_answers import measured
from tuneloop.core.catalog import Item
from tuneloop.tools.benchmark_items import resolve
from tuneloop.tools.engines import Engine
from tuneloop.tools.evaluation.item_sets import ItemSet

HERE = Path(__file__).parents[2] / "engines" / "opencompass"
# benchmark, the stock scorer, gold, a reply, whether the reply is right: the stock scorer says the opposite of each
DEFECTS = [
    ("gsm8k", "gsm8k", "1250", "The mill saws 1,250 planks.", True),  # reads 250
    ("gsm8k", "gsm8k", "12", "\\boxed{12}, that is 5 and 7", True),  # takes the last number behind the box
    ("gsm8k", "gsm8k", "7", "<think>It could be 7", False),  # counts unfinished thoughts
    ("math", "math", "\\frac{1}{2}", "Hence \\boxed{0.50}.", True),  # compares texts
    ("math", "math", "3\\sqrt{2}", "\\boxed{\\sqrt{18}}", True),
    ("math", "math", "x^2+2x+1", "\\boxed{(x+1)^2}", True),
    ("math", "math", "7", "7. But I am not sure at all.", False),  # without a box the first sentence is the answer
    ("math500", "math_verify", "\\frac{1}{2}", "Not \\boxed{3} but \\boxed{\\frac{1}{2}}.", True),  # joins all boxes
    ("math500", "math_verify", "5", "\\fbox{5}", True),
    ("mmlu", "mmlu", "B", "The options say 'ANSWER: A' at first sight.\nANSWER: B", True),  # takes the first
    ("mmlu", "mmlu", "B", "<think>ANSWER: B", False),
    ("mmlu", "mmlu", "B", "**Answer:** B", True),
    ("cmmlu", "cmmlu", "B", "答案是：B", True),  # wants an ASCII colon
    ("FinanceIQ_gen", "FinanceIQ_gen", "D", "根据GDP增速，答案是: D", True),  # takes the first capital letter
    ("arc_c", "arc_c", "D", "Plan A fails here. Final answer: **D**", True),  # takes the article or a name
    ("arc_c", "arc_c", "C", "Cold water sinks; nothing more can be said.", False),  # any capital is an answer
    ("arc_e", "arc_c", "E", "The answer is E.", True),  # drops questions of five options
    ("bbh", "bbh_option", "A", "The answer is B at first. So the answer is (A).", True),
    ("bbh", "bbh_option", "I", "I cannot tell.", False),  # any capital is an option
    ("bbh", "bbh", "8", "So the answer is 3 + 5 = 8.", True),
    ("bbh", "bbh", "] ]", "So the answer is `]]`.", True),
]


def test_where_the_stock_scorer_errs_ours_does_not(opencompass: Engine, tmp_path: Path) -> None:
    (tmp_path / "asked.json").write_text(json.dumps([row[1:4] for row in DEFECTS]))
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    argv = [opencompass.python, HERE / "reference_verdicts.py", tmp_path / "asked.json", tmp_path / "stock.json"]
    done = subprocess.run(argv, env=env, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    stock = json.loads((tmp_path / "stock.json").read_text())
    assert stock == [not right for *_, right in DEFECTS]

    replies = {f"{i:02}": row[3] for i, row in enumerate(DEFECTS)}
    sets = [judged_by(name) for name in dict.fromkeys(row[0] for row in DEFECTS)]
    scores = measured(opencompass, tmp_path, sets, {"replies": lambda _, item: replies[item.id]})
    ours = {item.id: item.correct for score in scores.values() for item in score.items}
    assert ours == {f"{i:02}": row[4] for i, row in enumerate(DEFECTS)}


def judged_by(name: str) -> ItemSet:
    """The rows of one benchmark as its items."""
    items = [
        Item(id=f"{i:02}", fields={}, answer=f"({gold})" if stock == "bbh_option" else gold)
        for i, (of, stock, gold, _, _) in enumerate(DEFECTS)
        if of == name
    ]
    return ItemSet(name, resolve.load_entry(name)[0], "validation", tuple(items))
