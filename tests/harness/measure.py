"""Runs one program and reports what the kernel measured: python -I -S measure.py REPORT_FD PROGRAM ARGUMENT...

It stands between the tests and the program because a child's peak memory starts, in the kernel's books, at
the size of the process that it was forked from: the tests' interpreter is larger than what they measure,
this one is about 10 MiB. Writes two lines to REPORT_FD: the program's process id at its start; at its end the
wait status, the peak resident size in KiB, and the user and system CPU seconds.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def main():
    report, command = int(sys.argv[1]), sys.argv[2:]
    os.set_inheritable(report, False)
    # A Ctrl-C is for the program; this one stays to report how it ended.
    signal.signal(signal.SIGINT, lambda *_: None)
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        try:
            os.execvp(command[0], command)
        except OSError as error:
            os.write(2, f"{command[0]}: {error.strerror}\n".encode())
            os._exit(127)
    os.write(report, f"{child}\n".encode())
    # The program has its own ends of the pipes: a reader must see them close when it ends.
    os.close(0)
    os.close(1)
    while True:
        try:
            _, status, usage = os.wait4(child, 0)
            break
        except InterruptedError:
            continue
    os.write(report, f"{status} {usage.ru_maxrss} {usage.ru_utime} {usage.ru_stime}\n".encode())


main()
