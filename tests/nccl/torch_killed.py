#!/usr/bin/env python3
"""A rank is killed in a step of DDP: the others end, and their words name it.

python torch_killed.py [RANKS]: starts the ranks itself, because torchrun would end them all.
"""
import os
import signal
import socket
import subprocess
import sys
import time

import checks

VICTIM, STEP, SECONDS = 1, 5, 30


def train():
    checks.load()
    import torch  # pylint: disable=import-outside-toplevel
    import torch.distributed as dist  # pylint: disable=import-outside-toplevel
    from torch.nn.parallel import (  # pylint: disable=import-outside-toplevel
        DistributedDataParallel)
    device = torch.device("cuda", checks.LOCAL_RANK % torch.cuda.device_count())
    torch.cuda.set_device(device)
    dist.init_process_group("nccl")
    net = DistributedDataParallel(torch.nn.Linear(512, 512).to(device))
    for step in range(100000):
        loss = net(torch.ones(64, 512, device=device)).sum()
        if step == STEP and checks.RANK == VICTIM:
            os.kill(os.getpid(), signal.SIGKILL)
        loss.backward()
        torch.cuda.synchronize()
        if step == 0:
            print("begun", file=sys.stderr, flush=True)


def train_and_tell():
    """Its own exit says when PyTorch raises the error: what follows is PyTorch's own end."""
    try:
        train()
    except BaseException as error:  # pylint: disable=broad-except: its time is of interest
        print(f"{time.strftime('%X')} raised {type(error).__name__}", file=sys.stderr, flush=True)
        raise


def main():
    ranks = int(sys.argv[1]) if len(sys.argv) > 1 else 2
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    started = []
    for rank in range(ranks):
        environment = dict(os.environ, RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(ranks),
                           LOCAL_WORLD_SIZE=str(ranks), MASTER_ADDR="127.0.0.1",
                           MASTER_PORT=str(port), PLAIT_TEST_TRAIN="1",
                           # PyTorch waits this long for other ranks' dumps, else a minute.
                           TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC="1000")
        started.append(subprocess.Popen([sys.executable, __file__], env=environment,
                                        stderr=subprocess.PIPE, text=True))
    tests = checks.Checks()
    until = time.monotonic() + 4 * SECONDS
    victim = started[VICTIM]
    victim.communicate()
    tests.run("the victim is killed", lambda: victim.returncode == -signal.SIGKILL)
    killed = time.monotonic()
    for rank, process in enumerate(started):
        if rank == VICTIM:
            continue
        try:
            words = process.communicate(timeout=max(1, until - time.monotonic()))[1]
        except subprocess.TimeoutExpired:
            process.kill()
            words = process.communicate()[1]
        took = time.monotonic() - killed
        tests.run(f"rank {rank} has trained before", lambda text=words: "begun" in text)
        tests.run(f"rank {rank} ends by itself, with an error",
                  lambda code=process.returncode: code not in (0, -signal.SIGKILL))
        tests.run(f"rank {rank} ends within {SECONDS} s", lambda time_of=took: time_of < SECONDS)
        named = [line for line in words.splitlines() if f"rank {VICTIM}" in line]
        tests.run(f"rank {rank} names the victim", lambda lines=named: bool(lines))
        print(f"rank {rank}, exit {process.returncode} after {took:.1f} s, said:\n{words[-6000:]}",
              flush=True)
    tests.end()


if __name__ == "__main__":
    if "PLAIT_TEST_TRAIN" in os.environ:
        train_and_tell()
    else:
        main()
