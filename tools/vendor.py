"""Fetch 3Dmol.js, of the version that py3Dmol names, into build/vendor, for the 3D viewer to work offline.

    python tools/vendor.py                   fetch it: from npm, or without npm from the network
    python tools/vendor.py --inline PAGE …   write it into exported pages, to be moved anywhere

A machine without a network is no reason for `make setup` to fail: the viewer then shows its drawn picture.
"""

import argparse
import hashlib
import subprocess
import sys
import tarfile
import tempfile
import urllib.request
from pathlib import Path

import py3Dmol

VERSION = py3Dmol.__version__
# Of `build/3Dmol-min.js` in the npm package. It goes into pages that others open, so nothing else will do:
# another version of py3Dmol in requirements.txt wants another line here.
SHA256 = {"2.5.5": "f7cc78921ae72e7623e89cdd111434f58c2efddd2ffda1cd212644b406fb8016"}
MEMBER = "package/build/3Dmol-min.js"
ADDRESS = f"https://cdn.jsdelivr.net/npm/3dmol@{VERSION}/build/3Dmol-min.js"
VENDOR = Path(__file__).resolve().parents[1] / "build" / "vendor"
VIEWER_MARK = 'class="gnn-molecules"'
INLINE_MARK = "<!-- 3Dmol.js -->"
SECONDS = 60


def from_npm() -> bytes:
    """The script out of the npm package."""
    with tempfile.TemporaryDirectory() as folder:
        command = ["npm", "pack", "--silent", f"3dmol@{VERSION}"]
        packed = subprocess.run(
            command, cwd=folder, check=True, capture_output=True, text=True, timeout=SECONDS
        )
        with tarfile.open(Path(folder) / packed.stdout.split()[-1]) as archive:
            return archive.extractfile(MEMBER).read()


def from_network() -> bytes:
    """The script from the content delivery network."""
    with urllib.request.urlopen(ADDRESS, timeout=SECONDS) as answer:
        return answer.read()


def is_genuine(content: bytes) -> bool:
    """Whether this is the script of the version that py3Dmol names."""
    return hashlib.sha256(content).hexdigest() == SHA256.get(VERSION)


def fetch(vendor: Path = VENDOR, sources=(from_npm, from_network)) -> str:
    """Put the script into `vendor` unless it is there already; a line that says what happened."""
    script, refused = vendor / "3Dmol-min.js", []
    if script.exists():
        if is_genuine(script.read_bytes()):
            return f"3Dmol.js {VERSION} is there already"
        script.unlink()
    for source in sources:
        try:
            content = source()
        except (OSError, subprocess.SubprocessError, tarfile.TarError, KeyError):
            continue
        name = source.__name__.replace("_", " ")
        if not is_genuine(content):
            refused.append(f"what came {name} is not the script whose SHA-256 tools/vendor.py holds; ")
            continue
        vendor.mkdir(parents=True, exist_ok=True)
        script.write_bytes(content)
        return f"3Dmol.js {VERSION} fetched ({name})"
    return (
        f"3Dmol.js {VERSION} could not be fetched: {''.join(refused)}"
        f"molecules are shown as pictures, or in 3D from {ADDRESS}"
    )


def inline(page: Path, vendor: Path = VENDOR) -> str:
    """Write the script into one exported page, once; a line that says what happened."""
    text = page.read_text(encoding="utf-8")
    script = vendor / "3Dmol-min.js"
    if VIEWER_MARK not in text or INLINE_MARK in text:
        return f"{page.name}: nothing to do"
    if not script.exists() or not is_genuine(script.read_bytes()):
        return f"{page.name}: left as it is, since there is no genuine {script.name} to write into it"
    # The arguments hide a module loader on the page, for which the script would define nothing global.
    body = script.read_text(encoding="utf-8").replace("</script", "<\\/script")
    tag = f"{INLINE_MARK}<script>(function (define, exports, module) {{{body}\n}})();</script>"
    page.write_text(text.replace("</head>", tag + "</head>", 1), encoding="utf-8")
    return f"{page.name}: 3Dmol.js {VERSION} written into it"


def main(arguments) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--inline", nargs="+", type=Path, metavar="PAGE", default=[])
    options = parser.parse_args(arguments)
    if not options.inline:
        print(fetch())
    for page in options.inline:
        print(inline(page))


if __name__ == "__main__":
    main(sys.argv[1:])
