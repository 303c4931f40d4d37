"""The history's file on disk: opened, locked, migrated, repaired. It does not know what a message means."""

from storage.database import Database, Working
from storage.errors import HistoryError
from storage.locks import FileLock

__all__ = ["Database", "FileLock", "HistoryError", "Working"]
