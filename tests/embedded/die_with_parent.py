"""Runs a program that dies with the process that asked for it: `python die_with_parent.py PARENT PROGRAM ARGUMENT…`.

The program keeps this process's id. Runs as a script, without the project: standard library only.
"""

import ctypes
import os
import signal
import sys
import time

PR_SET_PDEATHSIG = 1


def main() -> None:
    """Ties this process to its parent, then becomes the program."""
    parent, program = int(sys.argv[1]), sys.argv[2:]
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    elif os.fork() == 0:
        _watch(parent, os.getppid())
    # The parent may have died before the tie was made.
    if os.getppid() == parent:
        os.execv(program[0], program)


def _watch(parent: int, program: int) -> None:
    """For systems whose kernel does not tell: looks twice a second."""
    while os.getppid() == program:
        try:
            os.kill(parent, 0)
        except ProcessLookupError:
            os.kill(program, signal.SIGKILL)
        time.sleep(0.5)
    os._exit(0)


if __name__ == "__main__":
    main()
