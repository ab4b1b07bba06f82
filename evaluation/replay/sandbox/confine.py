"""What a process does to itself before foreign code runs in it; and, as a script, before it becomes a command.

As a script it uses nothing but the standard library, so that it starts within milliseconds:
python -I -S confine.py PARENT BYTES PROGRAM WORD ...
"""

import ctypes
import os
import resource
import signal
import sys

PR_SET_PDEATHSIG = 1  # prctl(2)


def confine(parent: int, data_bytes: int) -> None:
    """Die with the parent; allocate no more than so many bytes; leave no core files.

    parent: its process id. data_bytes: of private writable memory (RLIMIT_DATA), which unlike the address space
    does not count what threads and devices only reserve. The first needs Linux; elsewhere a process ends when its
    input does.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it died before the line above
        os._exit(1)
    _, most = resource.getrlimit(resource.RLIMIT_DATA)
    bound = data_bytes if most == resource.RLIM_INFINITY else min(data_bytes, most)
    resource.setrlimit(resource.RLIMIT_DATA, (bound, bound))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


if __name__ == "__main__":
    confine(int(sys.argv[1]), int(sys.argv[2]))
    os.execv(sys.argv[3], sys.argv[3:])
