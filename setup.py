"""Builds libgradino and the Python extension with native/build.py; all else stands in pyproject.toml."""

import sys
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

ROOT = Path(__file__).resolve().parent
sys.path.insert(0, str(ROOT / "native"))

import build as native  # noqa: E402
import ffi_build  # noqa: E402


class BuildNative(build_ext):
    """Puts libgradino, its headers and the extension into the package that is being built."""

    def run(self) -> None:
        package = ROOT / "gradino" if self.inplace else Path(self.build_lib) / "gradino"
        options = native.Options(debug=bool(self.debug), strip=not self.inplace)
        try:
            native.build_package(options, package)
        except native.BuildError as error:
            sys.exit(f"gradino: {error}")

    def get_outputs(self) -> list[str]:
        return [str(Path(self.build_lib) / "gradino" / name) for name in native.package_files()]

    def get_output_mapping(self) -> dict[str, str]:
        if not self.inplace:
            return {}
        return {str(Path(self.build_lib) / "gradino" / name): str(ROOT / "gradino" / name) for name in native.package_files()}


setup(
    ext_modules=[Extension("gradino._native", sources=[], py_limited_api=ffi_build.STABLE_ABI)],
    cmdclass={"build_ext": BuildNative},
    options={"bdist_wheel": {"py_limited_api": "cp310"}} if ffi_build.STABLE_ABI else {},
)
