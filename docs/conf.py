"""Sphinx configuration: all resources are local, so that built pages load nothing from another host."""

import sys
from pathlib import Path

from sphinx.util.nodes import make_refnode

from hubbub import __version__

sys.path.insert(0, str(Path(__file__).parents[1]))

from docs.generate import generate

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
html_favicon = "_static/favicon.svg"
html_css_files = ["book.css"]
html_theme_options = {"footer_icons": []}
# The menu of MathJax would load more scripts; formulas contain MathML for screen readers.
mathjax3_config = {"options": {"enableMenu": False}, "tex": {"tags": "none"}}

autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
viewcode_follow_imported_members = False
nitpicky = True


# Types of other projects are not linked: the build needs no network.
nitpick_ignore_regex = [
    (r"py:.*", r"(np|numpy|collections|typing|pathlib|fractions|io|click|numba|pyarrow|matplotlib)\..*"),
    (r"py:.*", r"NDArray|ArrayLike|npt\..*|T|P|R|Result|\.\.\."),
]


def resolve_short_name(app, env, node, contnode):
    """Resolve a short name in a docstring if exactly one object has it."""
    if node.get("refdomain") != "py":
        return None
    last = node["reftarget"].rsplit(".", 1)[-1]
    found = {name for name, entry in env.domains["py"].objects.items() if name.rsplit(".", 1)[-1] == last}
    if len(found) != 1:
        return None
    (name,) = found
    entry = env.domains["py"].objects[name]
    return make_refnode(app.builder, node["refdoc"], entry.docname, entry.node_id, contnode, name)


def setup(app):
    """Whatever is printed from the code is printed anew for every build."""
    app.connect("builder-inited", lambda app: generate(Path(app.srcdir) / "_generated"))
    app.connect("missing-reference", resolve_short_name)
