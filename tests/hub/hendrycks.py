"""Made-up problems in the manner of MATH: seven subjects, answers of many LaTeX kinds."""

from __future__ import annotations

SUBJECTS = {
    "algebra": "Algebra",
    "counting_and_probability": "Counting & Probability",
    "geometry": "Geometry",
    "intermediate_algebra": "Intermediate Algebra",
    "number_theory": "Number Theory",
    "prealgebra": "Prealgebra",
    "precalculus": "Precalculus",
}
KINDS = (
    ("Simplify $\\frac{{{0}}}{{{1}}}$ as far as it goes, with ${0}$ and ${1}$ coprime.", "\\frac{{{0}}}{{{1}}}"),
    ("What is ${0}$ percent of ${1}00$?", "{2}"),
    ("For which $x$ is $(x-{0})({1}-x) \\ge 0$? Use interval notation.", "[{0},{1}]"),
    ("Write $\\sqrt{{{0} \\cdot 49}}$ with a root as small as possible.", "7\\sqrt{{{0}}}"),
    ("Give the pair $(a,b)$ with $a={0}$ and $b=-{1}$.", "({0},-{1})"),
    ("Is ${0} + {0}$ even or odd?", "\\text{{even}}"),
    ("How many centimeters are ${0}$ pieces of ${1}$ cm?", "{2}\\text{{ cm}}"),
    ("Expand $(x+{0})(x+{1})$.", "x^2+{3}x+{2}"),
)


def rows(subject: str, offset: int, count: int) -> list[dict[str, str]]:
    """`count` problems of a subject, all different."""
    start = offset + 20 * list(SUBJECTS).index(subject)
    return [row(SUBJECTS[subject], start + i) for i in range(count)]


def row(subject: str, k: int) -> dict[str, str]:
    asked, answer = KINDS[k % len(KINDS)]
    low = 2 * k + 3
    values = (low, low + 1, low * (low + 1), 2 * low + 1)
    gold = answer.format(*values)
    return {
        "problem": f"({subject}) " + asked.format(*values),
        "level": f"Level {k % 5 + 1}",
        "type": subject,
        "solution": f"First we look, as in $\\boxed{{\\text{{a sketch}}}}$. Then it is clear: the answer is $\\boxed{{{gold}}}$.",
    }
