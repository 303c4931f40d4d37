"""Tools of your own: name this file in MINI_AGENT_TOOLS, and the model can call them."""

import shutil

from tools import tool


@tool(needs_approval=False)  # without this, you are asked before each call
def free_space(folder: str = ".") -> str:
    """Tell how much space is free on the disk that holds a folder."""
    return f"{shutil.disk_usage(folder).free / 1e9:.1f} GB"
