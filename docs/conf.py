"""Sphinx: everything local, so that the built pages load nothing from another host."""

import sys
from pathlib import Path

from hubbub import __version__

sys.path.insert(0, str(Path(__file__).parent))

from generate import generate

project = "hubbub"
author = "The hubbub developers"
copyright = "2026, The hubbub developers"
release = __version__
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.viewcode",
    "sphinx.ext.mathjax",
    "sphinx-mathjax-offline",
]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_generated/*.md"]
myst_enable_extensions = ["amsmath", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3
myst_dmath_double_inline = True

html_theme = "furo"
html_title = "hubbub"
html_copy_source = False
html_static_path = ["_static"]
html_css_files = ["book.css"]
html_theme_options = {"footer_icons": []}
# The menu of MathJax would offer to load more of it; formulas carry their own MathML for readers of the screen.
mathjax3_config = {"options": {"enableMenu": False}, "tex": {"tags": "none"}}

autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
nitpicky = True


def setup(app):
    """Whatever is printed from the code is printed anew for every build."""
    app.connect("builder-inited", lambda app: generate(Path(app.srcdir) / "_generated"))
