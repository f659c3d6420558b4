#!/bin/sh
# The names `python` and `python3` inside a notebook's sandbox: the Python that JupyterLab runs on.
exec "$EINSORA_PYTHON" "$@"
