"""cmmlu: Chinese multiple choice in 67 subjects of school and life; the prompt is OpenCompass's."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from tuneloop.core.benchmark import Benchmark, Item, Source
from tuneloop.tools.benchmarks.chinese_subjects import SUBJECTS
from tuneloop.tools.benchmarks.raw import CHOSEN, listed, table, zipped

BENCHMARK = Benchmark(
    name="cmmlu",
    domain="knowledge",
    licence="CC-BY-NC-4.0",
    source=Source(repo="haonan-li/cmmlu", files=("cmmlu_v1_0_1.zip",)),
    description=(
        "Multiple choice with four options A to D in 67 subjects, in Chinese. One may think first; the reply ends with a line "
        "'答案: X' where X is the letter. " + CHOSEN + " All items count the same, and every subject is reported."
    ),
    answer="choice",
    final="答案: ANSWER",
    prompt=(
        "请回答以下关于{subject}的单项选择题, 你回答的最后一行**必须**是以下格式 '答案: $选项' (不带引号), "
        "其中选项是ABCD之一. 请在回答之前一步步思考.\n\n{question}\n\n{options}"
    ),
    max_new_tokens=2048,
)


def pool(benchmark: Benchmark, raw: Path) -> Iterator[Item]:
    """The public test set: 11,582 questions."""
    for name, data in zipped(raw / "cmmlu_v1_0_1.zip"):
        path = PurePosixPath(name)
        if path.parent.name != "test" or path.suffix != ".csv":
            continue
        subject = SUBJECTS.get(path.stem, path.stem)
        for i, row in enumerate(table(data)):
            options = listed(row[letter] for letter in "ABCD")
            fields = {"subject": subject, "question": row["Question"], "options": options}
            item_id = f"{benchmark.name}-{path.stem}-{i:03}"
            yield Item(id=item_id, fields=fields, answer=row["Answer"], group=path.stem)
