"""This process -> the same process with few rights: limits, no capabilities, a short list of system calls.

Linux only; the standard library and the C library alone, for it runs inside the sandbox. The list is loaded
with libseccomp, which is there wherever apt or systemd is.
"""

import ctypes
import os
import resource
import signal
from collections.abc import Callable

PROCESSES = 1
"""A program may be one process with one thread: it starts no other."""
OPEN_FILES = 64
FILE_BYTES = 0
"""Nothing may be written to a file."""

_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_NO_NEW_PRIVS = 1, 4, 38
_CAPABILITY_VERSION_3 = 0x20080522
_ALLOW, _REFUSE = 0x7FFF0000, 0x00050000 | 1  # SCMP_ACT_ALLOW, SCMP_ACT_ERRNO(EPERM)
_EQUAL, _MASKED_EQUAL = 4, 7  # SCMP_CMP_EQ, SCMP_CMP_MASKED_EQ
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_GETFD, _GETFL = 1, 3

ALLOWED = """
read readv pread64 write writev close lseek dup getdents64 getcwd readlink readlinkat
stat lstat fstat newfstatat statx access faccessat faccessat2 poll ppoll select pselect6
mmap munmap mprotect mremap madvise brk futex restart_syscall sched_yield
rt_sigaction rt_sigprocmask rt_sigreturn sigaltstack set_robust_list set_tid_address rseq arch_prctl
getpid getppid gettid getuid geteuid getgid getegid getpgrp sched_getaffinity getcpu uname sysinfo
getrusage getrlimit times prlimit64
clock_gettime clock_getres clock_nanosleep nanosleep gettimeofday time getrandom exit exit_group
""".split()  # noqa: SIM905 - a list would take 60 lines
"""The system calls a program has: computing, reading files, the clock. Others fail with EPERM."""


class _Argument(ctypes.Structure):
    """`struct scmp_arg_cmp`: which argument of a system call, how and with what it is compared."""

    _fields_ = [
        ("index", ctypes.c_uint),
        ("how", ctypes.c_int),
        ("first", ctypes.c_uint64),
        ("second", ctypes.c_uint64),
    ]


def syscall_filter() -> ctypes.c_void_p:
    """The list of allowed system calls, ready to be loaded. Raises OSError where libseccomp is missing."""
    library = _seccomp()
    context = ctypes.c_void_p(library.seccomp_init(_REFUSE))
    if not context:
        raise OSError("libseccomp cannot make a filter")
    for name in ALLOWED:
        _allow(library, context, name)
    _allow(library, context, "openat", _Argument(2, _MASKED_EQUAL, _WRITING, 0))
    for command in (_GETFD, _GETFL):
        _allow(library, context, "fcntl", _Argument(1, _EQUAL, command, 0))
    return context


def shield() -> None:
    """Close this process to the user's others (memory, descriptors), drop capabilities, die with the parent.

    Raises OSError where a step fails.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    _call(libc.prctl, _PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    _call(libc.prctl, _PR_SET_DUMPABLE, 0, 0, 0, 0)
    _call(libc.prctl, _PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    _call(libc.capset, (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0), (ctypes.c_uint32 * 6)())


def confine(context: ctypes.c_void_p | None, *, memory_bytes: int, cpu_s: int) -> None:
    """Shield this process and give up all further rights for good; `context` None leaves all system calls.

    It keeps `memory_bytes` of address space and `cpu_s` seconds of processor time. Raises OSError where a
    step fails.
    """
    shield()
    for limit, value in (
        (resource.RLIMIT_AS, memory_bytes),
        (resource.RLIMIT_CPU, cpu_s),
        (resource.RLIMIT_FSIZE, FILE_BYTES),
        (resource.RLIMIT_NOFILE, OPEN_FILES),
        (resource.RLIMIT_NPROC, PROCESSES),
        (resource.RLIMIT_CORE, 0),
    ):
        ceiling = resource.getrlimit(limit)[1]
        least = value if ceiling == resource.RLIM_INFINITY else min(value, ceiling)
        resource.setrlimit(limit, (least, least))
    if context is not None and (code := _seccomp().seccomp_load(context)) != 0:
        raise OSError(-code, "libseccomp cannot load the filter")


def _seccomp() -> ctypes.CDLL:
    library = ctypes.CDLL("libseccomp.so.2")
    library.seccomp_init.restype = ctypes.c_void_p
    library.seccomp_init.argtypes = [ctypes.c_uint32]
    library.seccomp_load.argtypes = [ctypes.c_void_p]
    library.seccomp_rule_add_array.argtypes = [
        ctypes.c_void_p,
        ctypes.c_uint32,
        ctypes.c_int,
        ctypes.c_uint,
        ctypes.POINTER(_Argument),
    ]
    return library


def _allow(library: ctypes.CDLL, context: ctypes.c_void_p, name: str, *arguments: _Argument) -> None:
    """Allow one system call, of any or of such arguments; one this machine does not know is passed over."""
    number = library.seccomp_syscall_resolve_name(name.encode())
    if number == -1:
        return
    code = library.seccomp_rule_add_array(
        context, _ALLOW, number, len(arguments), (_Argument * len(arguments))(*arguments)
    )
    if code != 0:
        raise OSError(-code, f"libseccomp refuses a rule for {name}")


def _call(function: Callable[..., int], *arguments: object) -> None:
    if function(*arguments) != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"a process cannot be shielded: {os.strerror(code)}")
