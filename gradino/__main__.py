"""`python -m gradino`: config (flags of a C program), info (this machine), bench (its limits, and what kernels reach).

config needs nothing of the package but its place and version, so it works wherever the files are.
"""

from __future__ import annotations

import argparse
import json
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


def info(given: argparse.Namespace) -> str:
    """What was detected and chosen."""
    from gradino.tools import info as tool

    return json.dumps(tool.collect(), indent=2) if given.json else tool.as_text()


def bench(given: argparse.Namespace) -> str:
    """Limits and kernels as a table; writes the picture if one is asked for."""
    from gradino.tools import bench as tool
    from gradino.tools import machine

    scale, seconds = (tool.SMALL, 0.0) if given.quick else (1.0, tool.SECONDS)
    if given.plot:
        from gradino.tools import roofline

        picture = roofline.measure(given.threads or 1, scale, 0.0 if given.quick else roofline.SECONDS)
        roofline.plot(picture, given.plot)
        missing = f"; not placed: {', '.join(picture['unplaced'])}" if picture["unplaced"] else ""
        return f"{given.plot}: {len(picture['ops'])} ops{missing}"
    threads = sorted({1, given.threads or machine.usable_cpus()})
    result = tool.measure(threads, scale, seconds)
    return json.dumps(result, indent=2) if given.json else tool.as_text(result, threads)


def parsers() -> argparse.ArgumentParser:
    """The command line."""
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
    command.set_defaults(run=config)
    command = commands.add_parser(
        "info",
        help="what was detected and chosen",
        description="Prints processor, caches, threads, memory, and the kernels that ops run.",
    )
    command.add_argument("--json", action="store_true", help="for programs")
    command.set_defaults(run=info)
    command = commands.add_parser(
        "bench",
        help="limits of this machine, and what kernels reach of them",
        description="Measures, in half a minute, what this machine can do at most and which share of it kernels reach.",
    )
    command.add_argument(
        "--threads", type=int, metavar="N", help="besides one thread (default: all processors); of the picture (default: 1)"
    )
    command.add_argument("--json", action="store_true", help="for programs")
    command.add_argument("--quick", action="store_true", help="small sizes, one look: to see that it works")
    command.add_argument("--plot", type=Path, metavar="FILE", help="instead of the table a picture, .svg say: every op under the roofline")
    command.set_defaults(run=bench)
    return parser


def main(arguments: list[str] | None = None) -> int:
    parser = parsers()
    given = parser.parse_args(arguments)
    line = given.run(given)
    if not line:
        parser.error("say what to print, such as --cflags --libs")
    print(line)
    return 0


if __name__ == "__main__":
    sys.exit(main())
