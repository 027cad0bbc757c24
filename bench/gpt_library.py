"""The GPT of gpt_model.py as a module that imports the library named."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent


def model_file(library: str) -> Any:
    """gpt_model.py, importing that library."""
    os.environ["LIBRARY"] = library
    spec = importlib.util.spec_from_file_location(f"gpt_model_{library}", HERE / "gpt_model.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
