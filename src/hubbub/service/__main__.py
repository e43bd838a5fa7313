"""``python -m hubbub.service ROLE SETTINGS``: run one service; what ``hubbub serve`` does, without the command line."""

import sys
from pathlib import Path

from hubbub.errors import HubbubError
from hubbub.service.provision import run_role

if __name__ == "__main__":
    try:
        run_role(sys.argv[1], Path(sys.argv[2]))
    except (HubbubError, OSError) as error:
        sys.exit(f"error: the {sys.argv[1]} cannot run: {error}")
