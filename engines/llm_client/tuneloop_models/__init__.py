"""Ask models many things from a data script: `from tuneloop_models import ask_many`. Standard library only.

    answers = ask_many([f"Solve step by step: {row['question']}" for row in rows], system="You are a teacher.", temperature=0.7)
    rows = [{**row, "output": answer.text} for row, answer in zip(rows, answers) if answer.text is not None]

Answers come in the order of the prompts. Each is kept under everything that was asked, so a script that runs again, after
a crash or a repair, gets it without paying. A row without an answer is no error: its `text` is None and `why` says why.
Where the endpoint itself is gone the script ends with status 75; the run pauses, and what was answered is kept.
"""

from tuneloop_models.answers import Answer
from tuneloop_models.batch import allowance, ask_many

__all__ = ["Answer", "allowance", "ask_many"]
