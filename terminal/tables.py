"""Rows and columns of styled text in a given width.

Used for the tables of a reply and for those of the commands. It returns lines; it prints nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from terminal.cells import Line, Span, line_cells, split_wide, wrap


def table_lines(
    headers: Sequence[Line],
    rows: Sequence[Sequence[Line]],
    align: str,
    width: int,
    rule: str = "─",
    spare: int = 0,
) -> list[Line]:
    """Lays out a table in at most `width` columns; long cells are wrapped. No `headers`: no head.

    The last `spare` columns are left out where the table does not fit with them.
    """
    if not rows and not headers:
        return []
    count = len(headers) or max(map(len, rows))
    align = align.ljust(count, "l")
    rows = [_of_length(row, count) for row in rows]
    heads = [headers] if headers else []
    columns = [[row[index] for row in (*heads, *rows)] for index in range(count)]
    wanted = [min(width, max(1, *map(_widest_line, column))) for column in columns]
    needed = [
        min(want, max(1, *map(_longest_word, column))) for want, column in zip(wanted, columns, strict=True)
    ]
    widths = _fit(wanted, needed, width - 2 * (count - 1))
    if widths is None and spare:
        shorter = [row[: count - 1] for row in rows]
        return table_lines(headers[: count - 1], shorter, align, width, rule, spare - 1)
    if widths is None:
        return _stacked(headers, rows, width)
    lines: list[Line] = []
    if headers:
        lines += _row_lines(headers, widths, align)
        lines.append([Span("  ".join(rule * size for size in widths), "dim")])
    for row in rows:
        lines += _row_lines(row, widths, align)
    return lines


def _of_length(row: Sequence[Line], count: int) -> list[Line]:
    """Returns the row with `count` cells: missing ones are empty, the last one takes what is too much."""
    if len(row) <= count:
        return [*row, *([[]] * (count - len(row)))]
    last = [span for cell in row[count - 1 :] for span in [*cell, Span(" ")]]
    return [*row[: count - 1], last]


def _widest_line(cell: Line) -> int:
    return max((line_cells(line) for line in wrap(cell, 10_000)), default=0)


def _longest_word(cell: Line) -> int:
    return max((line_cells(line) for line in wrap(cell, 1)), default=1)


def _fit(wanted: Sequence[int], needed: Sequence[int], room: int) -> list[int] | None:
    """Gives each column what it wants, or takes from the widest; None when words would have to break."""
    widths = list(wanted)
    least = [min(need, 24) for need in needed]  # an address or a path may be cut, a name should not be
    if sum(least) > room:
        return None
    while sum(widths) > room:
        spare = [have - low for have, low in zip(widths, least, strict=True)]
        # The column that stands out most above its minimum gives; at least one can, as `least` fits.
        widest = max(range(len(widths)), key=lambda index: (spare[index] > 0, widths[index]))
        widths[widest] -= 1
    return widths


def _row_lines(row: Sequence[Line], widths: Sequence[int], align: str) -> list[Line]:
    boxes = [
        [piece for line in wrap(cell, size) for piece in split_wide(line, size)] or [[]]
        for cell, size in zip(row, widths, strict=True)
    ]
    lines: list[Line] = []
    for number in range(max(map(len, boxes))):
        line: Line = []
        for index, (box, size) in enumerate(zip(boxes, widths, strict=True)):
            content = box[number] if number < len(box) else []
            blank = Span(" " * (size - line_cells(content)))
            line += [blank, *content] if align[index] == "r" else [*content, blank]
            line.append(Span("  "))
        while line and not line[-1].text.strip():  # nothing but blanks at the end
            line.pop()
        lines.append(line)
    return lines


def _stacked(headers: Sequence[Line], rows: Sequence[Sequence[Line]], width: int) -> list[Line]:
    lines: list[Line] = []
    for number, row in enumerate(rows):
        if not headers:  # the first cell names the row, the others belong to it
            lines += wrap(row[0], width)
            for cell in row[1:]:
                lines += wrap(cell, width, [Span("  ")], [Span("  ")])
            continue
        if number:
            lines.append([])
        for header, cell in zip(headers, row, strict=True):
            named = any(text.strip() for text, _ in header)
            if named or any(text.strip() for text, _ in cell):
                lines += wrap([*header, Span(": "), *cell] if named else cell, width, rest=[Span("  ")])
    return lines
