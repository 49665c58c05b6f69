#!/usr/bin/env bash
# Makes .venv from requirements.txt. Says in one sentence what to install when something is missing.
# With --check it only forgets a .venv that does not work, so that `make` sets up anew.
set -eu
cd "$(dirname "$0")/.."

if [ "${1:-}" = --check ]; then
    [ -e .venv/ready ] || exit 0
    # The interpreter may be gone after an upgrade; programs in a folder that was moved look for it in the old place.
    made_in=$(cat .venv/ready)
    if [ "${made_in:-$(pwd -P)}" != "$(pwd -P)" ] || ! .venv/bin/python -c "import pip" >/dev/null 2>&1; then rm -f .venv/ready; fi
    exit 0
fi

fail() { echo "setup: $*" >&2; exit 1; }

# The pinned packages have wheels for these versions, and for no others.
suitable() { "$1" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 15))' >/dev/null 2>&1; }

python=""
for candidate in "${1:-python3}" python3.11 python3.12 python3.13 python3.14; do
    if command -v "$candidate" >/dev/null 2>&1 && suitable "$candidate"; then python=$candidate; break; fi
done
if [ -z "$python" ]; then
    found=$("${1:-python3}" --version 2>/dev/null || echo "none")
    fail "Python 3.11, 3.12, 3.13 or 3.14 is needed (found: $found); install one, or name one with \`make setup PYTHON=/path/to/python3.11\`."
fi
"$python" -c 'import venv, ensurepip' >/dev/null 2>&1 ||
    fail "Python's venv module is missing; on Debian or Ubuntu install it with \`apt-get install python3-venv\`."

compiler=""
for candidate in "${CXX:-}" c++ g++ clang++; do
    if [ -n "$candidate" ] && command -v "$candidate" >/dev/null 2>&1; then compiler=$candidate; break; fi
done
[ -n "$compiler" ] || echo "setup: no C++ compiler found: compiled graphs will run unfused, with the same results but more slowly; \`apt-get install g++\` fixes that."

# Runs a command with its output in a file, behind one line; on a terminal the line counts the seconds.
quietly() {
    said=$1
    shift
    "$@" >.venv/setup.log 2>&1 &
    running=$!
    start=$SECONDS
    if [ -t 1 ]; then
        while kill -0 "$running" 2>/dev/null; do
            printf '\rsetup: %s … %d s' "$said" $((SECONDS - start))
            sleep 1
        done
        printf '\n'
    else
        echo "setup: $said"
    fi
    wait "$running" || { tail -n 20 .venv/setup.log >&2; return 1; }
}

echo "setup: making .venv with $("$python" --version)"
rm -rf .venv
"$python" -m venv .venv && [ -d .venv ] || fail "\`$python -m venv .venv\` made no environment; see the lines above."
pip="install --disable-pip-version-check --progress-bar off"
quietly "installing requirements.txt, which takes a few minutes once" .venv/bin/python -m pip $pip -r requirements.txt ||
    fail "pip could not install requirements.txt: check the network or your package index, then run the command again."
quietly "installing this package" .venv/bin/python -m pip $pip --no-deps --editable . ||
    fail "pip could not install this package into .venv; see the lines above."
if [ -f tools/vendor.py ]; then .venv/bin/python tools/vendor.py || true; fi
pwd -P >.venv/ready
echo "setup: done"
