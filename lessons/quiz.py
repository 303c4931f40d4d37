"""The quiz of a lesson, asked line by line; a right and a wrong answer alike are explained."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from lessons.lesson import Question

LETTERS = "abcdef"


def ask(questions: Sequence[Question], read: Callable[[str], str], say: Callable[[str], None]) -> int | None:
    """Ask all questions and return how many were answered right at once, None when the learner left.

    Args:
        questions: of one lesson.
        read: shows a prompt and returns a line; EOFError ends the quiz.
        say: shows a line.
    """
    right = 0
    for number, question in enumerate(questions, 1):
        say(f"\n{number} of {len(questions)}. {question.ask}\n")
        for letter, choice in zip(LETTERS, question.choices, strict=False):
            say(f"  {letter}) {choice.text}")
        letters = LETTERS[: len(question.choices)]
        while True:
            try:
                answer = read(f"\nyour answer ({letters[0]}-{letters[-1]}): ").strip().lower()
            except EOFError:
                return None
            if len(answer) == 1 and answer in letters:
                break
            say(f"Type one of the letters {', '.join(letters)}; Ctrl-D leaves.")
        chosen = question.choices[letters.index(answer)]
        right += chosen.right
        say(f"{'Right' if chosen.right else 'No'}. {chosen.why}")
        if not chosen.right:
            best = next(choice for choice in question.choices if choice.right)
            say(f"Right is {letters[question.choices.index(best)]}) {best.text}\n{best.why}")
    say(f"\n{right} of {len(questions)} right.")
    return right


def faults(questions: Sequence[Question]) -> list[str]:
    """What is missing in a quiz: it has three to five questions, each with one right choice."""
    found = (
        []
        if 3 <= len(questions) <= 5
        else [f"quiz.toml has {len(questions)} questions; three to five are wanted"]
    )
    for number, question in enumerate(questions, 1):
        if sum(choice.right for choice in question.choices) != 1 or not 2 <= len(question.choices) <= len(
            LETTERS
        ):
            found.append(f"quiz.toml, question {number}: two to six choices, exactly one of them right")
    return found
