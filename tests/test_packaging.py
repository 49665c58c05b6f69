"""What others get: a wheel that works alone, versions and addresses that agree, files that hosts can read."""

import importlib.util
import json
import re
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest
import yaml

import gnn_ipu_helpers

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ("gnn_ipu_helpers", "pyproject.toml", "README.md", "LICENSE")
OFFLINE = ("--no-deps", "--no-build-isolation", "--disable-pip-version-check", "--quiet")
# Forgets this repository, which `make setup` installs as editable, so that only an installed copy is found.
ALONE = """\
import importlib, os, sys
sys.path[:] = [p for p in sys.path if not os.path.isdir(os.path.join(p or ".", "gnn_ipu_helpers"))]
sys.meta_path[:] = [f for f in sys.meta_path if "editable" not in getattr(f, "__module__", "")]
assert importlib.util.find_spec("gnn_ipu_helpers") is None
"""
USE_A_LOADER = """\
import gnn_ipu_helpers
from gnn_ipu_helpers import FixedSizeDataLoader, datasets
batch = next(iter(FixedSizeDataLoader(datasets.mutag(), batch_size=10)))
print(batch.num_nodes, batch.num_graphs, gnn_ipu_helpers.__file__)
outside = [m.__file__ for n, m in sys.modules.items()
           if n.startswith("gnn_ipu_helpers.") and not m.__file__.startswith(TARGET)]
assert not outside, outside
"""


def load_tool(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run_alone(script, folder):
    """Run `script` in `folder`, where neither the repository nor the caller's environment is seen."""
    environment = {"HOME": str(folder), "PATH": "/usr/bin:/bin", "GNN_IPU_DATA": "standin"}
    command = [sys.executable, "-I", "-c", ALONE + script]
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=120, check=False
    )


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    """A copy of what a wheel is made of: setuptools would leave its scratch files in the repository."""
    folder = tmp_path_factory.mktemp("sources")
    for name in SOURCES:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, folder / name)
    return folder


@pytest.fixture(scope="module")
def wheel(sources, tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", *OFFLINE, "--wheel-dir", str(folder), str(sources)]
    subprocess.run(command, check=True, timeout=120)
    (path,) = folder.glob("*.whl")
    return path


def test_the_wheel_runs_a_loader_from_an_empty_folder(wheel, tmp_path):
    target, empty = tmp_path / "site", tmp_path / "empty"
    empty.mkdir()
    with zipfile.ZipFile(wheel) as archive:  # all that installing a pure wheel does
        archive.extractall(target)
    start = f"TARGET = {str(target)!r}\nsys.path.insert(0, TARGET)\n"
    ran = run_alone(start + USE_A_LOADER, empty)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.splitlines()[-1].startswith(f"253 10 {target}")


def test_the_wheel_says_whose_and_what_it_is(wheel):
    with zipfile.ZipFile(wheel) as archive:
        (metadata,) = (name for name in archive.namelist() if name.endswith("/METADATA"))
        about = Parser().parsestr(archive.read(metadata).decode())
        assert "gnn_ipu_helpers/py.typed" in archive.namelist()
    assert about["Version"] == gnn_ipu_helpers.__version__
    assert about["Author"] == "The contributors"
    assert about["License-Expression"] == "MIT"
    assert "PopTorch" in about["Keywords"]
    assert "Typing :: Typed" in about.get_all("Classifier")
    assert {"viewers", "sampling", "notebooks"} <= set(about.get_all("Provides-Extra"))
    addresses = dict(entry.split(", ") for entry in about.get_all("Project-URL"))
    assert {"Repository", "Issues", "Changelog"} <= set(addresses)
    assert len({address.split("/")[3] for address in addresses.values()}) == 1


def test_datasets_and_viewers_load_when_they_are_first_asked_for():
    script = """
import sys
import gnn_ipu_helpers
early = [n for n in sys.modules if n.split(".")[0] == "matplotlib" or n in (
    "gnn_ipu_helpers.datasets", "gnn_ipu_helpers.viewers")]
print(early, {"datasets", "viewers"} <= set(dir(gnn_ipu_helpers)))
print(gnn_ipu_helpers.datasets.__name__, gnn_ipu_helpers.viewers.__name__)
"""
    command = [sys.executable, "-W", "ignore", "-c", script]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert ran.stdout.splitlines() == ["[] True", "gnn_ipu_helpers.datasets gnn_ipu_helpers.viewers"]
    with pytest.raises(AttributeError, match="has no attribute 'dataset'"):
        gnn_ipu_helpers.dataset  # noqa: B018


@pytest.mark.parametrize("line", ["from gnn_ipu_helpers import viewers", "import gnn_ipu_helpers.viewers"])
def test_a_missing_matplotlib_is_named_with_what_to_install(line):
    hide = "import sys\nsys.modules['matplotlib'] = None\n"
    command = [sys.executable, "-W", "ignore", "-c", hide + line]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert ran.stderr.splitlines()[-1].endswith(
        'matplotlib, which is not installed: pip install "gnn_ipu_helpers[viewers]"'
    )


def test_version_citation_and_changelog_agree():
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    newest = re.search(r"(?m)^## (\S+)", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"))[1]
    assert cited["version"] == newest == gnn_ipu_helpers.__version__
    assert {"cff-version", "title", "message", "authors"} <= set(cited)


def test_pre_commit_lints_with_the_pinned_ruff():
    pinned = re.search(r"(?m)^ruff==(\S+)", (ROOT / "requirements.txt").read_text(encoding="utf-8"))[1]
    (hooks,) = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))["repos"]
    assert hooks["rev"] == f"v{pinned}"


def test_workflows_call_targets_that_the_makefile_has():
    targets = set(re.findall(r"(?m)^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8")))
    called = set()
    for path in (ROOT / ".github" / "workflows").glob("*.yml"):
        for job in yaml.safe_load(path.read_text(encoding="utf-8"))["jobs"].values():
            for step in job["steps"]:
                called |= set(re.findall(r"make ([a-z-]+)", step.get("run", "")))
    assert called == {"test", "docs"}
    assert called <= targets


def test_issue_forms_have_what_a_host_asks_for():
    for path in (ROOT / ".github" / "ISSUE_TEMPLATE").glob("[!c]*.yml"):
        form = yaml.safe_load(path.read_text(encoding="utf-8"))
        assert form["name"]
        assert form["description"]
        names = [field["id"] for field in form["body"]]
        assert len(names) == len(set(names))


@pytest.fixture
def copy_with_address(tmp_path):
    """The files that hold the address, to be written to, and `tools/repository.py`."""
    for name in ("pyproject.toml", "CITATION.cff", "README.md"):
        shutil.copy(ROOT / name, tmp_path / name)
    return tmp_path, load_tool("repository")


def test_the_address_is_set_everywhere_by_one_command(copy_with_address):
    folder, tool = copy_with_address
    tool.write("https://github.com/ada/graphs.git", folder)
    assert tool.address(folder) == "https://github.com/ada/graphs"
    cited = yaml.safe_load((folder / "CITATION.cff").read_text(encoding="utf-8"))
    assert cited["repository-code"] == "https://github.com/ada/graphs"
    for link in tool.launch_links("https://github.com/ada/graphs").values():
        assert f"]({link})" in (folder / "README.md").read_text(encoding="utf-8")
    assert tool.write("https://github.com/ada/graphs", folder) == []


def test_files_that_hold_the_address_agree_with_the_setting(copy_with_address):
    folder, tool = copy_with_address
    setting = tool.SETTING.search((ROOT / "pyproject.toml").read_text(encoding="utf-8"))[1]
    assert tool.write(setting, folder) == []


def test_an_address_of_another_form_is_refused(copy_with_address):
    folder, tool = copy_with_address
    with pytest.raises(ValueError, match="https://github.com/you/yours is needed"):
        tool.write("github.com/ada", folder)


def test_images_and_binder_run_the_same_steps():
    (ROOT / "requirements.txt").resolve(strict=True)
    dry = subprocess.run(
        ["bash", str(ROOT / "tools" / "image.sh"), "--dry-run"], capture_output=True, text=True, check=True
    )
    steps = dry.stdout.splitlines()
    assert [step.split()[:3] for step in steps[:2]] == [["python", "-m", "pip"]] * 2
    assert "requirements.txt" in steps[0]
    for file in ("Dockerfile", ".binder/postBuild"):
        assert "bash tools/image.sh" in (ROOT / file).read_text(encoding="utf-8")
    assert (ROOT / ".binder" / "postBuild").stat().st_mode & 0o111
    (command,) = re.findall(r"(?m)^CMD (.*)$", (ROOT / "Dockerfile").read_text(encoding="utf-8"))
    assert json.loads(command)[:2] == ["jupyter", "lab"]


def test_the_dev_container_opens_files_that_exist():
    container = json.loads((ROOT / ".devcontainer" / "devcontainer.json").read_text(encoding="utf-8"))
    for name in container["customizations"]["codespaces"]["openFiles"]:
        assert (ROOT / name).exists(), name
    assert container["postCreateCommand"].startswith("make setup")


def test_the_colab_cell_fetches_and_installs_in_a_bare_environment(sources, tmp_path):
    """An environment of its own that has torch and the rest as Colab has them, but not this package."""
    repository = tmp_path / "repository"
    shutil.copytree(sources, repository, ignore=shutil.ignore_patterns("build", "*.egg-info"))
    (repository / "notebooks").mkdir()
    (repository / "notebooks" / "placeholder").touch()
    git = ["git", "-C", str(repository), "-c", "user.name=a", "-c", "user.email=a@b"]
    for command in (["init", "-q"], ["add", "."], ["commit", "-qm", "all"]):
        subprocess.run([*git, *command], check=True)
    bare = tmp_path / "bare"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(bare)], check=True, timeout=120)
    (packages,) = bare.glob("lib/python*/site-packages")
    # A folder named in a .pth file is searched, but its own .pth files are not: one leads to this repository.
    (packages / "packages.pth").write_text(sysconfig.get_paths()["purelib"])
    # pip must do without a network; with "0" it builds with the setuptools that is here.
    environment = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin", "GNN_IPU_DATA": "standin"}
    environment.update(PIP_NO_INDEX="1", PIP_NO_BUILD_ISOLATION="0")
    cell = load_tool("colab").cell(repository.as_uri())
    script = cell + f"print(os.getcwd())\nTARGET = {str(packages)!r}\n" + USE_A_LOADER
    ran = subprocess.run(
        [str(bare / "bin" / "python"), "-c", script],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    printed = ran.stdout.splitlines()
    assert Path(printed[0]) == tmp_path / "tutorials" / "notebooks"
    assert printed[-1].startswith(f"253 10 {packages}")


def test_the_links_for_colab_lead_to_the_branch_that_the_workflow_fills():
    jobs = yaml.safe_load((ROOT / ".github" / "workflows" / "site.yml").read_text(encoding="utf-8"))["jobs"]
    (commands,) = (step["run"] for step in jobs["colab"]["steps"] if "colab.py" in step.get("run", ""))
    folder = re.search(r"colab.py --into build/colab/(\S+)", commands)[1]
    branch = re.search(r"--initial-branch=(\S+)", commands)[1]
    assert commands.strip().endswith(f" {branch}")
    links = load_tool("repository").launch_links("https://github.com/ada/graphs", "1_a.ipynb")
    assert links["Colab"].endswith(f"/ada/graphs/blob/{branch}/{folder}/1_a.ipynb")


def test_the_colab_cell_does_nothing_where_the_package_is(monkeypatch):
    def refuse(*_, **__):
        raise AssertionError("nothing is to be run")

    monkeypatch.setattr(subprocess, "run", refuse)
    exec(load_tool("colab").cell("https://github.com/ada/graphs"), {})


def test_notebooks_are_copied_with_the_colab_cell_in_front(tmp_path):
    tool = load_tool("colab")
    copies = tool.write(tmp_path, "https://github.com/ada/graphs")
    assert len(copies) == len(list((ROOT / "notebooks").glob("*.ipynb")))
    for path in copies:
        cells = tool.nbformat.read(path, as_version=4).cells
        assert "https://github.com/ada/graphs" in cells[0].source
