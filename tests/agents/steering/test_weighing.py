"""One clause: what is told is no wish, what is denied is never done, what is asked changes nothing."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.agents.steering.corpus import known
from tests.agents.steering.teaching import learning
from tuneloop.agents.steering import understand
from tuneloop.agents.steering.weighing import weigh
from tuneloop.core.directive import (
    Approve,
    Avoid,
    Bound,
    Extend,
    Finish,
    Keep,
    Pause,
    Question,
    Reply,
    Revoke,
    Unclear,
    Use,
    dangerous,
)

SAID = [said for lines in learning.examples().values() for said in lines]


def kinds(said: str) -> list[str]:
    return [meaning.kind for meaning in understand(said, known())]


@pytest.mark.parametrize(
    "said", ["because the demo is at four", "since we ship on friday", "linear decays too fast", ""]
)
def test_reasons_mean_nothing(said: str) -> None:
    assert weigh(said, known(), asks=False).means == ()


@pytest.mark.parametrize(
    ("said", "wanted"),
    [
        ("keep the learning rate below 1e-4", Bound(parameter="learning_rate", at_most=1e-4)),
        ("never a rank below 8", Bound(parameter="lora_rank", at_least=8)),
        ("anything beyond rank 32 is a waste", Bound(parameter="lora_rank", at_most=32)),
        ("go with 1e-5", Use(parameter="learning_rate", value=1e-5)),
        ("three passes over the data next time", Use(parameter="num_train_epochs", value=3)),
        ("raise the time limit to three hours", Extend(seconds=3600)),
        ("be done in half an hour", Extend(seconds=-1800)),
        ("raise the token limit to 150,000", Extend(tokens=50_000)),
        ("two more hours, three more experiments", Extend(seconds=7200, experiments=3)),
    ],
)
def test_which_end_and_which_total_the_words_decide(said: str, wanted: Any) -> None:
    assert understand(said, known()) == (wanted,)


@pytest.mark.parametrize(
    "said",
    [
        "would a batch size of 32 fit?",
        "is rank 64 too much?",
        "if the loss rises, use a learning rate of 1e-5",
        "priya mentioned that rank 64 works well",
        "should it get worse, stop after this one",
        "don't delete anything",
        "never publish the model",
    ],
)
def test_questions_conditions_hearsay_and_denials_change_nothing(said: str) -> None:
    assert set(kinds(said)) <= {"unclear", "question"}


@pytest.mark.parametrize(
    ("said", "wanted"),
    [
        ("stop after this one and never use fp16", ["finish", "avoid"]),
        ("how is it going, and how much time is left?", ["question", "question"]),
        ("delete experiment 1 and add an hour", ["delete", "extend"]),
        ("use rank 16, our card is small. Thanks a lot!", ["use"]),
    ],
)
def test_two_wishes_are_both_heard_and_asides_are_not(said: str, wanted: list[str]) -> None:
    assert kinds(said) == wanted


def test_a_wish_to_remove_is_not_lost_beside_another() -> None:
    for said in (
        "stop after this one, and throw away experiment 2's checkpoints",
        "another hour, then send the model to the hub",
    ):
        found = understand(said, known())
        assert any(meaning.kind in ("delete", "publish", "unclear") for meaning in found), found


CONTRARY = (
    *(
        "don't train without asking me",
        "nothing runs without my approval",
        "never skip my approval",
        "keep approvals on",
    ),
    *("please don't pause", "never pause", "don't end the search", "you said you would stop after this one"),
    *("the moment it overfits, pause", "in the event of overfitting, stop", "stop the training but keep searching"),
    *(
        "I refuse to publish the model to the hub",
        "nobody may publish the model",
        "publish the model to the hub when we hit 90",
    ),
    *(
        "rather than delete experiment 2, archive it",
        'she wrote "delete experiment 2"',
        "delete experiment 1 but keep experiment 2",
    ),
    *("delete experiment 2. Actually don't.", "stop. no, go on.", "wrap it up? no"),
    *("don't spend five dollars more", "you can't have another hour", "two more hours per experiment"),
    *(
        "don't forget what I said about the learning rate",
        "revoke everything but the rate limit",
    ),
    *(
        "change the rank from 16 to 8",
        "not between 2 and 5 epochs",
        "no rank between 8 and 16",
        "rank 1e999",
    ),
    *(
        "don't limit the rank to 32",
        "any optimizer but sgd",
        "don't disable packing",
        "change the rank",
        "raise the rank by 8",
    ),
    *(
        "it'd be a mistake to delete experiment 2",
        "feel free to go above rank 64",
        "no need to stop yet",
        "pause is not needed",
    ),
    *("no stop", "shall we stop", "3 more experiments would be too expensive", "you have already spent 3 dollars"),
    *(
        "packing makes it slow",
        "is rank 64 allowed",
        "less than an hour more",
        "use less of the forum",
        "packing, or not?",
    ),
    *(
        "approval is needed",
        "don't auto-approve",
        "stop wasting time",
        "cancel the pause",
        "pause later",
        "stop doing that",
    ),
    *("it will take two more hours", "you wasted 2 hours", "budget: 3 hours", "take two hours", "back in an hour"),
    *("two more experiments left", "stop after two more experiments", "add one or two hours", "we have one hour left"),
    *(
        "three experiments are not enough",
        "the last experiment looked good",
        "is this the last one",
        "finish the report",
    ),
    *("don't forget the textbook", "stop ignoring the textbook", "use the forum posts", "you left out the textbook"),
    *("ignore everything except the textbook", "only the web scrape is noisy", "leave the web scrape alone"),
    *("you're ignoring my limit", "tighten the learning rate limit", "was the limit lifted", "rank 32 without dora"),
    *("scratch rank 64", "rank 32 failed", "I don't mind rank 64", "the paper uses rank 32", "how did rank 32 do"),
    *("use rank 32. I meant 16.", "rank one twenty eight", "learning rate 1e-3 exploded, so go lower", "rank +8"),
    *("adafactor is better than adamw", "no more approvals after experiment 4", "use rank 8 except in experiment 4"),
    *("don't leave out the textbook", "never train without the textbook", "keep the forum", "increase the lr by 50%"),
)


@pytest.mark.parametrize("said", CONTRARY)
def test_words_that_say_the_contrary_change_nothing_that_they_deny(said: str) -> None:
    for meaning in understand(said, known()):
        assert meaning.kind in ("unclear", "question", "focus"), meaning


@pytest.mark.parametrize(
    ("said", "wanted"),
    [
        ("Try rank 16. Don't use the forum posts.", ["use", "sources"]),
        ("Use rank 16. No full fine-tuning.", ["use", "avoid"]),
        ("use rank 16\nno dora", ["use", "avoid"]),
        ("stop. no, go on.", ["unclear"]),
        ("Stop. Never mind.", ["unclear"]),
        ("stop. do not stop now", ["unclear"]),
        ("pause. no please continue", ["unclear"]),
        ("stop. No wait, go on", ["unclear"]),
        ("finish now. on second thought keep going", ["unclear"]),
        ("use rank 16. No wait, rank 8", ["unclear"]),
        ("delete experiment 2. Don't do that.", ["unclear"]),
    ],
)
def test_a_denial_in_the_next_sentence_is_a_wish_but_after_an_end_or_a_deletion(said: str, wanted: list[str]) -> None:
    assert kinds(said) == wanted


def test_of_a_long_message_only_the_beginning_is_read() -> None:
    line = "use rank 16 and a batch size of 8, then stop\n"
    assert understand(line * 2000 + "delete experiment 1", known()) == understand(line * 60, known())


@pytest.mark.parametrize(
    "said",
    [
        "textbook. only.",
        "extra problems in, everything else out",
        "Anything above 2e-4 for LR blew up before; don't go there.",
        "lion_32bit as optimiser, 3e-5 too",
        "use 3e-5 as optimizer",
        "ranks 8, 16",
        "try rank 8,16",
        "max grad norm 1,5",
        "Perhaps one day we'll put this on the hub.",
        "My boss was saying we ought to finish after this one, but he hasn't decided.",
        "just add the textbook too",
    ],
)
def test_what_could_be_read_as_its_contrary_is_unclear(said: str) -> None:
    assert "unclear" in kinds(said) and not {"use", "bound", "sources", "pause", "finish"} & set(kinds(said))


@pytest.mark.parametrize(
    ("said", "wanted"),
    [
        ("bring the forum posts back in, we are allowed to use them after all", [Revoke(ids=("2",))]),
        ("you're free to go higher than 1e-4 with the lr", [Revoke(ids=("1",))]),
        ("take back rules 1 and 2", [Revoke(ids=("1", "2"))]),
        ("I'd hate to see adafactor", [Avoid(parameter="optim", value="adafactor")]),
        ("consider every plan approved in advance", [Approve(at="none")]),
        ("why did 2 fail", [Question(about="failure", experiment=2)]),
        ("got anything planned once this training is through?", [Question(about="plan")]),
        (
            "If you don't mind, set the dropout to 0.1, the last run was overfitting",
            [Use(parameter="lora_dropout", value=0.1)],
        ),
        ("hands off the seed, would you?", [Keep(parameter="seed")]),
        ("I need the GPU for a demo in five minutes, pause it now", [Pause()]),
        ("seed 42 always, otherwise I can't compare them", [Use(parameter="seed", value=42, always=True)]),
        ("don't start experiment 4", [Finish()]),
    ],
)
def test_turns_of_speech_that_were_once_misread(said: str, wanted: list[Any]) -> None:
    assert list(understand(said, known())) == wanted


YES_AND_NO = (
    *("yes, hold on", "yes, stop it", "yes, cancel it", "Yes. Stop.", "yes, in a week"),
    *("yes. but not today.", "yes, no", "great. That failed again", "right, the best is 3", "yes, the answer is no"),
    *(
        "yes, as soon as I have checked it",
        "yes, tomorrow",
        "ok. not now",
        "go on. don't publish",
        "Great! What is next?",
    ),
)


@pytest.mark.parametrize("said", YES_AND_NO)
def test_a_yes_is_never_guessed(said: str) -> None:
    assert not any(isinstance(meaning, Reply) and meaning.yes for meaning in understand(said, known(pending=True)))


@pytest.mark.parametrize("said", ["never use sgd", "no more than 4 epochs", "cancel the limit on the learning rate"])
def test_a_wish_is_no_no(said: str) -> None:
    assert not any(isinstance(meaning, Reply) for meaning in understand(said, known(pending=True)))


@pytest.mark.parametrize(
    ("said", "wanted"),
    [
        ("plus two hours", Extend(seconds=7200)),
        ("1,5 hours more", Extend(seconds=5400)),
        ("one point five hours more", Extend(seconds=5400)),
        ("50.000 more tokens", Extend(tokens=50_000)),
        ("1,5 more Hours", Extend(seconds=5400)),
        ("2,5 days more", Extend(seconds=216_000)),
        ("an extra hour and a half", Extend(seconds=5400)),
        ("two and a half GPU hours on top", Extend(gpu_hours=2.5)),
        ("half a GPU hour fewer", Extend(gpu_hours=-0.5)),
        ("LR one e minus five", Use(parameter="learning_rate", value=1e-5)),
        ("the dropout should be five percent", Use(parameter="lora_dropout", value=0.05)),
        ("label smoothing -> .1", Use(parameter="label_smoothing_factor", value=0.1)),
        ("learning rate 0,0002", Use(parameter="learning_rate", value=2e-4)),
        ("lr 1e−4", Use(parameter="learning_rate", value=1e-4)),
        ("use half a dozen epochs", Use(parameter="num_train_epochs", value=6)),
        ("4 < batch size", Bound(parameter="per_device_train_batch_size", at_least=4)),
        ("keep the rank between 8 and 32", Bound(parameter="lora_rank", at_least=8, at_most=32)),
        ("use rank 16\nstop after this one", None),
    ],
)
def test_signs_and_numbers_as_people_write_them(said: str, wanted: Any) -> None:
    found = understand(said, known())
    assert found == ((wanted,) if wanted else (Use(parameter="lora_rank", value=16), Finish()))


def test_the_open_experiment_may_be_named_no_other() -> None:
    assert understand("stop after experiment 3", known()) == (Finish(),)
    assert not any(isinstance(meaning, Finish | Pause) for meaning in understand("stop after experiment 7", known()))


@pytest.mark.parametrize("said", ["the purple elephant sings", "thanks a lot", "frobnicate the gizmo", "so they say"])
def test_what_is_no_wish_is_unclear_by_itself(said: str) -> None:
    assert kinds(said) == ["unclear"]


@settings(derandomize=True)
@given(st.sampled_from(SAID), st.sampled_from(["if it gets worse, ", "in case of nan, ", "unless it improves, "]))
def test_under_a_condition_nothing_changes(said: str, condition: str) -> None:
    found = understand(condition + re.split(r"[.!?;]", said, maxsplit=1)[0], known())
    changes = [m for m in found if not isinstance(m, Unclear | Question)]
    assert not any(m.kind in ("delete", "publish", "pause", "use", "bound", "sources", "extend") for m in changes), (
        changes
    )


@settings(derandomize=True)
@given(st.sampled_from(SAID), st.sampled_from(SAID))
def test_of_two_messages_nothing_dangerous_comes_that_neither_says(one: str, other: str) -> None:
    def grave(said: str) -> set[str]:
        return {m.kind for m in understand(said, known()) if m.kind in ("delete", "publish", "extend") and dangerous(m)}

    assert grave(f"{one} {other}") <= grave(one) | grave(other) | {"extend"}
