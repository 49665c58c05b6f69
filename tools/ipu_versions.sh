#!/usr/bin/env bash
# Runs the tests of batching on the versions that PopTorch 3.3 pins: Python 3.8, torch 2.0.1, PyG 2.4.0.
#
# The environment is built once, in .venv-ipu-versions (or $IPU_VERSIONS_VENV). PyPI has torch 2.0.1 with CUDA only,
# so that this downloads about 2 GB; PYTHON38 names the interpreter if `python3.8` is not on the path.
set -euo pipefail
cd "$(dirname "$0")/.."

venv="${IPU_VERSIONS_VENV:-.venv-ipu-versions}"
python="${PYTHON38:-python3.8}"

if [ ! -e "$venv/ready" ]; then
    "$python" -m venv "$venv"
    "$venv/bin/python" -m pip install --quiet --upgrade pip
    "$venv/bin/python" -m pip install --quiet \
        torch==2.0.1 torch_geometric==2.4.0 "numpy<1.25" tqdm pytest hypothesis pymetis
    touch "$venv/ready"
fi
PYTHONPATH=. "$venv/bin/python" -m pytest -q tests/batching "$@"
