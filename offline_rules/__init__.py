"""The rules of the offline stand-in (`offline.py`). Nothing here is about keeping a context."""
