"""The table of what servers do: one row for each quirk, with what must come of it.

Each row was seen in a bug report or in the source of a server; a comment names it where it is not plain.
`test_quirks.py` plays every row against the model client alone, `test_quirks_conversation.py` plays it in a
conversation and looks at what is left of that.
"""

from quirks.body import BODY
from quirks.chunks import CHUNKS
from quirks.ends import ENDS
from quirks.reasoning import REASONING
from quirks.refusals import REFUSALS
from quirks.row import Row
from quirks.statuses import STATUSES
from quirks.tool_calls import TOOL_CALLS

__all__ = ["ROWS", "Row"]

ROWS = [*CHUNKS, *BODY, *REASONING, *ENDS, *STATUSES, *REFUSALS, *TOOL_CALLS]
assert len({row.name for row in ROWS}) == len(ROWS), "a name twice"
