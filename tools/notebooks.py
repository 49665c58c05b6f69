"""Execute the notebooks: `run` into build/ as notebooks and pages, `refresh` in place with clean outputs."""

import argparse
import base64
import copy
import re
import shutil
import sys
import time
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from nbconvert import HTMLExporter, MarkdownExporter
from nbconvert.preprocessors import CoalesceStreamsPreprocessor
from traitlets.config import Config

ROOT = Path(__file__).resolve().parent.parent
NOTEBOOKS = ROOT / "notebooks"
BUILD = ROOT / "build"
WIDGET = "application/vnd.jupyter.widget-view+json"
PICTURES_FIRST = ["image/svg+xml", "image/png", "text/html", "text/markdown", "text/plain"]
KEPT_METADATA = ("kernelspec", "language_info")
KEPT_CELL_METADATA = ("tags", "jupyter")


def find(names):
    """The notebooks named on the command line, or all of them in reading order."""
    paths = sorted(NOTEBOOKS.glob("*.ipynb"))
    if not names:
        return paths
    chosen = [path for path in paths if any(path.name.startswith(name) for name in names)]
    if not chosen:
        sys.exit(f"no notebook starts with any of {names}; there are: {', '.join(p.name for p in paths)}")
    return chosen


def execute(path):
    """Run every cell of the notebook at `path` in its own folder and return it with its outputs."""
    notebook = nbformat.read(path, as_version=4)
    client = NotebookClient(
        notebook,
        timeout=900,
        kernel_name="python3",
        resources={"metadata": {"path": str(path.parent)}},
        extra_arguments=[
            "--log-level=ERROR"
        ],  # the kernel's advice on transports would split our progress line
    )
    client.execute()
    return notebook


def relocate(notebook):
    """A copy of the notebook for build/, where links out of its folder go up one folder more."""
    moved = copy.deepcopy(notebook)
    for cell in moved.cells:
        if cell.cell_type == "markdown":
            cell.source = cell.source.replace("](../", "](../../")
    return moved


def link_pages(text, suffix):
    """Point links between notebooks at the pages made of them."""
    return re.sub(r"(?<=[\"(])((?:\d|appendix)_?[\w]+)\.ipynb(?=[\"#)])", rf"\1{suffix}", text)


def embed_figures(page):
    """Put the figures of static/ into the page itself; nbconvert embeds only what lies below the notebook."""

    def embedded(match):
        figure = base64.b64encode((ROOT / "static" / match.group(1)).read_bytes()).decode("ascii")
        return f'src="data:image/svg+xml;base64,{figure}"'

    return re.sub(r'src="\.\./\.\./static/([\w-]+\.svg)"', embedded, page)


def is_bar(output):
    """Whether an output is a progress bar and nothing else: a warning is not one."""
    lines = output.text.splitlines() if output.get("name") == "stderr" else ["a result"]
    return WIDGET in output.get("data", {}) or all("%|" in line or not line.strip() for line in lines)


def without_bars(notebook):
    """Drop finished progress bars, which a page would show as a stack of lines."""
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = [output for output in cell.outputs if not is_bar(output)]
    return notebook


def export(notebook, path):
    """Write the executed notebook to build/ as .ipynb, HTML and Markdown."""
    notebook = without_bars(relocate(notebook))
    for folder in ("notebooks", "html", "markdown"):
        (BUILD / folder).mkdir(parents=True, exist_ok=True)
    nbformat.write(notebook, BUILD / "notebooks" / path.name)
    resources = {"metadata": {"path": str(path.parent), "name": path.stem.replace("_", " ")}}
    templates = {"extra_template_basedirs": [str(ROOT / "tools" / "templates")], "template_name": "tutorial"}
    html, _ = HTMLExporter(embed_images=True, **templates).from_notebook_node(
        notebook, resources=dict(resources)
    )
    html = embed_figures(link_pages(html, ".html"))
    (BUILD / "html" / f"{path.stem}.html").write_text(html, encoding="utf-8")
    resources["output_files_dir"] = f"{path.stem}_files"
    exporter = MarkdownExporter(config=Config(NbConvertBase={"display_data_priority": PICTURES_FIRST}))
    markdown, extra = exporter.from_notebook_node(notebook, resources=resources)
    (BUILD / "markdown" / f"{path.stem}.md").write_text(link_pages(markdown, ".md"), encoding="utf-8")
    for name, content in extra["outputs"].items():
        target = BUILD / "markdown" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)


def what_it_ran_on(notebook):
    """The backend and the data that the notebook's first code cell names, a line each."""
    first = next((cell for cell in notebook.cells if cell.cell_type == "code"), {})
    printed = "".join(o.text for o in first.get("outputs", []) if o.get("name") == "stdout")
    lines = [line for line in printed.splitlines() if not line.startswith("Note: ")]
    return lines[:1], lines[1:]


def summary(ran):
    """What ran on which backend and data, as lines; `ran` maps a notebook's name to `what_it_ran_on`."""
    lines = ["", "What ran on what:"]
    lines += [
        f"  {backend}" for backend in sorted({line for backends, _ in ran.values() for line in backends})
    ]
    width = max(map(len, ran), default=0)
    lines += [f"  {name:{width}}  {line}" for name, (_, data) in ran.items() for line in data]
    if any(": stand-in" in line for line in lines):
        lines += ["", "A stand-in is not the original: README.md says under “Data” how to get the real ones."]
    return lines


def run(paths):
    if not paths:
        print("no notebooks yet: nothing to run")
        return 0
    failed, ran = [], {}
    for number, path in enumerate(paths, 1):
        print(f"[{number}/{len(paths)}] {path.name} …", end=" ", flush=True)
        start = time.perf_counter()
        try:
            notebook = execute(path)
        except CellExecutionError as error:
            failed.append(path.name)
            print(f"failed after {time.perf_counter() - start:.0f} s\n{error}")
            continue
        export(notebook, path)
        ran[path.stem] = what_it_ran_on(notebook)
        print(f"{time.perf_counter() - start:.0f} s", flush=True)
    vendor = BUILD / "vendor"
    if vendor.is_dir():
        shutil.copytree(vendor, BUILD / "html" / "vendor", dirs_exist_ok=True)
    print("\n".join(summary(ran)))
    if ran:
        print(f"\nOpen build/html/{next(iter(ran))}.html; build/notebooks and build/markdown hold the same.")
    if failed:
        print(f"\nFailed: {', '.join(failed)}")
    return 1 if failed else 0


def clean(notebook):
    """Drop progress bars, editor state and solutions' outputs: stored are prose, code and results alone."""
    notebook.metadata = {key: value for key, value in notebook.metadata.items() if key in KEPT_METADATA}
    notebook.metadata.get("language_info", {}).pop("version", None)
    for number, cell in enumerate(notebook.cells):
        cell.metadata = {key: value for key, value in cell.metadata.items() if key in KEPT_CELL_METADATA}
        cell.id = f"cell-{number:03d}"
        if cell.cell_type != "code":
            continue
        for output in cell.outputs:
            if output.get("name") == "stderr" and "Warning" in output.text:
                raise ValueError(f"cell {number} warns:\n{output.text}")
        cell.outputs = [
            output
            for output in cell.outputs
            if output.get("name") != "stderr" and WIDGET not in output.get("data", {})
        ]
        if "solution" in cell.metadata.get("tags", []):
            cell.outputs = []  # a stored output would give the answer away
    notebook, _ = CoalesceStreamsPreprocessor(enabled=True)(notebook, {})
    return notebook


def refresh(paths):
    for path in paths:
        print(f"{path.name} …", end=" ", flush=True)
        start = time.perf_counter()
        nbformat.write(clean(execute(path)), path)
        print(f"{time.perf_counter() - start:.0f} s", flush=True)
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("job", choices=("run", "refresh"))
    parser.add_argument("names", nargs="*", help="beginnings of notebook names; all notebooks when left out")
    arguments = parser.parse_args()
    job = {"run": run, "refresh": refresh}[arguments.job]
    sys.exit(job(find(arguments.names)))


if __name__ == "__main__":
    main()
