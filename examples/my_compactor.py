"""A compactor of your own: it keeps the person's sentences that hold a number or ask something.

No model is needed for that; one that asks a model would call `self.ask(instructions, text, max_tokens)`.
"""

import re

from memory import BaseMemoryCompactor


class NumbersAndQuestions(BaseMemoryCompactor):
    """The newest sentence first; the oldest go when the brief grows too long."""

    def __call__(self, previous, dropped, *, max_tokens):
        """Return the new brief; three characters a token is a safe guess, and a longer brief is refused."""
        said = [message["content"] for message in dropped if message["role"] == "user"]
        sentences = re.split(r"(?<=[.!?])\s+|\n", "\n".join(said))
        kept = [sentence for sentence in sentences if re.search(r"\d|\?", sentence)]
        lines = [f"- {sentence}" for sentence in reversed(kept)] + (previous or "").splitlines()
        while lines and len("\n".join(lines)) > max_tokens * 3:
            lines.pop()  # the oldest
        return "\n".join(lines)
