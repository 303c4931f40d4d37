"""Arithmetic for a model: an expression goes in, its value comes out as text, at once and whatever was asked.

`simpleeval` walks the expression, and only the kinds of node listed here are left in it: numbers,
operators, calls of the functions below. It bounds exponents, not results, and `((10**100)**100)**100`
has small exponents. So every value on the way is bounded here, and powers, factorials and the like
are estimated *before* they are worked out. Since an expression is short and every value in it is
bounded, so is the work.

Not covered: algebra, units, variables, complex numbers, and decimal fractions of more than 15 digits.
"""

from __future__ import annotations

import ast
import functools
import math
import operator
import re
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

from tools import ToolError

if TYPE_CHECKING:
    from simpleeval import SimpleEval  # type: ignore[import-untyped] # it ships no types

Number = int | float

MAX_EXPRESSION = 2_000
"""Characters of an expression."""

MAX_DIGITS = 4_000
"""Digits of a whole number, also on the way. Python writes at most 4,300 (`sys.set_int_max_str_digits`)."""

MAX_BITS = math.ceil(MAX_DIGITS * math.log2(10))

MAX_PLACES = 30
"""Places that `round` accepts on either side of the point; so `round(1,234)`, a separator, is refused."""

SIGNS = str.maketrans("×⋅·÷−–（）＋－＊／％．，", "***/--()+-*/%.,")
"""Signs that people and models write for the operators, and the full-width forms of East Asian input."""

_PERCENT = re.compile(r"%\s*(?:[+\-*/%),]|$)")

TOO_LARGE = (
    f"the result is too large: whole numbers have up to {MAX_DIGITS:,} digits here, others reach 1.8e308"
)


def calculate(expression: str) -> str:
    """Evaluate an arithmetic expression.

    Whole numbers stay exact, and a division that comes out even stays whole. Other results are
    rounded to 15 significant digits, as many as a float always keeps, so that 0.1 + 0.2 is 0.3.

    Raises:
        ToolError: it is not arithmetic, has no value, or is too large; the text says which, for a model.
    """
    from simpleeval import InvalidExpression

    if len(expression) > MAX_EXPRESSION:
        raise ToolError(
            f"the expression has {len(expression):,} characters; up to {MAX_EXPRESSION:,} are allowed"
        )
    text = " ".join(expression.translate(SIGNS).split())
    if _PERCENT.search(text):
        raise ToolError(
            "% is the remainder and needs a number after it; write 15 percent of 200 as 15/100*200"
        )
    try:
        with warnings.catch_warnings():
            warnings.simplefilter(
                "ignore"
            )  # Python's hints about odd literals ("1or 2") are not for the screen
            tree = ast.parse(text, mode="eval")
        return _show(_number(_evaluator().eval(text, previously_parsed=tree.body)))
    except ToolError:
        raise
    except ZeroDivisionError:
        raise ToolError("division by zero") from None
    except OverflowError:
        raise ToolError(TOO_LARGE) from None
    except (RecursionError, MemoryError):  # the parser's own limits on nesting raise either
        raise ToolError("the expression is nested too deeply") from None
    except SyntaxError as error:
        raise ToolError(f"not an arithmetic expression ({error.msg}); {_allowed()}") from None
    except (InvalidExpression, ValueError, TypeError) as error:
        raise ToolError(_explain(error)) from None


def _explain(error: Exception) -> str:
    from simpleeval import FunctionNotDefined, InvalidExpression, NameNotDefined

    if isinstance(error, FunctionNotDefined):
        return f"there is no function {error.func_name!r}; {_allowed()}"
    if isinstance(error, NameNotDefined):
        return f"there is no value named {error.name!r}; {_allowed()}"
    if isinstance(error, InvalidExpression):
        return f"only arithmetic is allowed; {_allowed()}"
    if isinstance(error, ValueError):
        return f"a function has no real value there ({error})"
    return (
        f"that cannot be worked out ({str(error).lstrip('_')})"  # "_sqrt() takes 1 positional argument ..."
    )


def _allowed() -> str:
    return (
        "use numbers, + - * / // % **, parentheses, the constants "
        f"{', '.join(CONSTANTS)} and the functions {', '.join(FUNCTIONS)}"
    )


def _show(value: Number) -> str:
    if isinstance(value, float):
        # Below 2**53 a float that is whole is exactly that whole number.
        return str(int(value)) if value.is_integer() and abs(value) < 2**53 else format(value, ".15g")
    return str(value)


def _number(value: object) -> Number:
    """Let through what is a number within bounds."""
    if callable(value):
        raise ToolError("a function needs its parentheses, as in sqrt(2)")
    if isinstance(value, complex):
        raise ToolError("the result is not a real number")
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ToolError(f"only numbers can be calculated with, not {type(value).__name__}")
    within = value.bit_length() <= MAX_BITS if isinstance(value, int) else math.isfinite(value)
    if not within:
        raise ToolError(TOO_LARGE)
    return value


def _bounded(function: Callable[..., Any]) -> Callable[..., Any]:
    """Let a function see only numbers within bounds. Its result is looked at where it is used."""

    @functools.wraps(function)
    def call(*values: object) -> Any:
        return function(*(_number(value) for value in values))

    return call


def _expect_bits(bits: float) -> None:
    """Refuse a whole number that is about to be worked out and would be too large."""
    if bits > MAX_BITS:
        raise ToolError(TOO_LARGE)


def _power(base: Number, exponent: Number) -> Any:
    if isinstance(base, int) and isinstance(exponent, int) and exponent > 0:
        # |base| >= 2**(bit_length - 1), so this is a lower bound of the result, and at least half of it.
        _expect_bits((abs(base).bit_length() - 1) * exponent)
    return base**exponent


def _divide(dividend: Number, divisor: Number) -> Number:
    if isinstance(dividend, int) and isinstance(divisor, int) and divisor and dividend % divisor == 0:
        return dividend // divisor
    return dividend / divisor


def _sqrt(value: Number) -> Number:
    if isinstance(value, int) and value >= 0 and math.isqrt(value) ** 2 == value:
        return math.isqrt(value)
    return math.sqrt(value)


def _factorial(n: int) -> int:
    if n > 1:
        _expect_bits(n * (math.log2(n) - math.log2(math.e)))  # n! > (n/e)**n
    return math.factorial(n)


def _comb(n: int, k: int) -> int:
    fewer = min(k, n - k)
    if fewer > 0:
        _expect_bits(fewer * (math.log2(n) - math.log2(fewer)))  # comb(n, k) >= (n/k)**k
    return math.comb(n, k)


def _perm(n: int, k: int) -> int:
    if 0 < k <= n:
        _expect_bits(k * (math.log2(n) - math.log2(math.e)))  # perm(n, k) > (n/e)**k
    return math.perm(n, k)


def _lcm(*values: int) -> int:
    result = 1
    for value in values:
        result = math.lcm(result, value)
        _number(result)
    return result


def _round(value: Number, places: int = 0) -> Number:
    if not isinstance(places, int) or abs(places) > MAX_PLACES:
        raise ToolError(f"round takes a number and a count of places from -{MAX_PLACES} to {MAX_PLACES}")
    return round(value, places) if places else round(value)


def _refuse(advice: str) -> Callable[..., NoReturn]:
    def refuse(*_: object) -> NoReturn:
        raise ToolError(advice)

    return refuse


CONSTANTS: dict[str, Number] = {"pi": math.pi, "e": math.e, "tau": math.tau}

FUNCTIONS: dict[str, Callable[..., Any]] = {
    "abs": abs,
    "acos": math.acos,
    "asin": math.asin,
    "atan": math.atan,
    "atan2": math.atan2,
    "ceil": math.ceil,
    "comb": _comb,
    "cos": math.cos,
    "cosh": math.cosh,
    "degrees": math.degrees,
    "exp": math.exp,
    "factorial": _factorial,
    "floor": math.floor,
    "gcd": math.gcd,
    "hypot": math.hypot,
    "lcm": _lcm,
    "ln": math.log,
    "log": math.log,
    "log10": math.log10,
    "log2": math.log2,
    "max": lambda *values: max(values),
    "min": lambda *values: min(values),
    "perm": _perm,
    "pow": _power,
    "radians": math.radians,
    "round": _round,
    "sin": math.sin,
    "sinh": math.sinh,
    "sqrt": _sqrt,
    "tan": math.tan,
    "tanh": math.tanh,
    "trunc": math.trunc,
}

OPERATORS: dict[type[ast.AST], Callable[..., Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: _divide,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: _power,
    ast.UAdd: operator.pos,
    ast.USub: operator.neg,
    ast.BitXor: _refuse("^ is not a power here; write 2**10"),
}


@functools.cache
def _evaluator() -> SimpleEval:
    from simpleeval import SimpleEval

    evaluator = SimpleEval(
        operators={node: _bounded(function) for node, function in OPERATORS.items()},
        functions={name: _bounded(function) for name, function in FUNCTIONS.items()},
        names=CONSTANTS | {"π": math.pi, "τ": math.tau},
    )
    kept = (ast.BinOp, ast.UnaryOp, ast.Call, ast.Name)
    evaluator.nodes = {node: handler for node, handler in evaluator.nodes.items() if node in kept}
    evaluator.nodes[ast.Constant] = lambda node: _number(node.value)
    evaluator.nodes[ast.Tuple] = _refuse(
        "a comma separates the arguments of a function; write 1234567, not 1,234,567"
    )
    return evaluator
