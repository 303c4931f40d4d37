"""Who may use a file: advisory locks that die with their process, also on `kill -9`."""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl


class FileLock:
    """A lock on a file of its own, held by one (exclusive) or by several (shared).

    `flock` and not POSIX record locks: those are lost when *any* descriptor of the file is closed,
    and two sessions within one process would not exclude each other.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._fd = -1

    def exclusive(self) -> bool:
        """Take the lock alone, at once or not at all. A lock that was held before is given up either way.

        Raises:
            OSError: the file cannot be made, or the file system knows no locks.
        """
        self.release()
        while True:
            self._fd = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600)
            try:
                if sys.platform == "win32":
                    msvcrt.locking(self._fd, msvcrt.LK_NBLCK, 1)
                else:
                    fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except (BlockingIOError, PermissionError):  # the latter is Windows' word for it
                self.release()
                return False
            except OSError:
                self.release()
                raise
            with contextlib.suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(self._fd), self.path.stat()):
                    return True
            self.release()  # its last owner removed the file between our opening and our locking it

    def shared(self) -> None:
        """Hold the lock together with others; waits for one who has it alone.

        Windows has no shared locks within reach of the standard library. What they are for, that nobody
        renames the file while others use it, Windows refuses by itself.
        """
        self.release()
        self._fd = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600)
        if sys.platform != "win32":
            fcntl.flock(self._fd, fcntl.LOCK_SH)

    def release(self, *, remove: bool = False) -> None:
        """Give the lock up; `remove` deletes its file while it is held, so that nobody locks a ghost."""
        if self._fd >= 0:
            if remove:
                with contextlib.suppress(OSError):  # Windows refuses while it is open; an empty file stays
                    self.path.unlink()
            os.close(self._fd)
            self._fd = -1
