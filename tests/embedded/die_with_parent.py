"""Runs a program that is killed when its parent process ends: `python die_with_parent.py PARENT PROGRAM ARGUMENT…`.

The program keeps this process's id. This script runs outside of the project, with the standard library only.
"""

import ctypes
import os
import signal
import sys
import time

PR_SET_PDEATHSIG = 1


def main() -> None:
    """Ties this process to its parent, then executes the program."""
    parent, program = int(sys.argv[1]), sys.argv[2:]
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    elif os.fork() == 0:
        _watch(parent, os.getppid())
    # The parent may have died before the tie was made.
    if os.getppid() == parent:
        os.execv(program[0], program)


def _watch(parent: int, program: int) -> None:
    """Check twice a second, on systems whose kernel cannot signal the end of a parent."""
    while os.getppid() == program:
        try:
            os.kill(parent, 0)
        except ProcessLookupError:
            os.kill(program, signal.SIGKILL)
        time.sleep(0.5)
    os._exit(0)


if __name__ == "__main__":
    main()
