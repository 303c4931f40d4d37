"""`python -m lessons`: the commands of the course, see `cli.py`."""

from __future__ import annotations

import sys

if sys.version_info < (3, 11):  # noqa: UP036 (whoever has an older Python must read this and no traceback)
    sys.exit("The course needs Python 3.11 or newer; in the clone type: make lessons PYTHON=python3.11")

from lessons.cli import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
