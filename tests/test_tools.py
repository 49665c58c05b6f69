"""The commands behind the Makefile: what they say when something is missing, and what they write."""

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from .test_links import links_in

ROOT = Path(__file__).resolve().parent.parent
KERNEL = {"name": "python3", "display_name": "Python 3"}


@pytest.fixture
def tool(tmp_path, monkeypatch):
    """tools/notebooks.py, writing below a temporary folder."""
    spec = importlib.util.spec_from_file_location("notebooks_tool", ROOT / "tools" / "notebooks.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "BUILD", tmp_path / "build")
    return module


def write(path, *sources):
    cells = [new_markdown_cell("# A title\n[next](2_a_worked_example.ipynb)")]
    cells += [new_code_cell(source) for source in sources]
    nbformat.write(new_notebook(cells=cells), path)
    return path


def test_run_writes_a_notebook_a_page_and_markdown(tool, tmp_path):
    path = write(tmp_path / "1_small.ipynb", "1 + 1")
    assert tool.run([path]) == 0
    executed = nbformat.read(tmp_path / "build" / "notebooks" / path.name, as_version=4)
    assert executed.cells[1].outputs[0].data["text/plain"] == "2"
    assert 'href="2_a_worked_example.html"' in (tmp_path / "build" / "html" / "1_small.html").read_text()
    assert "(2_a_worked_example.md)" in (tmp_path / "build" / "markdown" / "1_small.md").read_text()


def test_run_says_at_the_end_what_ran_on_what(tool, tmp_path, capsys):
    notice = "print('Note: Cora is a stand-in here, because ...')\n"
    first = write(
        tmp_path / "1_first.ipynb", f"print('Backend: none')\n{notice}print('Cora: stand-in, 3 nodes')"
    )
    second = write(tmp_path / "2_second.ipynb", "print('Backend: none')\nprint('QM9: real data')")
    tool.run([first, second])
    lines = capsys.readouterr().out.split("What ran on what:\n")[1].splitlines()
    assert lines[:3] == [
        "  Backend: none",
        "  1_first   Cora: stand-in, 3 nodes",
        "  2_second  QM9: real data",
    ]
    assert "README.md" in lines[5]
    assert [line[0] for line in lines[4:7]] == ["┌", "│", "└"]


def test_a_stand_in_is_a_box_on_the_page_before_anything_else(tool, tmp_path):
    note = "Cora is a stand-in here (made <up>), because there is no network."
    path = write(tmp_path / "1_first.ipynb", f"print('Backend: none')\nprint('Note: {note}')")
    plain = write(tmp_path / "2_plain.ipynb", "print('Backend: none')")
    tool.run([path, plain])
    page = (tmp_path / "build" / "html" / "1_first.html").read_text(encoding="utf-8")
    box = page[page.index('<div class="note"') : page.index("</div>", page.index('<div class="note"'))]
    assert "Cora is a stand-in here (made &lt;up&gt;)" in box
    assert page.index('<div class="note"') < page.index("<h1")
    assert '<div class="note"' not in (tmp_path / "build" / "html" / "2_plain.html").read_text("utf-8")
    assert (tmp_path / "build" / "html" / "index.html").read_text("utf-8").count("On stand-in data") == 1


def test_run_prints_one_line_a_notebook(tool, tmp_path, capfd):
    path = write(tmp_path / "1_small.ipynb", "print('fine')")
    tool.run([path])
    printed, errors = capfd.readouterr()
    assert re.match(r"\[1/1\] 1_small\.ipynb … \d+ s\n", printed)
    assert errors == ""


def test_on_a_terminal_one_line_is_rewritten_cell_by_cell(tool, tmp_path, capsys, monkeypatch):
    path = write(tmp_path / "1_small.ipynb", "1", "2", "3")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    tool.run([path])
    printed = capsys.readouterr().out.split("\n")[0]
    shown = printed.split("\r\033[K")
    assert [re.sub(r"\d+ s$", "- s", text) for text in shown[1:]] == [
        *(f"[1/1] 1_small.ipynb … cell {number} of 3, - s" for number in (1, 2, 3)),
        "[1/1] 1_small.ipynb … - s",
    ]


@pytest.mark.parametrize(("load", "threads"), [(0.1, 4), (1.6, 2), (9.0, 1)])
def test_kernels_get_as_many_threads_as_cores_are_idle(tool, monkeypatch, load, threads):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(tool.os, "sched_getaffinity", lambda _: set(range(8)))
    monkeypatch.setattr(tool.psutil, "cpu_count", lambda logical: 4)
    monkeypatch.setattr(tool.psutil, "getloadavg", lambda: (load, 0.0, 0.0))
    assert tool.thread_settings()["OMP_NUM_THREADS"] == str(threads)


def test_threads_that_the_user_set_are_kept_and_others_reach_the_kernel(tool, tmp_path, monkeypatch):
    path = write(tmp_path / "1_small.ipynb", "import os\nos.environ['OMP_NUM_THREADS']")
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert tool.thread_settings() == {}
    cells = tool.execute(path, environment={"OMP_NUM_THREADS": "2"}).cells
    assert cells[1].outputs[0].data["text/plain"] == "'2'"


def test_the_first_page_shows_every_notebook_that_ran(tool, tmp_path):
    paths = [write(tmp_path / f"{number}_a.ipynb", f"{number}") for number in (1, 2)]
    tool.run(paths[:1])
    tool.run(paths[1:])
    page = (tmp_path / "build" / "html" / "index.html").read_text(encoding="utf-8")
    assert re.findall(r'<a href="([^"]+)">', page) == ["1_a.html", "2_a.html"]
    assert page.count("<h2>A title</h2>") == 2
    assert page.count('<img src="data:image/svg+xml;base64,') == 2


def test_pages_lead_to_the_ones_before_and_after_and_to_all(tool, tmp_path):
    paths = [write(tmp_path / f"{number}_a.ipynb", "1") for number in (1, 2, 3)]
    tool.export(nbformat.read(paths[1], as_version=4), paths[1])
    page = (tmp_path / "build" / "html" / "2_a.html").read_text(encoding="utf-8")
    for target in ("1_a.html", "3_a.html", "index.html"):
        assert page.count(f'href="{target}"') == 2
    assert "<title>A title</title>" in page


@pytest.mark.parametrize("path", sorted((ROOT / "notebooks").glob("*.ipynb")), ids=lambda path: path.stem)
def test_pages_ask_for_nothing_elsewhere(tool, tmp_path, path):
    tool.export(nbformat.read(path, as_version=4), path)
    page = (tmp_path / "build" / "html" / f"{path.stem}.html").read_text(encoding="utf-8")
    assert "<h1" in page
    tags = re.findall(r"<(?:script|link|img|iframe|source)\b[^>]*", page)
    assert [tag for tag in tags if re.search(r"(?:src|href)=.?(?:https?:)?//", tag)] == []
    assert re.findall(r"(?:import\b[^;\n]*|@import[^;]*|url\()['\"]?https?://", page) == []


def test_pages_hold_the_figures_and_lead_to_the_docs(tool, tmp_path):
    source = "![A drawing](../static/stacking.svg) [layers](../docs/supported_layers.md)"
    path = tmp_path / "1_small.ipynb"
    tool.export(new_notebook(cells=[new_markdown_cell(source)]), path)
    page = (tmp_path / "build" / "html" / "1_small.html").read_text()
    assert 'alt="A drawing" src="data:image/svg+xml;base64,' in page
    assert 'href="../../docs/supported_layers.md"' in page
    markdown = (tmp_path / "build" / "markdown" / "1_small.md").read_text()
    assert "(../../static/stacking.svg)" in markdown
    assert "(../../docs/supported_layers.md)" in markdown


@pytest.mark.parametrize("path", sorted((ROOT / "notebooks").glob("*.ipynb")), ids=lambda path: path.stem)
def test_links_of_everything_exported_lead_to_files(tool, tmp_path, path):
    tool.export(nbformat.read(path, as_version=4), path)
    tool.write_index({})
    build = tmp_path / "build"
    page = (build / "html" / f"{path.stem}.html").read_text(encoding="utf-8")
    links = {
        "notebooks": links_in(build / "notebooks" / path.name),
        "html": re.findall(r'(?:href|src)="([^"]+)"', page),
        "markdown": links_in(build / "markdown" / f"{path.stem}.md"),
    }
    for folder, found in links.items():
        assert found
        for name in (link.partition("#")[0] for link in found):
            if not name or re.match(r"[a-z]+:", name):
                continue
            leads_to_a_notebook = (ROOT / "notebooks" / Path(name).with_suffix(".ipynb")).exists()
            leads_to_a_picture = (build / folder / name).exists()
            leads_to_a_file = (ROOT / "build" / folder / name).resolve().exists()
            assert leads_to_a_notebook or leads_to_a_picture or leads_to_a_file, f"{folder}: {name}"


def test_run_fails_when_a_cell_fails_and_goes_on_with_the_others(tool, tmp_path, capsys):
    bad = write(tmp_path / "1_bad.ipynb", "raise ValueError('on purpose')")
    good = write(tmp_path / "2_good.ipynb", "print('fine')")
    assert tool.run([bad, good]) == 1
    printed = capsys.readouterr().out
    assert "on purpose" in printed
    assert "Failed: 1_bad.ipynb" in printed
    assert (tmp_path / "build" / "html" / "2_good.html").exists()


def test_solutions_are_folded_in_the_page(tool, tmp_path):
    path = write(tmp_path / "1_small.ipynb", "answer = 42", "print('open')")
    notebook = nbformat.read(path, as_version=4)
    notebook.cells[1].metadata.tags = ["solution"]
    nbformat.write(notebook, path)
    assert tool.run([path]) == 0
    page = (tmp_path / "build" / "html" / "1_small.html").read_text()
    folded = page[page.index('<details class="solution">') : page.index("</details>")]
    assert "42" in folded
    assert "open" not in folded


def test_cleaning_keeps_results_in_one_piece_and_drops_progress(tool):
    cell = new_code_cell("work()", metadata={"tags": ["keep"], "collapsed": True})
    cell.outputs = [
        new_output("stream", name="stderr", text="100%|####| 3/3"),
        new_output("stream", name="stdout", text="result"),
        new_output("display_data", data={tool.WIDGET: {"model_id": "x"}, "text/plain": "bar"}),
        new_output("stream", name="stdout", text=", and more"),
    ]
    cleaned = tool.clean(new_notebook(cells=[cell], metadata={"widgets": {}, "kernelspec": KERNEL}))
    assert [output.text for output in cleaned.cells[0].outputs] == ["result, and more"]
    assert cleaned.cells[0].metadata == {"tags": ["keep"]}
    assert set(cleaned.metadata) == {"kernelspec"}


def test_pages_show_warnings_and_no_finished_bars(tool):
    cell = new_code_cell("work()")
    cell.outputs = [
        new_output("stream", name="stderr", text="\rGraph compilation:  60%|###  | 60/100\r      \r"),
        new_output("stream", name="stderr", text="UserWarning: look at this"),
        new_output("display_data", data={tool.WIDGET: {"model_id": "x"}, "text/plain": "bar"}),
        new_output("stream", name="stdout", text=""),
    ]
    shown = tool.without_bars(new_notebook(cells=[cell])).cells[0].outputs
    assert [(output.name, output.text) for output in shown] == [
        ("stderr", "UserWarning: look at this"),
        ("stdout", ""),
    ]


def test_stored_solutions_show_no_answer(tool):
    cells = [new_code_cell("6 * 7", metadata={"tags": tags}) for tags in (["solution"], [])]
    for cell in cells:
        cell.outputs = [new_output("stream", name="stdout", text="42")]
    folded, open_one = tool.clean(new_notebook(cells=cells)).cells
    assert folded.outputs == []
    assert open_one.outputs[0].text == "42"


def test_cleaning_refuses_to_hide_a_warning(tool):
    cell = new_code_cell("work()")
    cell.outputs = [new_output("stream", name="stderr", text="UserWarning: look at this")]
    with pytest.raises(ValueError, match="look at this"):
        tool.clean(new_notebook(cells=[cell]))


def link_programs(folder, *names):
    """A folder to serve as the whole PATH: these programs and no others, no Python above all."""
    programs = folder / "bin"
    programs.mkdir()
    for name in names:
        path = next(Path(p) / name for p in os.environ["PATH"].split(":") if (Path(p) / name).exists())
        (programs / name).symlink_to(path)
    return programs


def run_setup(folder, python_source):
    """tools/setup.sh in a folder that holds nothing else, with `python_source` as the only Python."""
    (folder / "tools").mkdir()
    (folder / "tools" / "setup.sh").write_text((ROOT / "tools" / "setup.sh").read_text())
    programs = link_programs(folder, "bash", "dirname", "rm", "cat", "mkdir", "chmod", "tail")
    if python_source:
        (programs / "python3").write_text(f"#!{programs / 'bash'}\n{python_source}\n")
        (programs / "python3").chmod(0o755)
    command = [str(programs / "bash"), str(folder / "tools" / "setup.sh"), "python3"]
    return subprocess.run(command, env={"PATH": str(programs)}, capture_output=True, text=True, timeout=60)


def make_lint(folder, interpreter, made_in=""):
    """`make lint` where `.venv/ready` says that all is there, its Python being a link to `interpreter`."""
    (folder / "tools").mkdir()
    for name in ("Makefile", "requirements.txt", "tools/setup.sh"):
        (folder / name).write_text((ROOT / name).read_text())
    programs = folder / ".venv" / "bin"
    programs.mkdir(parents=True)
    (programs / "python").symlink_to(interpreter)
    for name in ("ruff", "mypy"):
        (programs / name).write_text("#!/bin/sh\necho linted\n")
        (programs / name).chmod(0o755)
    (folder / ".venv" / "ready").write_text(made_in)
    path = link_programs(folder, "make", "bash", "sh", "dirname", "rm", "cat")
    command = [str(path / "make"), "lint"]
    return subprocess.run(
        command, cwd=folder, env={"PATH": str(path)}, capture_output=True, text=True, timeout=60
    )


def test_an_environment_without_a_working_interpreter_is_made_again(tmp_path):
    result = make_lint(tmp_path, tmp_path / "removed" / "python3")
    assert "Error 127" not in result.stderr
    assert "setup: Python 3.11, 3.12, 3.13 or 3.14 is needed" in result.stderr


def test_an_environment_in_a_folder_that_was_moved_is_made_again(tmp_path):
    result = make_lint(tmp_path, sys.executable, made_in="/where/it/was/before")
    assert "setup: Python 3.11, 3.12, 3.13 or 3.14 is needed" in result.stderr


@pytest.mark.parametrize("is_noted", [True, False])
def test_an_environment_that_works_is_left_alone(tmp_path, is_noted):
    result = make_lint(tmp_path, sys.executable, made_in=f"{tmp_path.resolve()}\n" if is_noted else "")
    assert "linted" in result.stdout
    assert "setup" not in result.stdout + result.stderr


def test_an_old_python_gets_one_sentence(tmp_path):
    old = 'if [ "$1" = --version ]; then echo "Python 3.7.16"; else exit 1; fi'
    result = run_setup(tmp_path, old)
    assert result.returncode != 0
    assert result.stderr.count("\n") == 1
    assert "Python 3.11, 3.12, 3.13 or 3.14 is needed (found: Python 3.7.16)" in result.stderr


@pytest.mark.parametrize(
    ("version", "is_taken"), [("3, 10", False), ("3, 11", True), ("3, 14", True), ("3, 15", False)]
)
def test_only_pythons_with_wheels_of_all_pins_are_taken(tmp_path, version, is_taken):
    run_as = f'{sys.executable} -c "import sys; sys.version_info = ({version}); $2"'
    source = f'if [ "$1" = --version ]; then echo Python; else {run_as}; fi'
    result = run_setup(tmp_path, source)
    assert ("making .venv" in result.stdout) == is_taken
    assert ("is needed" in result.stderr) != is_taken


def test_no_python_at_all_gets_one_sentence(tmp_path):
    result = run_setup(tmp_path, "")
    assert result.returncode != 0
    assert result.stderr.strip() == result.stderr.strip().splitlines()[0]
    assert "found: none" in result.stderr


def test_a_missing_venv_module_gets_one_sentence(tmp_path):
    result = run_setup(tmp_path, 'case "$2" in *venv*) exit 1;; *) exit 0;; esac')
    assert result.returncode != 0
    assert "apt-get install python3-venv" in result.stderr


def test_no_compiler_is_said_and_setup_goes_on(tmp_path):
    result = run_setup(tmp_path, "exit 0")
    assert "no C++ compiler found" in result.stdout
    assert "making .venv" in result.stdout


@pytest.mark.parametrize("works", [True, False])
def test_pip_works_behind_one_line_and_is_heard_when_it_fails(tmp_path, works):
    pip = f"#!/bin/sh\\necho Collecting something\\nexit {0 if works else 1}\\n"
    make_environment = f'mkdir -p .venv/bin; printf "{pip}" >.venv/bin/python; chmod +x .venv/bin/python'
    source = f'case "$*" in *"-m venv"*) {make_environment};; esac'
    result = run_setup(tmp_path, source)
    assert (result.returncode == 0) == works
    assert "Collecting" not in result.stdout
    assert ("Collecting something" in result.stderr) != works
    assert ("pip could not install requirements.txt" in result.stderr) != works
    assert result.stdout.count("\n") == (5 if works else 3)  # no compiler; making; packages; package; done
