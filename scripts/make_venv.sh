#!/bin/sh
# make_venv.sh FOLDER [PYTHON]: make a virtual environment with PYTHON, or with the first Python >= 3.11 found.
set -eu
folder=$1
new_enough='import sys; sys.exit(sys.version_info < (3, 11))'
for python in ${2:-python3 python3.13 python3.12 python3.11}; do
    command -v "$python" >/dev/null 2>&1 || continue
    "$python" -c "$new_enough" 2>/dev/null || continue
    if "$python" -m venv "$folder"; then
        exit 0
    fi
    rm -rf "$folder"
    echo "$python cannot make a virtual environment; on Debian or Ubuntu: apt install python3-venv" >&2
    exit 1
done
echo "Python 3.11 or newer was not found (tried: ${2:-python3 python3.13 python3.12 python3.11})." >&2
echo "Install it, or name one: make setup PYTHON=/path/to/python3.12" >&2
exit 1
