"""Write `process_data.py`: sources, steps and the benchmark's form as readable constants, then the functions they need."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any

from tuneloop.agents.policy import row_operations, rows
from tuneloop.core import records, text
from tuneloop.core.experiment import Step, Value
from tuneloop.core.untrusted import parse_python

# Functions of the project as source text, with everything they need: what a data script is put together from.

MODULES = (text, records, rows, row_operations)


@dataclass(frozen=True)
class SourcePiece:
    """A function, class or constant: its text and the names it uses."""

    name: str
    text: str
    uses: frozenset[str]


@dataclass(frozen=True)
class SourceLibrary:
    """Pieces in order of definition; the module that a name is imported from, "" for one that is a module itself."""

    pieces: dict[str, SourcePiece]
    imports: dict[str, str]

    def needed(self, names: Iterable[str]) -> list[SourcePiece]:
        """The pieces named and all they use, in order of definition."""
        wanted: set[str] = set()
        queue = list(names)
        while queue:
            name = queue.pop()
            if name in self.pieces and name not in wanted:
                wanted.add(name)
                queue.extend(self.pieces[name].uses)
        return [piece for piece in self.pieces.values() if piece.name in wanted]

    def import_lines(self, used: Iterable[str]) -> list[str]:
        """Import lines that bind the names used, one a module, sorted."""
        known = sorted(self.imports.keys() & used)
        modules = sorted({self.imports[name] for name in known} - {""})
        whole = [f"import {name}" for name in known if not self.imports[name]]
        return whole + [f"from {m} import {', '.join(n for n in known if self.imports[n] == m)}" for m in modules]


@cache
def load_library() -> SourceLibrary:
    """Everything a script may carry."""
    pieces: dict[str, SourcePiece] = {}
    imports: dict[str, str] = {}
    for module in MODULES:
        source = inspect.getsource(module)
        for node in parse_python(source).body:
            if isinstance(node, ast.Import | ast.ImportFrom):
                origin = str(getattr(node, "module", ""))
                own = origin.startswith(("tuneloop", "__future__"))
                imports.update({alias.name: origin for alias in node.names if not own})
            elif (name := bound_name(node)) is not None:
                pieces[name] = SourcePiece(name, source_segment(source, node), names_in(node))
    return SourceLibrary(pieces, imports)


def bound_name(node: ast.stmt) -> str | None:
    """The name a top-level statement binds."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return node.name
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
        return node.targets[0].id
    return None


def source_segment(source: str, node: ast.stmt) -> str:
    """The statement's text, decorators included."""
    decorators: Sequence[ast.expr] = getattr(node, "decorator_list", [])
    first = min([node.lineno, *(d.lineno for d in decorators)])
    return "\n".join(source.splitlines()[first - 1 : node.end_lineno])


def names_in(node: ast.AST) -> frozenset[str]:
    """Every name a statement mentions."""
    return frozenset(n.id for n in ast.walk(node) if isinstance(n, ast.Name))


READ, FORM, SELECT = "use_source", "answer_format", "select"

HEAD = '''"""Raw data below $DATASETS_DIR → data.json for LLaMA-Factory (Alpaca); `python process_data.py [--debug]`.

{purpose}
"""

from __future__ import annotations

{imports}

SEED, LIMIT = {seed}, {limit}
DEBUG_ROWS, DEBUG_READ = 100, 4000  # with --debug: rows written, records read of each source

# Where the raw records lie and which of their fields play which part.
SOURCES = {sources}

# How the benchmark asks and how its scorer wants the answer.
TASK = {task}
WORDS = {words}

# Hashes of questions that the data gate refused, because they hold validation items.
REFUSED = {refused}
'''

MAIN = '''
def main() -> None:
    """Read, clean, select, write."""
    arguments = argparse.ArgumentParser(description="Make data.json from the raw data below $DATASETS_DIR.")
    arguments.add_argument("--debug", action="store_true", help=f"read little, write about {DEBUG_ROWS} rows")
    debug = arguments.parse_args().debug
    root = Path(os.environ["DATASETS_DIR"])
    rows = [row for source in SOURCES for row in read_source(root, source, TASK, DEBUG_READ if debug else None)]
    summary: dict[str, Any] = {"debug": debug, "read": len(rows), "dropped": {}}
    for step, options in STEPS:
        before = len(rows)
        rows = step(rows, **options)
        summary["dropped"][step.__name__] = before - len(rows)
    clean = [row for row in rows if not REFUSED or question_mark(alpaca(row, TASK)) not in REFUSED]
    summary["refused"] = len(rows) - len(clean)
    chosen = select(clean, min(LIMIT, DEBUG_ROWS) if debug else LIMIT, SEED, WORDS)
    data = [alpaca(row, TASK) for row in chosen]
    with open("data.json", "w", encoding="utf-8") as f:
        json.dump(data, f, ensure_ascii=False, indent=1)
    print(json.dumps(summary | {"clean": len(clean), "rows": len(data)}))


if __name__ == "__main__":
    main()
'''


@dataclass(frozen=True)
class Form:
    """How the benchmark asks and reads: the constants of a script that follow from the benchmark, not from the plan.

    `evaluated`: whether a scorer reads answers; without one rows are trained on as the data have them.
    """

    prompt: str
    prefixes: dict[str, str]
    suffixes: dict[str, str]
    constants: tuple[str, ...]
    shape: str
    labels: tuple[str, ...]
    low: float
    high: float
    options: dict[str, str] | None
    final: str
    steps: bool
    evaluated: bool


def compose(
    purpose: str,
    plan: Sequence[Step],
    form: Form,
    limit: int,
    seed: int,
    skip: Mapping[str, str] | None = None,
    refused: Sequence[str] = (),
) -> str:
    """The script's text; `skip`: source → numbers of records that it leaves out; `refused`: marks of questions that it leaves out.

    Raises KeyError for an operation that does not exist.
    """
    sources = [source_entry(step, form, skip or {}) for step in plan if step.do == READ]
    cleaning = [step for step in plan if step.do not in (READ, FORM, SELECT)]
    chosen = next((step for step in plan if step.do == SELECT), Step(do=SELECT))
    lib = load_library()
    if unknown := [step.do for step in cleaning if step.do not in lib.pieces]:
        raise KeyError(f"operation {unknown[0]!r} does not exist")
    pieces = lib.needed(["read_source", "alpaca", "question_mark", "select", *(step.do for step in cleaning)])
    used = {name for piece in pieces for name in piece.uses} | names_in(parse_python(MAIN))
    listed = "\n".join(["STEPS = [", *(step_entry(step) for step in cleaning), "]"])
    imports = {*lib.import_lines(used), "import argparse", "import os"}
    head = HEAD.format(
        purpose=purpose,
        imports="\n".join(sorted(imports, key=lambda line: (line.startswith("from"), line))),
        seed=seed,
        limit=limit,
        sources=format_literal(sources),
        task=format_literal(form_entry(form, plan)),
        refused=format_literal(list(refused)),
        words=format_literal(parse_pairs(option_list(chosen.options, "words"))),
    )
    steps = f"# What is done with the rows, in order, and why.\n{listed}"
    return "\n\n\n".join([head.strip(), lay_out(pieces), steps, MAIN.strip()]) + "\n"


def lay_out(pieces: Sequence[SourcePiece]) -> str:
    """Functions and classes two lines apart, constants in one block before what follows them."""
    out, before = "", ""
    for piece in pieces:
        constant = not piece.text.startswith(("def", "class", "@"))
        out += ("\n" if constant and before == "constant" else "\n\n\n") + piece.text
        before = "constant" if constant else "code"
    return out.strip("\n")


def format_literal(value: Any, indent: str = "") -> str:
    """A literal on as many lines as it needs."""
    if len(line := repr(value)) + len(indent) < 100 or not isinstance(value, dict | list):
        return line
    if isinstance(value, list) and all(isinstance(v, str) for v in value):
        return textwrap.fill(
            line, 116, subsequent_indent=indent + "    ", break_long_words=False, break_on_hyphens=False
        )
    inner = indent + "    "
    keys = [f"{key!r}: " for key in value] if isinstance(value, dict) else [""] * len(value)
    values = value.values() if isinstance(value, dict) else value
    body = "".join(f"{inner}{key}{format_literal(v, inner)},\n" for key, v in zip(keys, values, strict=True))
    return f"{line[0]}\n{body}{indent}{line[-1]}"


def step_entry(step: Step) -> str:
    """`(step, {options}),` below a line that says why."""
    why = printable_line(step.why)
    return (f"    # {why}\n" if why else "") + f"    ({step.do}, {step.options!r}),"


def printable_line(text: str) -> str:
    """One line without control characters: what may stand in a comment or docstring of a script."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def parse_pairs(values: Sequence[str]) -> dict[str, float]:
    """`["now=0.6", …]` → {"now": 0.6, …}."""
    return {name: float(share) for name, _, share in (value.rpartition("=") for value in values)}


def source_entry(step: Step, form: Form, skip: Mapping[str, str]) -> dict[str, Any]:
    """A source as the script's functions want it."""
    o = step.options
    fields: dict[str, list[str]] = {}
    for value in option_list(o, "fields"):
        name, _, path = value.partition("=")
        fields.setdefault(name, []).append(path)
    if not fields:
        free = [name for name in form.suffixes if name not in form.constants]
        fields = {name: option_list(o, "question") if name in free[:1] else [] for name in form.suffixes or ("prompt",)}
    base = o.get("index_base", -1)
    name = f"{o['dataset']}/{o['file']}" + (f"#{o['where']}" if o.get("where") else "")
    return {
        "name": name,
        "dataset": o["dataset"],
        "file": o["file"],
        "where": o.get("where", ""),
        "fields": fields,
        "solution": o.get("solution", ""),
        "key": o.get("key", ""),
        "options": option_list(o, "options"),
        "frame": [o.get("prefix", ""), o.get("suffix", "")],
        "flag": o.get("flag", ""),
        "codes": dict(value.rpartition("=")[::2] for value in option_list(o, "codes")),
        "skip": skip.get(name, "").split(),  # records that hold validation items
        "base": base if isinstance(base, int) and base >= 0 else None,
    }


def option_list(options: dict[str, Value | list[str]], name: str) -> list[str]:
    """An option that is a list; [] without it."""
    value = options.get(name, [])
    return value if isinstance(value, list) else [str(value)]


def form_entry(form: Form, plan: Sequence[Step]) -> dict[str, Any]:
    """The benchmark's form; a plan without the format step asks raw and ends with the bare answer, if any."""
    entry = asdict(form) | {"constants": [form.prefixes[name] for name in form.constants], "labels": list(form.labels)}
    evaluated = entry.pop("evaluated")
    if all(step.do != FORM for step in plan):
        raw = dict.fromkeys(form.suffixes, "")
        entry |= {"prompt": "\n".join(f"{{{name}}}" for name in raw), "prefixes": raw, "suffixes": raw}
        entry["final"] = "ANSWER" if evaluated else ""
    return entry
