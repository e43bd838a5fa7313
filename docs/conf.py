"""Sphinx configuration: all resources are local, so that built pages load nothing from another host."""

import sys
from pathlib import Path

from docutils import nodes
from sphinx.util.nodes import make_refnode

from hubbub import __version__
from hubbub.pages.figures import SCREEN
from hubbub.pages.style import DARK, LIGHT

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


def inline_charts(app, doctree, docname):
    """Put charts into the pages themselves: they follow the theme, and fit narrow screens."""
    if app.builder.format != "html":
        return
    for image in list(doctree.findall(nodes.image)):
        part = Path(app.srcdir, image["uri"]).with_suffix(".html")
        if part.parent.name == "_generated" and part.exists():
            image.replace_self(nodes.raw("", part.read_text(encoding="utf-8"), format="html"))


def style_charts(app, pagename, templatename, context, doctree):
    """Give every page the palette of the charts, light or dark as the theme of the reader is."""
    light, dark = (";".join(f"--{name}:{value}" for name, value in part.items()) for part in (LIGHT, DARK))
    context["metatags"] = context.get("metatags", "") + (
        f"<style>body{{{light}}} @media screen{{body[data-theme=dark]{{{dark}}}}} "
        f"@media screen and (prefers-color-scheme:dark){{body:not([data-theme=light]){{{dark}}}}} {SCREEN}</style>"
    )


def setup(app):
    """Connect what is printed anew for every build, and the charts."""
    app.connect("builder-inited", lambda app: generate(Path(app.srcdir) / "_generated"))
    app.connect("missing-reference", resolve_short_name)
    app.connect("doctree-resolved", inline_charts)
    app.connect("html-page-context", style_charts)
