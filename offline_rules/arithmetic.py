"""Sums in plain words or symbols, as expressions for the calculator.

"15% of 80" becomes `15 / 100 * 80`, "the hour in Tokyo times 3" a formula that waits for a clock, "and
then add 10" one that waits for the result before it. A text is a sum only when every word of it takes
part; anything else is left alone. Nothing is computed here.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from offline_rules.clocks import zone

PREVIOUS = "{previous}"
"""Stands in a formula for the result before it."""
LONGEST = 300
"""Characters of a sum in words. One in symbols goes to the calculator whatever its length."""

_FIELDS = ("hour", "minute", "second", "day", "month", "year")
_GAP = re.compile(rf"\{{({'|'.join(_FIELDS)}) ([^}}]*)\}}")


class Formula(NamedTuple):
    """An expression for the calculator, perhaps with gaps for results that are not there yet."""

    template: str

    @property
    def zones(self) -> list[str]:
        """Time zones whose clock it needs; "" is the machine's own."""
        return list(dict.fromkeys(zone for _, zone in _GAP.findall(self.template)))

    @property
    def chained(self) -> bool:
        """Whether it needs the result before it."""
        return PREVIOUS in self.template

    def fill(self, previous: str, clocks: dict[str, dict[str, int]]) -> str:
        """Put the previous result, and the fields of the clocks by zone, into the gaps."""
        text = _GAP.sub(lambda gap: str(clocks[gap[2]][gap[1]]), self.template)
        return text.replace(PREVIOUS, f"({previous})" if previous.startswith("-") else previous)


_ASKING = re.compile(
    r"(?i)^(?:(?:hey|hi|hello|please|so|ok|okay|now|and|then|also|finally|first|next|"
    r"(?:can|could|would) you|(?:tell|give|show) me|i need|what(?:['’]?s| is| are| would be)|"
    r"how much (?:is|are|makes?)|calculate|compute|"
    r"work out|evaluate|solve|(?:the )?(?:result|value|answer)(?: of)?(?= [\d(a-z]))\b[\s,:]*)+"
)
_END = re.compile(r"(?i)[\s,]*\b(?:please|for me|equals?|thanks|thank you|now)$")
_EXPLICIT = re.compile(r"(?is)^.{0,40}?\b(?:calculate|compute|evaluate|work out)\b[\s:]*(.*[\d(].*)$")
_SYMBOLS = re.compile(r"(?s)(?=.*\d\)*\s*[-+*/^%×÷·−])[\d\s.,()\-+*/^%×÷·−]+")
_NO_SUM = re.compile(  # dates, versions, phone numbers
    r"\b\d{4}-\d\d-\d\d\b|\b\d{1,2}[-/.]\d{1,2}[-/.]\d{2,4}\b|\b\d+(?:\.\d+){2,}|(?<![\d.])0\d"
)
# Phrases to the tokens that the parser knows, longer ones first.
_REWRITES = tuple(
    (re.compile(f"(?i){pattern}"), tokens)
    for pattern, tokens in (
        (r"(?<=\d),(?=\d{3}\b)", ""), (r"[$€£]", ""),
        (r"(?<=\d)\s*[x×·]\s*(?=[\d(])", " * "),
        (r"[×·]", "*"), (r"÷", "/"), (r"[−–]", "-"), (r"\^", "**"),
        (r"\bremainder (?:of|when|from) (.{1,60}?) (?:is )?divided by\b", r"\1 mod"),
        (r"\b(?:multiplied by|times)\b", "*"), (r"\bdivided by\b", "/"),
        (r"\b(?:raised )?to the power(?: of)?\b", "**"), (r"\bplus\b", "+"), (r"\bminus\b", "-"),
        (r"\bper ?cent\b", "%"), (r"\bsquared\b", "** 2"), (r"\bcubed\b", "** 3"), (r"\bmodulo\b", "mod"),
        (r"\bsquare root\b", "sqrt"), (r"\bhalf of\b", "0.5 *"), (r"\btwice\b", "2 *"),
        (r"\bthe\b", " "), (r"\b(?:that result|result|answer|total|this|that|it)\b", "previous"),
    )
)  # fmt: skip
_TOKEN = re.compile(r"(?i)\s*(\d+(?:\.\d+)?(?:e[+-]?\d+)?|\.\d+|\*\*|//|[-+*/%(),!]|[^\W\d_]+)")
_SIGNS = {"+": "+", "-": "-", "*": "*", "/": "/", "//": "//", "mod": "%", "over": "/", "**": "**"}
_FUNCTIONS = {
    name: name for name in ("sqrt", "factorial", "abs", "floor", "ceil", "round", "exp", "min", "max")
}
_FUNCTIONS |= {"sine": "sin", "sin": "sin", "cosine": "cos", "cos": "cos", "tangent": "tan", "tan": "tan"}
_FUNCTIONS |= {"log": "log", "ln": "ln", "logarithm": "log"}
_JOINED = {"sum": " + ", "product": " * ", "difference": " - ", "average": " + ", "mean": " + "}
_CHANGED = {"double": " * 2", "triple": " * 3", "halve": " / 2", "square": " ** 2", "cube": " ** 3"}
_SMALL = {
    word: number
    for number, word in enumerate(
        ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven",
         "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen")
    )
}  # fmt: skip
_TENS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
_SMALL |= {word: number for number, word in zip(range(20, 100, 10), _TENS, strict=True)}
_LARGE = {"hundred": 100, "thousand": 1_000, "million": 1_000_000, "billion": 1_000_000_000}
_AFTER_PLACE = ("mod", "over", "and", "by", "to", "from", "with", "now")
_BETWEEN_NUMBERS = {"add", "multiply", "subtract", "divide", *_JOINED}
"""Words after which an "and" stands between two numbers rather than inside one."""


def formula(text: str) -> Formula | None:
    """Return the sum that a clause asks for, or None when it asks for none."""
    if len(text) > 50_000:
        return None
    text = " ".join(text.split())
    asked = _without_end(_ASKING.sub("", text))
    if not _NO_SUM.search(asked.replace(",", "")):
        if _SYMBOLS.fullmatch(asked) and ("%" not in asked or len(asked) > LONGEST):
            return Formula(" ".join(_rewritten(asked).split()))
        if len(asked) <= LONGEST:
            try:
                return Formula(_Parser(asked).whole())
            except _NoSumError:
                pass
    explicit = _EXPLICIT.match(text)
    if explicit and not re.search(r"[^\W\d_]{3,} [^\W\d_]{3,}", explicit[1]):
        return Formula(_without_end(explicit[1]))  # the calculator says what is wrong with it
    return None


def _without_end(text: str) -> str:
    """Take off what stands after a sum: "= ?", "please", a mark that is no factorial."""
    while True:
        shorter = _END.sub("", text.rstrip(" ?.=,"))
        if shorter.endswith("!") and not shorter[-2:-1].isdigit():
            shorter = shorter[:-1]
        if shorter == text:
            return text
        text = shorter


def _rewritten(text: str) -> str:
    for pattern, tokens in _REWRITES:
        text = pattern.sub(tokens, text)
    return text


class _NoSumError(Exception):
    """The text is no sum."""


class _Parser:
    """A recursive-descent parser that reads words and symbols and writes the calculator's expression."""

    def __init__(self, text: str) -> None:
        text = _rewritten(text).rstrip()
        tokens: list[str] = []
        end = 0
        while end < len(text):
            token = _TOKEN.match(text, end)
            if not token:
                raise _NoSumError
            tokens.append(token[1].lower())
            end = token.end()
        self.tokens = _with_digits(tokens)
        self.at = 0
        self.depth = 0
        self.operations = 0

    def whole(self) -> str:
        """Parse all of it. What is left over, or a number alone, means that it is no sum."""
        if self.next in _SIGNS and (self.next != "-" or len(self.tokens) == 2):
            self.tokens.insert(0, "previous")  # "times 3" goes on from the result before it
        text = self.expression()
        if self.next or not self.operations:
            raise _NoSumError
        return _unwrap(text)

    @property
    def next(self) -> str:
        """The token to be read, "" at the end."""
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def take(self, *wanted: str) -> str:
        """Read the next token if it is one of these; "" otherwise."""
        token = self.next
        if not token or token not in wanted:
            return ""
        self.at += 1
        return token

    def need(self, *wanted: str) -> None:
        """Read one of these tokens, or it is no sum."""
        if not self.take(*wanted):
            raise _NoSumError

    def expression(self) -> str:
        """Terms with + and - between them."""
        self.depth += 1
        if self.depth > 40:  # deep nesting is a matter for the calculator, not for this recursion
            raise _NoSumError
        text = self.term()
        while sign := self.take("+", "-"):
            self.operations += 1
            text = f"{text} {sign} {self.term()}"
        self.depth -= 1
        return text

    def term(self) -> str:
        """Factors with `*`, `/`, `//` and `mod` between them."""
        text = self.factor()
        while sign := self.take("*", "/", "//", "mod", "over"):
            self.operations += 1
            text = f"{text} {_SIGNS[sign]} {self.factor()}"
        return text

    def factor(self) -> str:
        """A value with its sign, factorial and power."""
        if self.take("-", "negative"):
            return f"-{self.factor()}"
        text = self.value()
        if self.take("!"):
            self.operations += 1
            text = f"factorial({text})"
        if self.take("**"):
            self.operations += 1
            text = f"{text} ** {self.factor()}"
        return text

    def value(self) -> str:
        """A number, parentheses, the previous result, a clock, a function, or a verb with what it acts on."""
        word = self.next
        self.at += 1
        if re.match(r"[\d.]", word):
            return self.percent(word)
        if word == "(":
            text = self.expression()
            self.need(")")
            return f"({_unwrap(text)})"
        if word == "previous":
            return PREVIOUS
        if word in ("pi", "tau", "e"):
            return word
        if word in (*_FIELDS, "current"):
            return self.clock(word if word in _FIELDS else self.take(*_FIELDS))
        if word == "take":  # "take the square root of 2"
            return self.factor()
        self.operations += 1
        if word in _FUNCTIONS:
            return self.call(_FUNCTIONS[word])
        if word in _JOINED:
            return self.joined(word)
        if word in _CHANGED:
            return f"({self.operand()}{_CHANGED[word]})"
        return self.verb(word)

    def percent(self, number: str) -> str:
        """`15 % of 80`, `15 %`, or `17 % 5`, which is a remainder."""
        if not self.take("%"):
            return number
        self.operations += 1
        if self.take("of"):
            return f"({number} / 100 * {self.factor()})"
        if re.match(r"[\d.(]", self.next):
            return f"({number} % {self.factor()})"
        return f"({number} / 100)"

    def clock(self, field: str) -> str:
        """`hour in Tokyo`, `current year`, `day of month`."""
        if not field:
            raise _NoSumError
        if self.take("of"):
            self.need("month")
        place: list[str] = []
        if self.take("in"):
            while self.next.isalpha() and self.next not in _AFTER_PLACE:
                place.append(self.next)
                self.at += 1
        self.take("now")
        return f"{{{field} {zone(' '.join(place)) if place else ''}}}"

    def call(self, name: str) -> str:
        """`sqrt of 2`, `max(3, 4)`."""
        self.take("of")
        if not self.take("("):
            return f"{name}({_unwrap(self.factor())})"
        arguments = [_unwrap(self.expression())]
        while self.take(","):
            arguments.append(_unwrap(self.expression()))
        self.need(")")
        return f"{name}({', '.join(arguments)})"

    def joined(self, kind: str) -> str:
        """`sum of 3, 4 and 5`."""
        self.need("of", "between")
        items = self.items()
        if len(items) < 2:
            raise _NoSumError
        text = f"({_JOINED[kind].join(items)})"
        return f"({text} / {len(items)})" if kind in ("average", "mean") else text

    def items(self) -> list[str]:
        """`3, 4 and 5`."""
        items = [self.factor()]
        while self.take(",", "and"):
            self.take("and")
            items.append(self.factor())
        return items

    def operand(self) -> str:
        """What a verb acts on: the previous result when nothing is named."""
        return PREVIOUS if self.next in ("", "by", "with") else self.factor()

    def verb(self, verb: str) -> str:
        """`add 3 to 4`, `subtract 3 from 4`, `multiply 3 by 4`, `divide it by 2`."""
        if verb == "add":
            items = self.items()
            if self.take("to"):
                items.insert(0, self.factor())
            return f"({' + '.join(items if len(items) > 1 else [PREVIOUS, *items])})"
        if verb in ("subtract", "deduct"):
            taken = self.factor()
            return f"({self.factor() if self.take('from') else PREVIOUS} - {taken})"
        if verb in ("multiply", "divide"):
            first = self.operand()
            self.need("by", "with", "and")
            return f"({first} {'*' if verb == 'multiply' else '/'} {self.factor()})"
        raise _NoSumError


def _unwrap(text: str) -> str:
    """Take off parentheses that enclose the whole text."""
    if not text.startswith("(") or not text.endswith(")"):
        return text
    depth = 0
    for index, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if depth == 0 and index < len(text) - 1:
            return text
    return text[1:-1]


def _with_digits(tokens: list[str]) -> list[str]:
    """Put digits in place of number words: `twenty`, `-`, `five`, or `two`, `hundred`, `and`, `five`."""
    listing = not _BETWEEN_NUMBERS.isdisjoint(tokens)  # "add a hundred and five" names two numbers
    result: list[str] = []
    index = 0
    while index < len(tokens):
        word, after = tokens[index], "".join(tokens[index + 1 : index + 2])
        index += 1
        if word not in _SMALL and not (word == "a" and after in _LARGE):
            result.append(word)
            continue
        total, part = 0, _SMALL.get(word, 1)
        while index < len(tokens):
            word, after = tokens[index], "".join(tokens[index + 1 : index + 2])
            if word in _LARGE:
                part *= _LARGE[word]
                if word != "hundred":
                    total, part = total + part, 0
            elif word in _SMALL and _continues(part, _SMALL[word]):
                part += _SMALL[word]
            elif not (
                (word == "-" and part % 100 >= 20 and _continues(part, _SMALL.get(after, 0)))
                or (word == "and" and not listing and after in _SMALL and part % 100 == 0)
            ):
                break
            index += 1
        result.append(str(total + part))
    return result


def _continues(part: int, word: int) -> bool:
    """Tell whether a number word adds to what came before it, as `five` does to `twenty`."""
    return part % 100 == 0 or (part % 100 >= 20 and part % 10 == 0 and 0 < word < 10)
