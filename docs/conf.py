"""Sphinx configuration: all resources are local, so that built pages load nothing from another host."""

import builtins
import sys
from pathlib import Path

from docutils import nodes
from sphinx import addnodes
from sphinx.util.nodes import make_refnode

import hubbub
from hubbub import __version__
from hubbub.report.figures import SCREEN
from hubbub.report.style import DARK, LIGHT

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
    (r"py:.*", r"(np|numpy|collections|typing|pathlib|fractions|io|subprocess|click|numba|pyarrow|matplotlib)\..*"),
    (r"py:.*", r"NDArray|ArrayLike|npt\..*|T|P|R|Result|\.\.\."),
]


KINDS = {
    "func": {"function"},
    "class": {"class", "exception"},
    "exc": {"exception"},
    "meth": {"method"},
    "attr": {"attribute", "property"},
    "data": {"data"},
}


def resolve_short_name(app, env, node, contnode):
    """Resolve a public name, or a short name that one object of its kind or one object of the same module has.

    A field without a docstring has no entry of its own; a reference to it leads to its class.
    """
    if node.get("refdomain") != "py":
        return None
    objects, target = env.domains["py"].objects, node["reftarget"]
    if target.removeprefix("hubbub.") in hubbub.__all__:
        target = f"{getattr(hubbub, target.removeprefix('hubbub.')).__module__}.{target.removeprefix('hubbub.')}"
    kinds = KINDS.get(node.get("reftype"), set())
    for wanted, allowed in ((target, kinds), (target.rpartition(".")[0], KINDS["class"])):
        found = [name for name in objects if wanted and f".{name}".endswith(f".{wanted}")]
        found = [name for name in found if objects[name].objtype in allowed] or found
        if len(found) > 1:
            found = [name for name in found if name.startswith(f"{node.get('py:module')}.")]
        if len(found) == 1:
            entry = objects[found[0]]
            return make_refnode(app.builder, node["refdoc"], entry.docname, entry.node_id, contnode, found[0])
    return None


def escape_bars(app, what, name, obj, options, lines):
    """Let absolute values in docstrings be text: reStructuredText takes ``|x|`` for a substitution."""
    doctest = False
    for place, line in enumerate(lines):
        doctest = line.lstrip().startswith(">>>") or (doctest and bool(line.strip()))
        if not doctest:
            parts = line.split("``")
            lines[place] = "``".join(part if i % 2 else part.replace("|", r"\|") for i, part in enumerate(parts))


def unlink_builtins(app, doctree):
    """Do not link built-in types: Sphinx would take an attribute of the same name for ``bytes``."""
    for node in list(doctree.findall(addnodes.pending_xref)):
        if node.get("refdomain") == "py" and hasattr(builtins, node["reftarget"]):
            node.replace_self(node.children)


def inline_charts(app, doctree, docname):
    """Inline the charts, so that they follow the theme and fit narrow screens."""
    if app.builder.format != "html":
        return
    for image in list(doctree.findall(nodes.image)):
        part = Path(app.srcdir, image["uri"]).with_suffix(".html")
        if part.parent.name == "_generated" and part.exists():
            image.replace_self(nodes.raw("", part.read_text(encoding="utf-8"), format="html"))


def style_charts(app, pagename, templatename, context, doctree):
    """Add the palette of the charts to every page, light or dark like the reader's theme."""
    light, dark = (";".join(f"--{name}:{value}" for name, value in part.items()) for part in (LIGHT, DARK))
    context["metatags"] = context.get("metatags", "") + (
        f"<style>body{{{light}}} @media screen{{body[data-theme=dark]{{{dark}}}}} "
        f"@media screen and (prefers-color-scheme:dark){{body:not([data-theme=light]){{{dark}}}}} {SCREEN}</style>"
    )


def setup(app):
    """Generate the parts that come from the code, and connect references and charts."""
    app.connect("builder-inited", lambda app: generate(Path(app.srcdir) / "_generated"))
    app.connect("autodoc-process-docstring", escape_bars)
    app.connect("doctree-read", unlink_builtins)
    app.connect("missing-reference", resolve_short_name)
    app.connect("doctree-resolved", inline_charts)
    app.connect("html-page-context", style_charts)
