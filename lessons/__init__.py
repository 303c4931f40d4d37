"""The course: lessons as text and patches, and the commands that make a git repository of them.

    python -m lessons            where you are and what to type next
    python -m lessons --help     all commands, a learner's and an author's

Each folder `NN-name` is a lesson. The modules here know nothing of mini-agent itself; they need Python 3.11
and git 2.34, and the tests of the lessons need what `requirements-dev.txt` installs.
"""


class CourseError(Exception):
    """Something that a person must put right; the message is one sentence that says what and how."""
