"""Execute the notebooks: `run` into build/ as notebooks and pages, `refresh` in place with clean outputs."""

import argparse
import base64
import copy
import html
import os
import re
import shutil
import sys
import time
from pathlib import Path

import nbformat
import psutil
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from nbconvert import HTMLExporter, MarkdownExporter
from nbconvert.preprocessors import CoalesceStreamsPreprocessor
from traitlets.config import Config

sys.path.insert(0, str(Path(__file__).resolve().parent))
import tutorials

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


def thread_settings():
    """Environment variables for the kernels: as many threads as there are idle cores, and short waits.

    The threads of a torch operation wait for one another by spinning. With more threads than idle cores they
    spin while the one they wait for has no core: a GCN step on Cora took 18 ms with two threads on two idle
    cores, but 480 ms on two busy ones; with one thread, 25 and 75 ms. A machine may become busy later, so the
    threads also spin for a thousand rounds only before they sleep.
    """
    if "OMP_NUM_THREADS" in os.environ:
        return {}
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    cores = min(psutil.cpu_count(logical=False) or usable, usable)
    idle = cores - round(psutil.getloadavg()[0])
    return {"OMP_NUM_THREADS": str(max(1, idle)), "GOMP_SPINCOUNT": "1000"}


def execute(path, at_cell=None, environment=None):
    """Run every cell of the notebook at `path` in its own folder and return it with its outputs.

    `at_cell(number, total)` is called before each code cell; `environment` is added to the kernel's.
    """
    notebook = nbformat.read(path, as_version=4)
    code = [index for index, cell in enumerate(notebook.cells) if cell.cell_type == "code"]
    client = NotebookClient(
        notebook,
        timeout=900,
        kernel_name="python3",
        resources={"metadata": {"path": str(path.parent)}},
        extra_arguments=[
            "--log-level=ERROR"
        ],  # the kernel's advice on transports would split our progress line
    )
    if at_cell is not None:
        client.on_cell_execute = lambda cell, cell_index: at_cell(code.index(cell_index) + 1, len(code))
    client.execute(env={**os.environ, **(environment or {})})
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


def notes_in(notebook):
    """What the datasets said about themselves: stand-ins, and files that are not the originals."""
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    printed = "".join(output.text for output in outputs if output.get("name") == "stdout")
    return [line[len("Note: ") :] for line in printed.splitlines() if line.startswith("Note: ")]


def neighbours(path):
    """The titles and pages of the notebooks before and after this one, for the template."""
    paths = sorted(path.parent.glob("*.ipynb"))
    place = paths.index(path) if path in paths else -len(paths) - 2
    around = {"previous": place - 1, "following": place + 1}
    return {
        name: (tutorials.title_of(nbformat.read(paths[at], as_version=4)), f"{paths[at].stem}.html")
        for name, at in around.items()
        if 0 <= at < len(paths)
    }


def export(notebook, path):
    """Write the executed notebook to build/ as .ipynb, HTML and Markdown."""
    notebook = without_bars(relocate(notebook))
    for folder in ("notebooks", "html", "markdown"):
        (BUILD / folder).mkdir(parents=True, exist_ok=True)
    nbformat.write(notebook, BUILD / "notebooks" / path.name)
    resources = {"metadata": {"path": str(path.parent), "name": tutorials.title_of(notebook) or path.stem}}
    templates = {"extra_template_basedirs": [str(ROOT / "tools" / "templates")], "template_name": "tutorial"}
    page, _ = HTMLExporter(embed_images=True, **templates).from_notebook_node(
        notebook, resources={**resources, "notes": notes_in(notebook), **neighbours(path)}
    )
    page = embed_figures(link_pages(page, ".html"))
    (BUILD / "html" / f"{path.stem}.html").write_text(page, encoding="utf-8")
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
        told = "Some of this data is a stand-in, not the original: README.md says under “Data” how to get it."
        rule = "─" * (len(told) + 2)
        lines += ["", f"┌{rule}┐", f"│ {told} │", f"└{rule}┘"]
    return lines


def write_index(ran):
    """build/html/index.html: every page that was made, with its title, thumbnail and what it teaches."""
    about, cards = tutorials.table(), []
    for path in sorted((BUILD / "notebooks").glob("*.ipynb")):
        notebook = nbformat.read(path, as_version=4)
        entry = about.get(path.stem, {})
        title = html.escape(tutorials.title_of(notebook) or path.stem)
        suffix, picture = tutorials.thumbnail(notebook)
        kind, data_url = {"png": "png", "svg": "svg+xml"}[suffix], base64.b64encode(picture).decode("ascii")
        learn = f"<p>You learn: {html.escape(entry['you learn'])}.</p>".replace("`", "") if entry else ""
        data = "".join(f"<small>{html.escape(line)}</small>" for line in what_it_ran_on(notebook)[1])
        standin = "<strong>On stand-in data</strong>" if notes_in(notebook) else ""
        cards.append(
            f'<a href="{path.stem}.html"><img src="data:image/{kind};base64,{data_url}" alt="">'
            f"<h2>{title}</h2>{learn}{standin}{data}</a>"
        )
    backends = sorted({line for lines, _ in ran.values() for line in lines})
    template = (ROOT / "tools" / "templates" / "index.html").read_text(encoding="utf-8")
    page = template.replace("CARDS", "\n".join(cards)).replace("BACKEND", html.escape("; ".join(backends)))
    (BUILD / "html" / "index.html").write_text(page, encoding="utf-8")


def run(paths):
    if not paths:
        print("no notebooks yet: nothing to run")
        return 0
    failed, ran = [], {}
    is_terminal = sys.stdout.isatty()
    for number, path in enumerate(paths, 1):
        begun = f"[{number}/{len(paths)}] {path.name} … "
        start = time.perf_counter()

        def show_progress(cell, total, begun=begun, start=start):
            seconds = time.perf_counter() - start
            print(f"\r\033[K{begun}cell {cell} of {total}, {seconds:.0f} s", end="", flush=True)

        print(begun, end="", flush=True)
        again = f"\r\033[K{begun}" if is_terminal else ""
        try:
            notebook = execute(path, show_progress if is_terminal else None, thread_settings())
        except CellExecutionError as error:
            failed.append(path.name)
            print(f"{again}failed after {time.perf_counter() - start:.0f} s\n{error}")
            continue
        export(notebook, path)
        ran[path.stem] = what_it_ran_on(notebook)
        print(f"{again}{time.perf_counter() - start:.0f} s", flush=True)
    vendor = BUILD / "vendor"
    if vendor.is_dir():
        shutil.copytree(vendor, BUILD / "html" / "vendor", dirs_exist_ok=True)
    print("\n".join(summary(ran)))
    if ran:
        write_index(ran)
        print("\nOpen build/html/index.html; build/notebooks and build/markdown hold the same.")
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
