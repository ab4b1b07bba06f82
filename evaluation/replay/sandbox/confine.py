"""What is between the harness and a detector: a supervisor, and layers of confinement as far as the system has them.

python -I -S confine.py FD, with a socket that sends the order as JSON and gets back which layers hold. It uses nothing
but the standard library, so that it starts within milliseconds. The supervisor ends everything that the detector
began, when it ends and when the harness does; its first child is the detector, or process 1 of the namespaces in which
the detector runs. Each layer is tried, and reported: Linux alone has them, and containers often forbid namespaces.

no_new_privs, seccomp: prctl(2), seccomp(2). Landlock: landlock(7). Namespaces: unshare(2), user_namespaces(7).
"""

import ctypes
import errno
import json
import os
import platform
import resource
import signal
import socket
import struct
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

LAYERS = ("no_new_privs", "namespaces", "landlock", "seccomp", "subreaper")
PR_SET_PDEATHSIG, PR_CAPBSET_DROP, PR_SET_SECCOMP = 1, 24, 22
PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS = 36, 38
CLONE_NEWNS, CLONE_NEWIPC, CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET = 0x20000, 0x8000000, 0x10000000, 0x20000000, 2**30
MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REC, MS_PRIVATE = 2, 4, 8, 0x4000, 0x40000
CAPABILITIES = 64

# Landlock: access rights of files by the version of its interface that has them first, and scopes.
READ, LIST, EXECUTE, TRUNCATE, IOCTL = 0b1100, 0b1000, 0b1, 1 << 14, 1 << 15
FILE_RIGHTS = {1: 0x1FFF, 2: 0x3FFF, 3: 0x7FFF, 5: 0xFFFF}
OF_A_FILE = 0b111 | TRUNCATE | IOCTL
NETWORK, SCOPES = 0b11, 0b11  # bind and connect (version 4); abstract sockets and signals (version 6)

# Numbers of system calls by machine: those that reach other processes, the network or the kernel's inside, and that no
# detector needs; and those that name a process, which may not be one of the harness.
CALLS = {
    "x86_64": (
        0xC000003E,
        {41, 101, 310, 311, 312, 438, 424, 165, 166, 155, 272, 308, 321, 298, 250, 248, 249, 425, 200, 323, 304},
        {62, 234, 129, 297, 302},
    ),
    "aarch64": (
        0xC00000B7,
        {198, 117, 270, 271, 272, 438, 424, 40, 39, 41, 97, 268, 280, 241, 219, 217, 218, 425, 130, 282, 265},
        {129, 131, 138, 240, 261},
    ),
}
# socket ptrace process_vm_readv process_vm_writev kcmp pidfd_getfd pidfd_send_signal mount umount2 pivot_root unshare
# setns bpf perf_event_open keyctl add_key request_key io_uring_setup tkill userfaultfd open_by_handle_at;
# kill tgkill rt_sigqueueinfo rt_tgsigqueueinfo prlimit64


def libc(name: str, *words: Any) -> int:
    """The result of a function of the C library. Raises OSError."""
    found: int = getattr(_LIBC, name)(*words)
    if found < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return found


_LIBC = ctypes.CDLL(None, use_errno=True)


def new_namespaces() -> None:
    """User, process, mount, network and message namespaces; the next child is the first process in them."""
    user, group = os.getuid(), os.getgid()
    libc("unshare", CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC)
    for name, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
        with open(f"/proc/self/{name}", "w", encoding="ascii") as file:  # noqa: PTH123
            file.write(text)


def own_mounts(shared_bytes: int) -> bool:
    """Its own shared memory, and whether /proc shows the namespace's processes alone, which many containers forbid."""
    libc("mount", b"none", b"/", None, MS_REC | MS_PRIVATE, None)
    flags = MS_NOSUID | MS_NODEV | MS_NOEXEC
    with suppress(OSError):
        libc("mount", b"tmpfs", b"/dev/shm", b"tmpfs", flags, b"size=%d" % shared_bytes)
    try:
        libc("mount", b"proc", b"/proc", b"proc", flags, None)
    except OSError:
        return False
    return True


def landlock(readable: Iterable[str], listed: Iterable[str], writable: Iterable[str]) -> int:
    """Refuse all files but these, and signals to others; the version of the interface. Raises OSError.

    readable: also executed. listed: folders whose names, and those below, can be seen. What is not there is left out.
    """
    version = libc("syscall", 444, None, 0, 1)
    every = FILE_RIGHTS[max(known for known in FILE_RIGHTS if known <= version)]
    attributes = struct.pack("QQQ", every, NETWORK if version >= 4 else 0, SCOPES if version >= 6 else 0)
    rules = libc("syscall", 444, attributes, len(attributes), 0)
    for paths, rights in ((readable, READ | EXECUTE), (listed, LIST), (writable, every)):
        for path in paths:
            with suppress(FileNotFoundError, PermissionError, NotADirectoryError):
                at = os.open(path, os.O_PATH | os.O_CLOEXEC)
                allowed = rights & every if os.path.isdir(path) else rights & every & OF_A_FILE  # noqa: PTH112
                try:
                    libc("syscall", 445, rules, 1, struct.pack("=Qi", allowed, at), 0)
                finally:
                    os.close(at)
    libc("syscall", 446, rules, 0)
    os.close(rules)
    return version


def seccomp(processes: Iterable[int]) -> None:
    """Refuse system calls that reach outside, and signals to these processes. Raises OSError."""
    if platform.machine() not in CALLS:
        raise OSError(errno.ENOSYS, f"not for {platform.machine()}")
    architecture, refused, naming = CALLS[platform.machine()]
    allow, refuse, absent = 0x7FFF0000, 0x50000 | errno.EPERM, 0x50000 | errno.ENOSYS
    load, equal, at_least, masked, end = 0x20, 0x15, 0x35, 0x45, 0x06  # BPF: ld, jeq, jge, jset, ret
    program = [(load, 0, 0, 4), (equal, 1, 0, architecture), (end, 0, 0, refuse), (load, 0, 0, 0)]
    program += [(at_least, 0, 1, 0x40000000), (end, 0, 0, refuse)]  # the other interface of x86_64
    for number in sorted(refused):
        program += [(equal, 0, 1, number), (end, 0, 0, refuse)]
    # A new user namespace would give back what was dropped; of clone3 the flags can't be seen.
    program += [(equal, 0, 1, 435), (end, 0, 0, absent)]
    clone = 56 if platform.machine() == "x86_64" else 220
    program += [(equal, 0, 4, clone), (load, 0, 0, 16), (masked, 0, 1, CLONE_NEWUSER), (end, 0, 0, refuse)]
    program += [(end, 0, 0, allow)]
    named = sorted({number & 0xFFFFFFFF for number in processes})
    check = [(load, 0, 0, 16)]  # the lower half of the first argument
    for number in named:
        check += [(equal, 0, 1, number), (end, 0, 0, refuse)]
    check += [(end, 0, 0, allow)]
    for number in sorted(naming):
        program += [(equal, 0, len(check), number), *check]
    program += [(end, 0, 0, allow)]
    lines = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *line) for line in program))
    libc("prctl", PR_SET_SECCOMP, 2, struct.pack("HxxxxxxQ", len(program), ctypes.addressof(lines)), 0, 0)


def limited(order: dict[str, Any]) -> None:
    """Limits of a process: of private writable memory, which unlike the address space does not count what threads only
    reserve; of a file's length; no core files."""
    for what, bound in (("DATA", order["data_bytes"]), ("FSIZE", order["file_bytes"]), ("CORE", 0)):
        kind = getattr(resource, f"RLIMIT_{what}")
        _, most = resource.getrlimit(kind)
        bound = bound if most == resource.RLIM_INFINITY else min(bound, most)
        resource.setrlimit(kind, (bound, bound))


def held(name: str, order: dict[str, Any], layer: Callable[[], Any], layers: dict[str, Any]) -> bool:
    """Whether a layer holds; `layers` gets what it is, or why it does not."""
    if name not in order["layers"]:
        layers[name] = "not tried"
        return False
    try:
        layers[name] = layer() or True
    except (OSError, AttributeError) as error:
        layers[name] = str(error)
        return False
    return True


def become(order: dict[str, Any], layers: dict[str, Any], answer: socket.socket, harness: Iterable[int]) -> None:
    """The detector: the last layers, then its program."""
    if sys.platform == "linux":
        if "no_new_privs" in order["layers"]:
            for capability in range(CAPABILITIES):
                with suppress(OSError):
                    libc("prctl", PR_CAPBSET_DROP, capability, 0, 0, 0)
        held("no_new_privs", order, lambda: libc("prctl", PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), layers)
        # /proc/self is this process, and nobody else, from here on.
        proc = ["/proc"] if layers.get("proc") else [f"/proc/{os.readlink('/proc/self')}", *order["proc"]]  # noqa: PTH115
        shared = ["/dev/shm"] if layers.get("namespaces") is True else []
        readable, writable = [*order["readable"], *proc], [*order["writable"], *shared]
        held("landlock", order, lambda: landlock(readable, order["listed"], writable), layers)
        held("seccomp", order, lambda: seccomp(harness), layers)
    limited(order)
    layers.pop("proc", None)
    answer.sendall(json.dumps(layers).encode())
    answer.close()
    os.execv(order["words"][0], order["words"])


def first_process(order: dict[str, Any], layers: dict[str, Any], answer: socket.socket, status: int) -> None:
    """Process 1 of the namespaces, with which all others end: it waits for the detector, and writes down its end."""
    libc("prctl", PR_SET_PDEATHSIG, signal.SIGKILL)
    with suppress(OSError):
        layers["proc"] = own_mounts(order["file_bytes"])
    child = os.fork()
    if child == 0:
        os.setsid()
        become(order, layers, answer, ())
    silent(answer)
    os.write(status, b"%d" % _awaited(child))
    os._exit(0)


def supervise(order: dict[str, Any], answer: socket.socket) -> int:
    """Begin the detector and wait for it; end what it leaves behind. The status of its end, as of `os.wait`."""
    layers: dict[str, Any] = {}
    harness = [order["parent"], os.getpid(), 1, -1, -os.getpid()]
    namespaces = held("namespaces", order, new_namespaces, layers)
    held("subreaper", order, lambda: libc("prctl", PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), layers)
    inside, outside = os.pipe()
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        if namespaces:
            first_process(order, layers, answer, outside)
        libc("prctl", PR_SET_PDEATHSIG, signal.SIGKILL)
        os.setsid()
        become(order, layers, answer, harness)
    os.close(outside)
    silent(answer)
    try:
        status = _awaited(child)
        return int(os.read(inside, 99) or b"%d" % signal.SIGKILL) if namespaces else status
    finally:
        end_children()


def silent(answer: socket.socket) -> None:
    """Leave the questions and answers to the detector alone."""
    answer.close()
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in range(3):
        os.dup2(nothing, number)


def end_children() -> None:
    """Kill all processes that are below this one, until none is left; children of the dead come to it."""
    with suppress(ChildProcessError, FileNotFoundError):  # there is no child, or no such file in this kernel
        while True:
            with open("/proc/thread-self/children", encoding="ascii") as file:  # noqa: PTH123
                for child in file.read().split():
                    os.kill(int(child), signal.SIGKILL)
            os.wait()


def _awaited(child: int) -> int:
    while True:
        ended, status = os.wait()
        if ended == child:
            return status


def _stop(number: int, frame: object) -> None:
    end_children()
    os._exit(128 + number)


def main() -> None:
    """Take the order, and end as the detector did."""
    answer = socket.socket(fileno=int(sys.argv[1]))
    received = b""
    while part := answer.recv(2**16):
        received += part
    order = json.loads(received)
    if sys.platform != "linux":
        limited(order)
        answer.sendall(json.dumps(dict.fromkeys(LAYERS, "needs Linux")).encode())
        answer.close()
        os.execv(order["words"][0], order["words"])
    signal.signal(signal.SIGTERM, _stop)
    libc("prctl", PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != order["parent"]:  # it died before the line above
        os._exit(1)
    status = supervise(order, answer)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if os.WIFSIGNALED(status):
        with suppress(OSError):  # SIGKILL has no other
            signal.signal(os.WTERMSIG(status), signal.SIG_DFL)
        os.kill(os.getpid(), os.WTERMSIG(status))
    os._exit(os.WEXITSTATUS(status))


if __name__ == "__main__":
    main()
