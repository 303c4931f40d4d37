"""The calculator: exact, plain, and done at once whatever is asked of it.

"At once" is asserted by what is worked out, never by a clock: the operations that could take long are
replaced by ones that fail, or every value on the way is measured.
"""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import calculator
from calculator import FUNCTIONS, MAX_BITS, MAX_DIGITS, MAX_EXPRESSION, calculate
from tools import ToolError


def refusal(expression):
    with pytest.raises(ToolError) as caught:
        calculate(expression)
    return str(caught.value)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("1+1", "2"),
        ("2 × 3 ÷ 4 − 1", "0.5"),
        ("（1＋2）＊3", "9"),
        ("+-+3", "-3"),
        ("7//2", "3"),
        ("-7//2", "-4"),
        ("-7 % 3", "2"),
        ("10 % (-3)", "-2"),
        ("2**10", "1024"),
        ("2**-2", "0.25"),
        ("-2**2", "-4"),
        ("2**3**2", "512"),
        ("1_000 + 1", "1001"),
        ("0x10", "16"),
        ("1\n+\t2", "3"),
        ("sqrt(16) + abs(-3)", "7"),
        ("max(1, 2.5) + min(4, 3)", "5.5"),
        ("max(3)", "3"),
        ("factorial(5) + comb(5, 2) + perm(5, 2) + gcd(12, 18) + lcm(4, 6)", "168"),
        ("floor(-1.5) + ceil(1.5) + trunc(2.7)", "2"),
        ("round(2.345, 1)", "2.3"),
        ("round(1234, -2)", "1200"),
        ("sin(pi/2) + cos(0)", "2"),
        ("ln(e) + log10(1000) + log(8, 2)", "7"),
        ("degrees(pi) + degrees(π)", "360"),
        ("pow(2, 10)", "1024"),
        ("hypot(3, 4)", "5"),
    ],
)
def test_arithmetic(expression, expected):
    assert calculate(expression) == expected


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("10**30+1", "1" + "0" * 29 + "1"),
        ("2**1000", str(2**1000)),
        ("10**30/10", "1" + "0" * 29),
        ("10**400/10**399", "10"),
        ("sqrt(10**400)", "1" + "0" * 200),
        ("123456789012345678901234567890 % 97", str(123456789012345678901234567890 % 97)),
        ("factorial(1000)", str(math.factorial(1000))),
        ("comb(1000, 500)", str(math.comb(1000, 500))),
        ("comb(10**300, 2)", str(math.comb(10**300, 2))),
        ("1**10**3000", "1"),
        ("10**3999", "1" + "0" * 3999),
    ],
)
def test_whole_numbers_stay_exact(expression, expected):
    assert calculate(expression) == expected


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("0.1+0.2", "0.3"),
        ("1/3", "0.333333333333333"),
        ("6/3", "2"),
        ("2.0*3", "6"),
        ("-0.0", "0"),
        ("2**53 * 1.0", "9.00719925474099e+15"),
        ("1e16", "1e+16"),
        ("1e308", "1e+308"),
        ("1e-20", "1e-20"),
    ],
)
def test_fractions_show_fifteen_digits(expression, expected):
    """As many digits as a float always keeps (`sys.float_info.dig`), without the noise after them."""
    assert calculate(expression) == expected


TOO_LARGE = "the result is too large: whole numbers have up to 4,000 digits here, others reach 1.8e308"
UNREAL = "the result is not a real number"


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("9**9**9**9", TOO_LARGE),
        ("((10**100)**100)**100", TOO_LARGE),
        ("10**4001", TOO_LARGE),
        ("10**4000 * 10", TOO_LARGE),
        ("-10**4000 * 10", TOO_LARGE),
        ("10**3999 * 99", TOO_LARGE),
        ("factorial(10**6)", TOO_LARGE),
        ("factorial(factorial(20))", TOO_LARGE),
        ("comb(10**9, 5*10**8)", TOO_LARGE),
        ("perm(10**9, 10**8)", TOO_LARGE),
        ("lcm(2**4001, 3**4001, 5**3001, 7**2001)", TOO_LARGE),
        ("1e308*10", TOO_LARGE),
        ("1e999", TOO_LARGE),
        ("-1e999", TOO_LARGE),
        ("1e999-1e999", TOO_LARGE),
        ("1e308+1e308", TOO_LARGE),
        ("10.0**400", TOO_LARGE),
        ("10**400*1.5", TOO_LARGE),
        ("exp(1000)", TOO_LARGE),
        ("1/0", "division by zero"),
        ("1//0", "division by zero"),
        ("1%0", "division by zero"),
        ("0**-1", "division by zero"),
        ("(-1)**0.5", UNREAL),
        ("3j", UNREAL),
        ("sqrt(-1)", "a function has no real value there"),
        ("log(0)", "a function has no real value there"),
        ("factorial(-1)", "a function has no real value there"),
        ("factorial(2.5)", "that cannot be worked out"),
        ("sqrt(1, 2)", "that cannot be worked out (sqrt() takes 1 positional argument but 2 were given)"),
        ("__import__('os')", "there is no function '__import__'; use numbers"),
        (
            "foo(1)",
            "there is no function 'foo'; use numbers, + - * / // % **, parentheses, the constants pi, e, tau",
        ),
        ("x+1", "there is no value named 'x'; use numbers"),
        ("(1).real", "only arithmetic is allowed; use numbers"),
        ("(1).__class__.__mro__", "only arithmetic is allowed; use numbers"),
        ("'a'*10**9", "only numbers can be calculated with, not str"),
        ("'a'*9", "only numbers can be calculated with, not str"),
        ("True+1", "only numbers can be calculated with, not bool"),
        ("None", "only numbers can be calculated with, not NoneType"),
        ("...", "only numbers can be calculated with, not ellipsis"),
        ("sqrt", "a function needs its parentheses, as in sqrt(2)"),
        ("sqrt + 1", "a function needs its parentheses, as in sqrt(2)"),
        ("max(1, abs)", "a function needs its parentheses, as in sqrt(2)"),
        ("max(1, 2, key=abs)", "only arithmetic is allowed"),
        ("max(*[1])", "only arithmetic is allowed"),
        ("[x for x in [1]]", "only arithmetic is allowed"),
        ("sum(x for x in [1])", "there is no function 'sum'"),
        ("[1]*10", "only arithmetic is allowed"),
        ("(lambda: 1)()", "only arithmetic is allowed"),
        ("f'{1}'", "only arithmetic is allowed"),
        ("1 < 2", "only arithmetic is allowed"),
        ("1or 2", "only arithmetic is allowed"),
        ("1 if 1 else 2", "only arithmetic is allowed"),
        ("(x := 1)", "only arithmetic is allowed"),
        ("2(3)", "only arithmetic is allowed"),
        ("1 << 100", "only arithmetic is allowed"),
        ("~1", "only arithmetic is allowed"),
        ("2^10", "^ is not a power here; write 2**10"),
        ("1,234 + 1", "a comma separates the arguments of a function; write 1234567, not 1,234,567"),
        ("round(1,234)", "round takes a number and a count of places from -30 to 30"),
        ("round(5, -10**9)", "round takes a number and a count of places from -30 to 30"),
        ("15%", "% is the remainder and needs a number after it; write 15 percent of 200 as 15/100*200"),
        ("200 * 10% + 5", "% is the remainder and needs a number after it"),
        ("(10%)*5", "% is the remainder and needs a number after it"),
        ("x = 1", "not an arithmetic expression"),
        ("1; 2", "not an arithmetic expression"),
        ("import os", "not an arithmetic expression"),
        ("2²", "not an arithmetic expression"),
        ("1 2", "not an arithmetic expression"),
        ("007", "not an arithmetic expression"),
        ("", "not an arithmetic expression"),
        ("\0", "not an arithmetic expression"),
        ("💥", "not an arithmetic expression"),
        ("(" * 1_000 + "1" + ")" * 999, "not an arithmetic expression"),
        ("-" * 1_990 + "1", "the expression is nested too deeply"),
        ("(" * 10_000 + "1" + ")" * 10_000, "the expression has 20,001 characters; up to 2,000 are allowed"),
        ("0." + "3" * 10_000, "the expression has 10,002 characters; up to 2,000 are allowed"),
    ],
)
def test_what_has_no_plain_value_is_refused(expression, expected):
    text = refusal(expression)
    assert text.startswith(expected)
    assert len(text) < 600


class Untouchable(int):
    """A whole number that no power is ever worked out of."""

    def __pow__(self, other):
        raise AssertionError("worked out")


@pytest.mark.parametrize(
    ("base", "exponent"), [(9, 9**9), (-9, 9**9), (10**100, 10**4), (2, MAX_BITS + 1), (3, 10**4000)]
)
def test_a_power_is_refused_before_it_is_worked_out(base, exponent):
    with pytest.raises(ToolError, match="too large"):
        FUNCTIONS["pow"](Untouchable(base), exponent)


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("factorial", "factorial(2000)"),
        ("factorial", "factorial(10**3000)"),
        ("comb", "comb(40000, 20000)"),
        ("comb", "comb(10**3000, 10**2999)"),
        ("comb", "comb(10**4000, 10**4000 - 5)"),
        ("perm", "perm(2000, 2000)"),
        ("perm", "perm(10**3000, 5)"),
    ],
)
def test_a_large_count_is_refused_before_it_is_worked_out(monkeypatch, name, call):
    def work(*_):
        raise AssertionError("worked out")

    monkeypatch.setattr(math, name, work)
    assert refusal(call) == TOO_LARGE


def test_a_common_multiple_does_not_grow_past_the_bound(monkeypatch):
    """Each of its numbers is within bounds; together they would not be."""
    lcm = math.lcm
    sizes = []

    def measured(a, b):
        sizes.append(max(a.bit_length(), b.bit_length()))
        return lcm(a, b)

    monkeypatch.setattr(math, "lcm", measured)
    assert refusal("lcm(2**9001, 3**8001, 5**5001, 7**4001, 11**3001)") == TOO_LARGE
    assert max(sizes) <= MAX_BITS


def test_every_function_and_operator_sees_only_bounded_numbers():
    """So the work is bounded by the length of the expression."""
    huge = 1 << (MAX_BITS + 1)
    evaluator = calculator._evaluator()  # white box: the two tables that all calls go through
    for call in (*evaluator.operators.values(), *evaluator.functions.values()):
        with pytest.raises(ToolError):
            call(huge, 1)
        with pytest.raises(ToolError):
            call(math.inf, 1)
        with pytest.raises(ToolError):
            call("a", 1)


numbers = st.integers(0, 10**6).map(str) | st.sampled_from(
    ["0.5", "1e300", "10**3000", "2**13000", "pi", "1e-300"]
)
expressions = st.recursive(
    numbers,
    lambda inner: (
        st.tuples(inner, st.sampled_from(["+", "-", "*", "/", "//", "%", "**"]), inner).map(
            lambda t: f"({''.join(t)})"
        )
        | st.tuples(st.sampled_from(sorted(FUNCTIONS)), st.lists(inner, min_size=1, max_size=3)).map(
            lambda t: f"{t[0]}({','.join(t[1])})"
        )
        | inner.map(lambda text: f"(-{text})")
    ),
    max_leaves=12,
)


@given(expressions | st.text(st.sampled_from("0123456789.eE+-*/%^()[]{},:'\"x_ \n"), max_size=MAX_EXPRESSION))
@settings(max_examples=300, deadline=None)
def test_any_expression_gives_a_bounded_text_or_a_refusal(expression):
    try:
        value = calculate(expression)
    except ToolError as error:
        value = f"refused: {error}"
        length = 600
    else:
        length = MAX_DIGITS + 2
        assert math.isfinite(float(value)) if len(value) < 300 else int(value)
    assert 0 < len(value) <= length
