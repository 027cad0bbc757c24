"""`python -m gradino config`: the compiler and linker flags of a C program that uses libgradino.

Needs nothing of the package but its place and version, so it works wherever the files are.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from pathlib import Path

from gradino._version import __version__

PACKAGE = Path(__file__).resolve().parent


def config(given: argparse.Namespace) -> str:
    """The flags asked for, as one line fit for a shell."""
    words: list[str] = []
    if given.version:
        words.append(__version__)
    if given.includedir:
        words.append(str(PACKAGE / "include"))
    if given.libdir:
        words.append(str(PACKAGE))
    if given.cflags:
        words.append(f"-I{PACKAGE / 'include'}")
    if given.libs:
        words += [f"-L{PACKAGE}", f"-Wl,-rpath,{PACKAGE}", "-lgradino"]
    return shlex.join(words)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m gradino")
    commands = parser.add_subparsers(dest="command", required=True)
    command = commands.add_parser(
        "config",
        help="flags for C programs",
        description="Prints what a C program needs: cc prog.c $(python -m gradino config --cflags --libs)",
    )
    command.add_argument("--cflags", action="store_true", help="compiler flags")
    command.add_argument("--libs", action="store_true", help="linker flags; the library is found where it lies now")
    command.add_argument("--includedir", action="store_true", help="the folder of gradino.h")
    command.add_argument("--libdir", action="store_true", help="the folder of the library")
    command.add_argument("--version", action="store_true", help="the version")
    given = parser.parse_args(arguments)
    line = config(given)
    if not line:
        command.error("say what to print, such as --cflags --libs")
    print(line)
    return 0


if __name__ == "__main__":
    sys.exit(main())
