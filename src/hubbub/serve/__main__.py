"""``python -m hubbub.serve ROLE SETTINGS``: run one service; what ``hubbub serve`` does, without the command line."""

import sys
from pathlib import Path

from hubbub.serve.founding import run_role

if __name__ == "__main__":
    run_role(sys.argv[1], Path(sys.argv[2]))
