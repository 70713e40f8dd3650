"""A text as its letters and digits alone, sign by sign, without case, accents, markup (in a second reading); look-alikes as one."""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Callable, Iterator

# What looks alike, in capitals or not: one class is one letter. Other Latin letters are read by their Unicode names.
ALIKE = {
    "0": "oоοօଠഠဝჿዐⲟⵔ〇ꓳ𐊒𐊫𐐬𐓪𐔖𑣈𑣕𑣗σ", "1": "ilіιӏוᏞǀɩᎥᒪᛁⲓⳑⵏꓡꓲꙇ𐊊𐌉𐌠𐑃𐔦𑣃𑣒𖼖𖼨", "2": "ƨϩᒿꙅꛯꝛ", "3": "ȝʒзӡⳍꝫ𑣊𖼻", "4": "Ꮞ𑣏",
    "5": "𑣛", "6": "бᏮⳓ", "7": "𐓺𑣆", "8": "ȣ𐌚", "9": "ⳋꝯ𑣌𑣖", "a": "аαɑᎪᗅꓮ𐊠𖽀", "b": "вβьƅᏴᏏᑲᖯᗷꓐꞵ𐊂𐊡𐌁", "c": "сᏟⲥꓚ𐊢𐌂𐐽𐔜𑣲",
    "d": "ԁᎠժᏧᑯᗞᗪꓒꓓ", "e": "еεєҽᎬⴹꓰ𐊆𑣎", "g": "ɡᏀƍԍᏳꓖց", "j": "јϳᎫᒍꓙ", "k": "кκᏦᛕⲕꓗ𐔘", "m": "мμᎷϻᗰᛖⲙꓟ𐊰𐌑",
    "n": "hvнηνпһոհѵᎻᏙռᏂᐯᕼⲏⲛⴸꓠꓦꓧꛟ𐋏𐔓𐔝𑜆𑣀𖼈uyуυγүսᎩɣყሀᎽᑌⲩꓬꓴꞟ𐊲𐓶𑣘𖽂𖽃𑣜", "p": "рρᏢᑭⲣꓑ𐊕", "q": "ԛզգⵕ", "r": "гᎡᎱᏒᖇᴦⲅꓣꭇ𐓜𖼵",
    "s": "ѕᏚտᏕꓢ𐊖𐑈𑣁𖼺ƽfϝքᖴꓝ𐊇𐊥𐔥𑣂", "t": "тτᎢⲧꓔ𐊗𐊱𐌕𖼊", "w": "ԝωшѡᎳաᏔꓪ𑜊𑜎𑜏𑣯", "x": "хχᕁᕽᚷⲭⵝꓫꭓ𐊐𐊴𐌗𐌢𐔧𑣬", "z": "ζᏃꓜ𐋵𑣉𑣄",
}  # fmt: skip
# Whose other case, or other name, is like another letter.
EXACT = str.maketrans("ϲϹ𑢦𑢼𑢤ɯ", "ccetyw")
MERGED = {ord(char): one for one, chars in ALIKE.items() for char in chars}
NAMED = re.compile(r"(?:(?:NEGATIVE \w+ )?LATIN|REGIONAL INDICATOR SYMBOL)\b.* LETTER (?:.* )?([A-Z])(?: WITH .*)?$")
GAP = re.compile(r"([\W_]+)")
ENTITY, NO_LETTER = re.compile("&#0*([0-9]+);?"), 8
DASHES, SIGNS = str.maketrans("−–×·⋅∙÷∕⁄", "--****///"), "+*/^%<>-"
MARKUP = re.compile(
    r"<(?:[/?]?[A-Za-z]|!)(?>(?:[^<>\"']|\"[^<\"]*\"|'[^<']*')*)>|\\(?:begin|end|\w*color(?:box)?|href)\s*\{[^{}]*\}|\\[A-Za-z]+"
    r"|\]\((?:[a-z]+:|[/#.])[^()\s]*\)|:[A-Za-z-]+:(?=`)|\x1b\[[0-9;]*[A-Za-z]"
)
MARKED = re.compile(r"[<\\&\x1b]|\]\(|:`|\[/")
CLOSED, BRACKETED = re.compile(r"\[/([A-Za-z]+)\]"), re.compile(r"\[/?([A-Za-z]+)(?:[=\s][^\[\]]*)?\]")


class _Signs(dict[int, str | None]):
    """What each sign is read as, sign by sign, so that no run of accents costs more than its length; filled as signs occur."""

    def __init__(self, read: Callable[[str], str]) -> None:
        self._read = read

    def __missing__(self, code: int) -> str | None:
        self[code] = found = self._read(chr(code)) or None
        return found


def _compatible(sign: str) -> str:
    return unicodedata.normalize("NFKC", sign)


def _plain(sign: str) -> str:
    """The letters and digits that a sign is made of; nothing for all other signs."""
    return "".join(map(_letter, unicodedata.normalize("NFKD", _compatible(sign).casefold())))


def _letter(sign: str) -> str:
    name = unicodedata.name(sign, "")
    if named := NAMED.match(name):
        return named[1].lower()
    if (digit := unicodedata.digit(sign, None)) is not None:
        return str(digit)
    return sign if sign.isalnum() and "FILLER" not in name else ""


COMPATIBLE, PLAIN = _Signs(_compatible), _Signs(_plain)
PLAIN.update((code, chr(one)) for code, one in EXACT.items())


def letters(text: str) -> str:
    """Letters and digits, digits as 0 to 9."""
    return text.translate(PLAIN)


def merged(plain: str) -> str:
    """What `letters` returned with look-alikes as one, sign by sign: O and 0, l and 1 too."""
    return plain.translate(MERGED)


def with_signs(text: str) -> str:
    """The merged letters with the sign of arithmetic that stands between two numbers or one-letter names."""
    parts = GAP.split(text.translate(COMPATIBLE).translate(DASHES))
    found = [merged(letters(part)) for part in parts]
    for i in range(1, len(parts) - 1, 2):
        if all(side.isdecimal() or len(side) == 1 for side in (parts[i - 1], parts[i + 1])):
            found[i] = next((sign for sign in SIGNS if sign in parts[i]), "")
    return "".join(found)


def readings(text: str) -> Iterator[str]:
    """The text as it is; and without tags, entities and LaTeX commands where it may have some."""
    yield text
    if MARKED.search(text):
        bare = MARKUP.sub(" ", unescape(text))
        if names := set(CLOSED.findall(bare)):
            bare = BRACKETED.sub(lambda m: " " if m[1] in names else m[0], bare)
        if bare != text:
            yield bare


def unescape(text: str) -> str:
    """The text without HTML's entities; a number that is no letter's is nothing, however long."""
    return html.unescape(ENTITY.sub(lambda m: f"&#{m[1]};" if len(m[1]) < NO_LETTER else " ", text))
