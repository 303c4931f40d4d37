"""Python imports this in every process that a test starts: the network is closed there too."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent.parent))
from network_guard import install

install()
sys.path.pop()
