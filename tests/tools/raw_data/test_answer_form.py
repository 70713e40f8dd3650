"""The form of the final answer: what the scorer reads back, in the task's own wording where it has one."""

from __future__ import annotations

import pytest

from tuneloop.core.catalog import Benchmark
from tuneloop.core.text import with_answer
from tuneloop.tools.raw_data.answer_form import final_form, literal_form
from tuneloop.tools.scoring.answer_matching import correct


def benchmark(answer: str, description: str = "A task.", final: str = "") -> Benchmark:
    return Benchmark(name="b", description=description, answer=answer, final=final)


@pytest.mark.parametrize(
    ("pattern", "answers", "template"),
    [
        (r"Result:\s*(-?\d+)", ("12", "-3"), "Result: ANSWER"),
        (r"(?i)answer\s*[:=]\s*([A-D])", ("A", "C"), "answer : ANSWER"),
        (r"^(yes|no)$", ("yes", "no"), "ANSWER"),
        (r"\[\[(\w+)\]\]", ("red", "blue"), "[[ANSWER]]"),
        (r"<answer>(.*?)</answer>", ("a b", "c"), "<answer>ANSWER</answer>"),
        (r"<ANSWER>(.*?)</ANSWER>", ("a b", "c"), "<ANSWER>ANSWER</ANSWER>"),
        (r"####\s*([\d,.]+)", ("1,200", "7"), "#### ANSWER"),
        (r"\b(positive|negative|neutral)\b", ("neutral", "positive"), "ANSWER"),
        (r"final answer is \$?(\d+)", ("5",), "final answer is ANSWER"),
        (r"\d{4}", ("2024", "1999"), "ANSWER"),
        (r"The capital is (?P<town>[A-Z]\w+)\.", ("Paris",), "The capital is ANSWER."),
        (r"\\boxed\{(\d+)\}", ("4",), "\\boxed{ANSWER}"),
        (r"ANSWER:\s*([A-D])", ("A", "C"), "ANSWER: ANSWER"),
    ],
)
def test_forms_are_read_back_by_patterns(pattern: str, answers: tuple[str, ...], template: str) -> None:
    found = final_form(benchmark(f"regex:{pattern}"), "", answers)
    assert found.template == template, literal_form(pattern)
    for answer in answers:
        reply = ("3 + 4 = 7\n" if found.steps else "") + with_answer(found.template, answer)
        assert correct(f"regex:{pattern}", answer, reply)


@pytest.mark.parametrize(("pattern", "steps"), [(r"^(yes|no)$", False), (r"(yes|no)$", True)])
def test_steps_stand_before_an_answer_only_where_it_is_read_after_them(pattern: str, steps: bool) -> None:
    assert final_form(benchmark(f"regex:{pattern}"), "", ("yes", "no")).steps is steps


@pytest.mark.parametrize(
    ("kind", "description", "suffix", "template"),
    [
        ("number", "Ends with `Total: 12`.", "", "Total: ANSWER"),
        ("number", "Solve it.", "\nEnd with #### and the number.", "#### ANSWER"),
        ("choice", 'Finish with "The answer is X".', "", "The answer is ANSWER."),
        ("choice", "Pick one.", "", "Answer: ANSWER"),
        ("boxed", "Say Answer: 3", "", "\\boxed{ANSWER}"),
        ("exact", "Say Label: red", "", "ANSWER"),
        ("verifier:near.py", "Say Label: red", "", "<answer>ANSWER</answer>"),
    ],
)
def test_forms_follow_the_tasks_own_wording(kind: str, description: str, suffix: str, template: str) -> None:
    assert final_form(benchmark(kind, description), suffix, ("1",)).template == template


@pytest.mark.parametrize(
    ("prompt", "description", "template"),
    [
        ("Problem: {problem}\nGive the final number.", "A task.", "Answer: ANSWER"),
        ("Context: {context}\nHypothesis: {hypothesis}", "A task.", "Answer: ANSWER"),
        ("Problem: {problem}\nTotal: 12 is how a reply ends.", "A task.", "Total: ANSWER"),
        ("{problem}", "Source: the test split of a set.", "Answer: ANSWER"),
    ],
)
def test_what_names_a_field_is_no_wording_of_the_answer(prompt: str, description: str, template: str) -> None:
    task = Benchmark(name="b", description=description, answer="number", prompt=prompt)
    assert final_form(task, "", ("1",)).template == template


def test_a_form_that_the_benchmark_states_is_taken() -> None:
    found = final_form(benchmark("number", "Ends with `Total: 12`.", final="= ANSWER ="), "", ("1",))
    assert (found.template, found.steps) == ("= ANSWER =", True)
