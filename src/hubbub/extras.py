"""Optional dependencies: imported on demand, with one wording if they are missing."""

import importlib
from typing import Any

from hubbub.errors import MissingExtra


def load_extra(module: str, extra: str, feature: str) -> Any:
    """Import a module of an extra, or raise an error that says how to install it.

    Without an extra, the package is one that hubbub does not install itself.

    >>> load_extra("nonesuch", "plot", "Plotting")
    Traceback (most recent call last):
    hubbub.errors.MissingExtra: Plotting needs the extra 'plot': pip install 'hubbub[plot]'
    >>> load_extra("nonesuch", "", "A data frame of nonesuch")
    Traceback (most recent call last):
    hubbub.errors.MissingExtra: A data frame of nonesuch needs a package: pip install nonesuch
    """
    try:
        return importlib.import_module(module)
    except ImportError:
        raise MissingExtra(extra, feature, package=module.partition(".")[0]) from None
