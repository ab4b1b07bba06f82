"""Runs command lines of `trainwreck`, one a line of JSON on stdin, in this process, and says how each ended.

Answers are JSON lines: code (None where an exception came out), out and err, peak (KiB of memory that this process has
taken so far).
"""

import json
import os
import resource
import sys
import traceback
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO

LARGEST = 6 * 2**30  # bytes of data: a guard of the machine, above the 4 GiB that are the limit


def main() -> None:
    answers = os.fdopen(os.dup(1), "w", encoding="ascii")
    os.dup2(2, 1)  # what a library prints goes elsewhere
    resource.setrlimit(resource.RLIMIT_DATA, (LARGEST, LARGEST))
    from trainwreck.cli import main as trainwreck

    questions, sys.stdin = sys.stdin, StringIO()  # a command that asks its user something finds an end
    for line in questions:
        question = json.loads(line)
        os.chdir(question["folder"])
        sys.argv = ["trainwreck", *question["words"]]
        out, err = StringIO(), StringIO()
        code: object = None
        with redirect_stdout(out), redirect_stderr(err):
            try:
                trainwreck()
            except SystemExit as end:
                code = end.code or 0
            except BaseException:
                traceback.print_exc(file=err)
        os.chdir("/")
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        answers.write(json.dumps({"code": code, "out": out.getvalue(), "err": err.getvalue(), "peak": peak}) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
