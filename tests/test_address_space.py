"""Where `ulimit -v` keeps the address space short, arenas make do with less, and say so when it is used up."""

from __future__ import annotations

import re
import sys
import textwrap

from building import run


def test_address_space_limits_are_reported_and_survived() -> None:
    code = """
        import resource
        import gradino as gd
        used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
        room = 200 << 20
        resource.setrlimit(resource.RLIMIT_AS, (used + room, used + room))
        try:
            gd.Arena(reserve=1 << 40)
            print("reserved")
        except gd.OutOfMemoryError as error:
            print(error)
        with gd.step_arena() as arena:
            print(arena.stats().reserved < 1 << 30, gd.ones(1000).sum().item())
            try:
                while True: gd.ones(1 << 20)
            except gd.OutOfMemoryError as error:
                print(error)
            print((gd.ones(10) + 1).sum().item() if arena.reset() is None else "")
    """
    done = run([sys.executable, "-c", textwrap.dedent(code)])
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert "refused to reserve 1099511627776 bytes" in lines[0] and "ulimit" in lines[0], lines
    assert lines[1] == "True 1000.0"
    limited = r"out of memory: .* \d+ reserved of 68719476736 wanted, as a limit on address space such as ulimit -v gave no more"
    assert re.search(limited, lines[2]) and "Raise the limit" in lines[2], lines
    assert lines[3] == "20.0"


def test_import_under_an_address_space_limit() -> None:
    code = """
        import resource, numpy
        used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + (400 << 20),) * 2)
        import gradino as gd
        model = gd.nn.Linear(3, 2)
        with gd.step_arena():
            model(gd.ones(4, 3)).sum().backward()
        print(gd.permanent_arena().stats().reserved < 1 << 30, model.weight.grad.tolist())
        try:
            gd.nn.Linear(1 << 14, 1 << 14)
        except gd.OutOfMemoryError as error:
            print(error)
    """
    done = run([sys.executable, "-c", textwrap.dedent(code)])
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "True [[4.0, 4.0, 4.0], [4.0, 4.0, 4.0]]"
    assert "wanted, as a limit on address space such as ulimit -v gave no more" in lines[1], lines
