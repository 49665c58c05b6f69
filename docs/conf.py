"""How Sphinx makes the site of the notebooks, the docs and the docstrings (`make docs`)."""

import sys
from pathlib import Path

from docutils import nodes
from latex2mathml.converter import convert

import gnn_ipu_helpers

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tools"))
import repository

project = "Static-graph GNNs"
html_title = project
version = release = gnn_ipu_helpers.__version__
copyright = "the contributors, MIT licence"
language = "en-GB"

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
    "sphinx_design",
]
default_role = "literal"  # docstrings write code in single backticks
myst_heading_anchors = 4
myst_enable_extensions = ["colon_fence", "dollarmath"]

nb_execution_mode = "off"  # the stored outputs are what the site shows; nbval sees to it that they are true
nb_merge_streams = True
nb_code_prompt_show = "Show the solution"
nb_code_prompt_hide = "Hide the solution"

autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
python_maximum_signature_line_length = 88
napoleon_use_rtype = False
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

html_theme = "pydata_sphinx_theme"
html_theme_options = {
    "navbar_end": ["theme-switcher"],
    "article_header_end": ["notebook-buttons"],
    "secondary_sidebar_items": ["page-toc"],
    "header_links_before_dropdown": 4,
}
html_context = {"default_mode": "auto"}
html_sidebars = {page: ["sidebar-nav-bs"] for page in ("notebooks/*", "docs/reference/*")}
html_sidebars.update({page: [] for page in ("[A-Za-z]*", "docs/*", "_modules/**")})
html_static_path = ["site"]
html_favicon = "site/favicon.svg"
templates_path = ["site/templates"]
html_css_files = ["site.css"]
html_js_files = ["layers.js"]
html_show_sourcelink = False
html_copy_source = False
html_math_renderer = "mathml"


def offer_notebook(app, page, template, context, doctree):
    """Tell the template of a tutorial where its notebook is, and where it opens with one click."""
    name = f"{page.rpartition('/')[2]}.ipynb"
    is_notebook = page.startswith("notebooks/") and page != "notebooks/index"
    address = repository.address()
    context["notebook"] = name if is_notebook else ""
    context["launch"] = repository.launch_links(address, name) if is_notebook and address else {}


def write_math(self, node):
    """Formulas as MathML, which browsers draw by themselves: MathJax would come from the network."""
    display = "inline" if node.tagname == "math" else "block"
    self.body.append(convert(node.astext(), display=display))
    raise nodes.SkipNode


def setup(app):
    app.connect("html-page-context", offer_notebook)
    app.add_html_math_renderer("mathml", (write_math, None), (write_math, None))
