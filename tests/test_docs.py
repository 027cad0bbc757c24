"""What the documents show is true: snippets run, quoted code stands where they say, links and targets exist.

In README.md, CONTRIBUTING.md, CHANGELOG.md and docs/*.md a fence says what is done with it:
    python          run, all of a page in one namespace; `>>>` lines are doctests; a `text` fence right
                    after a script is what it prints
    c               a whole program: built against the library and run; a `text` fence after it as above
    c file=PATH     quoted: each line stands in that file (python file=PATH likewise)
"""

from __future__ import annotations

import contextlib
import doctest
import importlib
import io
import pkgutil
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import gradino as gd
from gradino import nn

ROOT = Path(__file__).resolve().parent.parent
PAGES = sorted(p.relative_to(ROOT).as_posix() for p in [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")])
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
LARGEST_IMAGE = 150_000  # bytes


class Fence(NamedTuple):
    """A fenced block of a page."""

    language: str
    file: str  # where it is quoted from, or ""
    text: str
    line: int
    printed: str | None  # the `text` fence right after it


def fences(page: str) -> list[Fence]:
    """All fenced blocks of a page in order."""
    text = (ROOT / page).read_text(encoding="utf-8")
    found = list(re.finditer(r"^```(\w*)(?: file=(\S+))?\n(.*?)^```$", text, re.MULTILINE | re.DOTALL))
    result = []
    for i, match in enumerate(found):
        after = found[i + 1] if i + 1 < len(found) else None
        adjacent = after is not None and after[1] == "text" and not text[match.end() : after.start()].strip()
        line = text.count("\n", 0, match.start()) + 1
        result.append(Fence(match[1], match[2] or "", match[3], line, after[3] if after is not None and adjacent else None))
    return result


def compare_printed(fence: Fence, page: str, output: str) -> None:
    if fence.printed is not None:
        what = f"{page}:{fence.line} prints\n{output}\nbut the page says\n{fence.printed}"
        assert doctest.OutputChecker().check_output(fence.printed, output, FLAGS), what


def run_doctest(test: doctest.DocTest) -> None:
    """Run it; what fails is said with place and difference."""
    report = io.StringIO()
    failed, _ = doctest.DocTestRunner(optionflags=FLAGS, verbose=False).run(test, out=report.write, clear_globs=False)
    assert not failed, report.getvalue()


@pytest.mark.own_arenas
@pytest.mark.parametrize("page", PAGES)
def test_snippets_run(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    space: dict[str, Any] = {"__name__": page}
    for fence in fences(page):
        if fence.language != "python" or fence.file:
            continue
        if ">>>" in fence.text:
            test = doctest.DocTestParser().get_doctest(fence.text, space, page, str(ROOT / page), fence.line)
            run_doctest(test)
            space.update(test.globs)
            continue
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            exec(compile("\n" * fence.line + fence.text, page, "exec"), space)
        compare_printed(fence, page, printed.getvalue())


@pytest.mark.parametrize("page", PAGES)
def test_c_programs_build_and_run(page: str, tmp_path: Path) -> None:
    programs = [f for f in fences(page) if f.language == "c" and not f.file and "int main" in f.text]
    compiler = shutil.which("cc")
    if programs and compiler is None:
        pytest.skip("no C compiler (cc) here")
    for number, fence in enumerate(programs):
        source = tmp_path / f"program{number}.c"
        source.write_text(fence.text, encoding="utf-8")
        config = subprocess.run(
            [sys.executable, "-m", "gradino", "config", "--cflags", "--libs"], capture_output=True, text=True, check=True
        )
        command = [str(compiler), "-std=c11", "-Wall", "-Wextra", "-Werror", str(source), "-o", str(source.with_suffix(""))]
        built = subprocess.run([*command, *shlex.split(config.stdout), "-lm"], capture_output=True, text=True)
        assert not built.returncode, f"{page}:{fence.line} does not compile\n{built.stderr}"
        ran = subprocess.run([str(source.with_suffix(""))], capture_output=True, text=True)
        assert not ran.returncode, f"{page}:{fence.line} ended with {ran.returncode}\n{ran.stdout}{ran.stderr}"
        compare_printed(fence, page, ran.stdout)


@pytest.mark.parametrize("page", PAGES)
def test_quoted_code_stands_in_its_file(page: str) -> None:
    for fence in fences(page):
        if fence.file:
            lines = {" ".join(line.split()) for line in (ROOT / fence.file).read_text(encoding="utf-8").splitlines()}
            for line in fence.text.splitlines():
                quoted = " ".join(line.split())
                assert quoted in lines | {"", "...", "/* ... */"}, f"{page}:{fence.line}: {fence.file} has no line {quoted!r}"


@pytest.mark.parametrize("page", PAGES)
def test_links_and_make_targets_exist(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    for link in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", text) + re.findall(r"<img[^>]* src=\"([^\"]+)\"", text):
        if "://" not in link:
            target = (ROOT / page).parent / link
            assert target.exists(), f"{page}: {link} does not exist"
            assert target.suffix != ".png" or target.stat().st_size < LARGEST_IMAGE, f"{page}: {link} has more than {LARGEST_IMAGE} bytes"
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"(?:`|^)make ([a-z]+)", text, re.MULTILINE):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), f"{page}: the Makefile has no target {target}"


NOT_PYTHON = ("__main__", "_native", "libgradino")
MODULES = sorted(m.name for m in pkgutil.walk_packages(gd.__path__, "gradino.") if m.name.rpartition(".")[2] not in NOT_PYTHON)


@pytest.mark.own_arenas
@pytest.mark.parametrize("name", ["gradino", *MODULES])
def test_docstring_examples(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for test in doctest.DocTestFinder(exclude_empty=True).find(importlib.import_module(name)):
        if test.examples:
            run_doctest(test)


def public_things() -> list[tuple[str, Any]]:
    spaces = {"gd": gd, "gd.nn": nn, "gd.nn.functional": nn.functional, "gd.optim": gd.optim, "gd.autograd": gd.autograd}
    things = [(f"{space}.{name}", getattr(module, name)) for space, module in spaces.items() for name in module.__all__]
    parts = [cls for cls in gd.Tensor.__mro__ if cls.__module__.startswith("gradino")]
    things += [(f"Tensor.{name}", value) for cls in parts for name, value in vars(cls).items() if not name.startswith("_")]
    return [(name, thing) for name, thing in things if callable(thing)]


def test_everything_public_has_a_docstring() -> None:
    bare = [name for name, thing in public_things() if not (getattr(thing, "__doc__", None) or "").strip()]
    assert not bare, f"without a docstring: {bare}"


def test_a_wrong_snippet_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The harness itself: a wrong value, a wrong quotation and a dead link are each caught."""
    monkeypatch.setitem(globals(), "ROOT", tmp_path)
    (tmp_path / "code.c").write_text("int a;\n")
    (tmp_path / "Makefile").write_text("demo:\n")
    for wrong, check in [
        ("```python\n>>> 1 + 1\n3\n```\n", lambda: test_snippets_run("p.md", tmp_path, monkeypatch)),
        ("```python\nprint(1)\n```\n\n```text\n2\n```\n", lambda: test_snippets_run("p.md", tmp_path, monkeypatch)),
        ("```c file=code.c\nint b;\n```\n", lambda: test_quoted_code_stands_in_its_file("p.md")),
        ("[there](nowhere.md)\n", lambda: test_links_and_make_targets_exist("p.md")),
        ("`make coffee`\n", lambda: test_links_and_make_targets_exist("p.md")),
    ]:
        (tmp_path / "p.md").write_text(wrong)
        with pytest.raises(AssertionError):
            check()
