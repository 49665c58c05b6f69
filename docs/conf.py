"""How Sphinx makes the site of the notebooks, the docs and the docstrings (`make docs`)."""

import sys
from pathlib import Path

from docutils import nodes
from latex2mathml.converter import convert

import gnn_ipu_helpers

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tools"))
import reference_examples
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
toc_object_entries_show_parents = "hide"  # the column is too narrow for them
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


EXAMPLES = reference_examples.read()


def add_example(app, what, name, value, options, lines):
    """Give a docstring without an example the one of docs/reference/examples."""
    if name in EXAMPLES and not any(">>>" in line for line in lines):
        lines += ["", "Example:", *(f"    {line}" for line in EXAMPLES[name][1].splitlines()), ""]


# Where others document their names: by the beginning of the full name, the page; {} stands for the full name.
# An inventory of theirs would have to come from the network for each build.
TORCH = "https://docs.pytorch.org/docs/stable/"
PYG = "https://pytorch-geometric.readthedocs.io/en/latest/"
PYTHON = "https://docs.python.org/3/library/"
PAGES_ELSEWHERE = {
    "torch.Tensor": TORCH + "tensors.html",
    "torch.dtype": TORCH + "tensor_attributes.html",
    "torch.utils.data.": TORCH + "data.html",
    "torch.nn.Parameter": TORCH + "generated/torch.nn.parameter.Parameter.html",
    "torch.nn.": TORCH + "generated/{}.html",
    "torch.optim.Optimizer": TORCH + "optim.html",
    "torch.optim.": TORCH + "generated/{}.html",
    "torch.Generator": TORCH + "generated/{}.html",
    "torch_geometric.data.": PYG + "generated/{}.html",
    "torch_geometric.datasets.": PYG + "generated/{}.html",
    "torch_geometric.loader.": PYG + "modules/loader.html",
    "typing.": PYTHON + "typing.html",
    "collections.abc.": PYTHON + "collections.abc.html",
    "pathlib.": PYTHON + "pathlib.html",
    "os.PathLike": PYTHON + "os.html",
    "enum.": PYTHON + "enum.html",
}
PAGES_ELSEWHERE.update(
    {name: PYTHON + "stdtypes.html" for name in ("str", "list", "tuple", "dict", "bytes", "set")}
)
PAGES_ELSEWHERE.update(
    {name: PYTHON + "functions.html" for name in ("int", "float", "bool", "object", "type")}
)
# Written under another name than the one that it is documented by.
DOCUMENTED_AS = {
    "Tensor": "torch.Tensor",
    "pyg.": "torch_geometric.datasets.",
    "torch_geometric.data.data.": "torch_geometric.data.",
    "torch_geometric.data.hetero_data.": "torch_geometric.data.",
    "torch_geometric.data.batch.": "torch_geometric.data.",
    "torch_geometric.loader.cluster.": "torch_geometric.loader.",
    "torch.nn.modules.module.": "torch.nn.",
    "torch._C.": "torch.",
    "torch.optim.optimizer.": "torch.optim.",
    "torch_geometric.loader.neighbor_loader.": "torch_geometric.loader.",
}


def link_elsewhere(app, environment, node, content):
    """A link to where torch, PyG or Python documents the name, which is not one of ours."""
    name = node.get("reftarget", "")
    for written, documented in DOCUMENTED_AS.items():
        if name.startswith(written):
            name = documented + name[len(written) :]
    for beginning, page in PAGES_ELSEWHERE.items():
        if name == beginning or (beginning.endswith(".") and name.startswith(beginning)):
            address = f"{page.format(name)}#{name}"
            return nodes.reference("", "", content, internal=False, refuri=address, reftitle=name)
    return None


def setup(app):
    app.connect("autodoc-process-docstring", add_example, priority=400)  # before Napoleon reads it
    app.connect("missing-reference", link_elsewhere)
    app.connect("html-page-context", offer_notebook)
    app.add_html_math_renderer("mathml", (write_math, None), (write_math, None))
