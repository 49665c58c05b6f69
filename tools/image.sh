#!/usr/bin/env bash
# The steps that make an image ready for the notebooks, for Docker and Binder alike, in the Python that is on PATH.
# With --dry-run the steps are printed instead.
set -euo pipefail
cd "$(dirname "$0")/.."

step() { if [ "${dry:-}" ]; then echo "$*"; else "$@"; fi; }
if [ "${1:-}" = --dry-run ]; then dry=yes; fi

# PyTorch's CPU wheels: pip's default ones for Linux bring several gigabytes of CUDA.
export PIP_EXTRA_INDEX_URL="${PIP_EXTRA_INDEX_URL:-https://download.pytorch.org/whl/cpu}"
step python -m pip install --quiet --no-cache-dir --disable-pip-version-check -r requirements.txt
step python -m pip install --quiet --no-cache-dir --disable-pip-version-check --no-deps --editable .
step python tools/vendor.py
step python -c "import gnn_ipu_helpers; print(gnn_ipu_helpers.backend())"
