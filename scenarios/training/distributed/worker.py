"""What one rank's process does: takes its work from standard input, trains, answers on standard output."""

import os
import pickle
import signal
import sys
import threading
import traceback
from datetime import timedelta
from typing import Any, BinaryIO

import cloudpickle
import torch
import torch.distributed as dist

from trainwreck.scenarios.training.distributed.group import Group, PeerLostError
from trainwreck.scenarios.training.distributed.launch import LOST_PEER
from trainwreck.scenarios.training.environment import prepare
from trainwreck.scenarios.training.loop import train

TIMEOUT = timedelta(minutes=10)  # for a rank that the others wait for, on a busy machine


def main() -> None:
    """Train as one rank. The first one tells how it goes and what came out; any one tells what went wrong."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # who started this process ends it
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever else is printed is no answer
    work = pickle.load(sys.stdin.buffer)
    threading.Thread(target=_end_with, args=(sys.stdin.buffer,), daemon=True).start()
    status = 0
    try:
        results = _train(out, **work)
        if work["rank"] == 0:
            say(out, "result", results)
    except PeerLostError:
        status = LOST_PEER
    except Exception as error:
        error.add_note(f"on rank {work['rank']}:\n{traceback.format_exc()}")
        say(out, "raised", error)
        status = 1
    out.flush()
    # Without the destructors of a group that may have lost a member: they would wait for it.
    os._exit(status)


def _train(out: BinaryIO, *, rank: int, ranks: int, rendezvous: str, device: str, **work: Any) -> list[Any]:
    prepare()
    if device != "cpu":
        torch.cuda.set_device(rank)
        device = f"cuda:{rank}"
    dist.init_process_group(
        "gloo" if device == "cpu" else "nccl",
        init_method=f"file://{rendezvous}",
        rank=rank,
        world_size=ranks,
        timeout=TIMEOUT,
    )
    first = rank == 0
    return train(
        work.pop("jobs"),
        device=device,
        group=Group(rank, ranks),
        progress=(lambda steps: say(out, "progress", steps)) if first else None,
        watch=(lambda trace: say(out, "watch", trace)) if first else None,
        **work,
    )


def say(out: BinaryIO, kind: str, content: Any) -> None:
    """One message to who started this process."""
    cloudpickle.dump((kind, content), out)
    out.flush()


def _end_with(stream: BinaryIO) -> None:
    stream.read()  # returns when the other end is closed, by will or by death
    os._exit(LOST_PEER)
