"""Says of each file of a folder whether the `safetensors` package opens it, as one JSON object.

Usage: read_safetensors.py FOLDER
"""
import json
import sys
from pathlib import Path

from safetensors import SafetensorError, safe_open


def opens(path):
    try:
        with safe_open(str(path), framework="np") as file:
            file.keys()
        return True
    except (SafetensorError, OSError, ValueError):
        return False


print(json.dumps({path.name: opens(path) for path in Path(sys.argv[1]).iterdir()}))
