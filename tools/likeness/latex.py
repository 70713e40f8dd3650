r"""Formulas without their dress: `\frac{1}{2}` is 1/2, `\text{km}` is km, `$x^{2}$` and x² are x^2."""

from __future__ import annotations

import re

INNER = r"\s*\{([^{}]*)\}"
ONE = r"\s*(?:\{([^{}]*)\}|(\w))"
STYLES = (
    "text(?:bf|it|rm|sf|tt|normal|up|sc)?|math(?:rm|bf|it|sf|tt|cal|bb|frak|scr|normal)|operatorname\\*?|boldsymbol|bm|mbox|"
    "hbox|fbox|boxed|emph|underline|overline|ensuremath|displaystyle|textstyle|limits|nolimits|left|right|middle|"
    "[bB]igg?[lrm]?|quad|qquad|phantom|small|large"
)
NESTED = (
    (re.compile(rf"\\(?:{STYLES})(?![A-Za-z]){INNER}", re.I), r" \1 "),
    (re.compile(rf"\\[dtc]?frac(?![A-Za-eg-z]){ONE}{ONE}", re.I), r" \1\2/\3\4 "),
    (re.compile(rf"\\sqrt(?![A-Za-z]){ONE}", re.I), r" √\1\2 "),
    (re.compile(rf"([\^_]){INNER}"), r"\1\2 "),
)
PLAIN = (
    (re.compile(r"\\(?:begin|end)\s*\{[^{}]*\}(?:\{[^{}]*\})?", re.I), " "),
    (re.compile(r"\^\s*\{?\s*\\circ\s*\}?", re.I), "° "),
    (re.compile(rf"\\(?:{STYLES})(?![A-Za-z])", re.I), " "),
    (re.compile(r"(?<=\d)(?:\\[,;:! ]|\{,\})(?=\d{3}(?!\d))"), ""),
    (re.compile(r"\\%"), "%"),
    (re.compile(r"\\[,;:!> \\$&#_{}()\[\]]"), " "),
)
SIGNS = {
    "times": "×", "cdot": "×", "ast": "×", "div": "/", "le": "≤", "leq": "≤", "leqslant": "≤", "ge": "≥", "geq": "≥",
    "geqslant": "≥", "lt": "<", "gt": ">", "ne": "≠", "neq": "≠", "pm": "±", "sum": "∑", "prod": "∏", "int": "∫", "infty": "∞",
    "to": "→", "rightarrow": "→", "implies": "→", "Rightarrow": "→", "in": "∈", "cup": "∪", "cap": "∩", "subset": "⊂",
    "subseteq": "⊆", "equiv": "≡", "approx": "≈", "angle": "∠", "triangle": "△", "perp": "⊥", "parallel": "∥", "ldots": " ",
    "cdots": " ", "dots": " ", "alpha": "α", "beta": "β", "gamma": "γ", "Gamma": "γ", "delta": "δ", "Delta": "δ",
    "epsilon": "ε", "varepsilon": "ε", "zeta": "ζ", "eta": "η", "theta": "θ", "Theta": "θ", "iota": "ι", "kappa": "κ",
    "lambda": "λ", "Lambda": "λ", "mu": "μ", "nu": "ν", "xi": "ξ", "Xi": "ξ", "pi": "π", "Pi": "π", "rho": "ρ", "sigma": "σ",
    "Sigma": "σ", "tau": "τ", "phi": "φ", "varphi": "φ", "Phi": "φ", "chi": "χ", "psi": "ψ", "Psi": "ψ", "omega": "ω",
    "Omega": "ω",
}  # fmt: skip
COMMAND = re.compile(r"\\([A-Za-z]+)")
DEPTH = 8


def undressed(text: str) -> str:
    """The text with LaTeX commands as signs and words; a text without a backslash or brace is returned as it is."""
    if "\\" not in text and "{" not in text:
        return text
    for pattern, plain in PLAIN[:2]:
        text = pattern.sub(plain, text)
    for _ in range(DEPTH):
        before = text
        for pattern, plain in NESTED:
            text = pattern.sub(plain, text)
        if text == before:
            break
    for pattern, plain in PLAIN[2:]:
        text = pattern.sub(plain, text)
    return COMMAND.sub(lambda m: SIGNS.get(m[1]) or SIGNS.get(m[1].lower(), f" {m[1]} "), text)
