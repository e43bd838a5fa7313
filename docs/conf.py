"""Sphinx: everything local, so that the built pages load nothing from another host."""

from hubbub import __version__

project = "hubbub"
author = "The hubbub developers"
copyright = "2026, The hubbub developers"
release = __version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.viewcode"]
source_suffix = {".md": "markdown"}
html_theme = "furo"
html_title = "hubbub"
html_copy_source = False
autodoc_typehints = "description"
autodoc_member_order = "bysource"
myst_enable_extensions = ["colon_fence", "deflist"]
nitpicky = False
exclude_patterns = ["README.md"]
