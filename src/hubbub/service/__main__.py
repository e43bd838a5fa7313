"""Run one service without the command line: ``python -m hubbub.service ROLE SETTINGS [--stop-with-parent]``.

With ``--stop-with-parent``, the service also stops when its standard input, a pipe from the parent process, is closed.
"""

import sys
from pathlib import Path

from hubbub.errors import HubbubError
from hubbub.service.provision import run_role

if __name__ == "__main__":
    try:
        run_role(sys.argv[1], Path(sys.argv[2]), parent_pipe="--stop-with-parent" in sys.argv[3:])
    except (HubbubError, OSError) as error:
        sys.exit(f"error: the {sys.argv[1]} cannot run: {error}")
