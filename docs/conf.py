"""How Sphinx makes the site of the README, the notebooks, the docs and the docstrings (`make docs`)."""

import gnn_ipu_helpers

project = "Static-graph GNNs"
html_title = project
version = release = gnn_ipu_helpers.__version__
copyright = "the contributors, MIT licence"
language = "en-GB"

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
default_role = "literal"  # docstrings write code in single backticks
myst_heading_anchors = 4
myst_enable_extensions = ["dollarmath"]

nb_execution_mode = "off"  # the stored outputs are what the site shows; nbval sees to it that they are true
nb_merge_streams = True
nb_code_prompt_show = "Show the solution"
nb_code_prompt_hide = "Hide the solution"

autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
python_maximum_signature_line_length = 88
napoleon_use_rtype = False

html_theme = "pydata_sphinx_theme"
html_theme_options = {
    "navbar_end": [],  # one look, light: the figures are drawn for it
    "secondary_sidebar_items": ["page-toc"],
}
html_context = {"default_mode": "light"}
html_sidebars = {page: ["sidebar-nav-bs"] for page in ("notebooks/*", "docs/reference/*")}
html_sidebars.update(
    {page: [] for page in ("index", "docs/supported_layers", "docs/decisions", "docs/does_it_pay")}
)
html_static_path = ["site"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_copy_source = False
