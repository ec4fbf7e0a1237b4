"""A process with torch already imported, from which members are forked in milliseconds.

It answers one request at a time on a socket inherited from the launcher. It must never touch a device: a member is
forked before any CUDA call, or it could not use the device at all. Members are handed to the launcher (which adopts
orphans), so the zygote may end at any time.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import gc
import importlib
import os
import runpy
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, NoReturn

from tutti.train.agent import lines

PR_SET_PDEATHSIG = 1
WARM = ("numpy", "torch._dynamo", "torch.distributed.fsdp", "torch.utils.data", "tutti.train.job")

Child = Callable[[], int]


def serve_and_exit(connection: socket.socket) -> NoReturn:
    """Get warm, say so, then fork what is asked for."""
    child = warm_and_serve(lines.Lines(connection))
    end(child() if child else 0)


def end(code: int) -> NoReturn:
    """As a program ends: its threads come to their end, then what was registered for it is done. But the interpreter is
    not taken apart: that takes time, and threads of gloo's that still wait for somebody would hang or abort it.
    """
    try:
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
        with contextlib.suppress(OSError, ValueError, AttributeError):
            sys.stdout.flush()
            sys.stderr.flush()
        ctypes.CDLL(None).fflush(None)
    finally:
        os._exit(code)


def warm_and_serve(line: lines.Lines) -> Child | None:
    """Import what members need, once for all of them."""
    try:
        import torch  # noqa: PLC0415 - here, once, for all members
    except ImportError as error:
        sys.exit(f"tutti train: {sys.executable}: {error}")
    for name in (*WARM, *filter(None, os.environ.get("TUTTI_TRAIN_WARM", "").split(","))):
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    # What is there by now stays: a member that looked for rubbish in it would copy all of the memory it shares with us.
    gc.freeze()
    line.send({"say": "warm", "torch": torch.__version__})
    return serve(line)


def serve(line: lines.Lines) -> Child | None:
    """Fork on request until the launcher is gone; in a fork, returns what the fork is to do."""
    while line.is_open:
        for request in line.receive(wait_s=None):
            pid, child = fork_orphan(request)
            if child:
                line.socket.close()
                return child
            line.send({"say": "forked", "pid": pid})
    return None


def fork_orphan(request: lines.Message) -> tuple[int, Child | None]:
    """Fork twice, so that the member is the launcher's child and not ours."""
    reader, writer = os.pipe()
    first = os.fork()
    if first == 0:
        between = os.getpid()
        pid = os.fork()
        if pid == 0:
            os.close(reader)
            os.close(writer)
            return 0, lambda: become(request, between)
        os.write(writer, str(pid).encode())
        os._exit(0)
    os.close(writer)
    pid = int(os.read(reader, 32))
    os.close(reader)
    os.waitpid(first, 0)
    return pid, None


def become(request: lines.Message, between: int) -> int:
    """In the fork: take over the member's environment and do its work. Our parent is first the process between the
    zygote and us.
    """
    os.setsid()
    take_signals()
    os.environ.clear()
    os.environ.update(request["env"])
    os.chdir(request["cwd"])
    # Its end would be taken for the launcher's.
    while os.getppid() == between:
        time.sleep(0.0005)
    end_with_parent(int(os.environ["TUTTI_TRAIN_PARENT"]), signal.SIGTERM)
    if request["what"] == "store":
        return keep_store(os.environ["TUTTI_TRAIN_REPLY"])
    limit_threads()
    from tutti.train import attach  # noqa: PLC0415 - torch comes with it

    attach.attach()
    return run_python(request["argv"])


def take_signals() -> None:
    """As a program of its own would, whatever the launcher does with them."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)


def end_with_parent(parent: int, number: int) -> None:
    """Ask the kernel for a signal when the launcher dies, in place of the one before, and end now if it has."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, number, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def limit_threads() -> None:
    import torch  # noqa: PLC0415

    threads = os.environ.get("OMP_NUM_THREADS", "")
    if threads.isdigit():
        torch.set_num_threads(int(threads))


def run_python(argv: list[str]) -> int:
    """Run a script or a module as if it were the program itself."""
    sys.argv = argv[1:] if argv[0] == "-m" else argv
    try:
        if argv[0] == "-m":
            sys.path.insert(0, os.getcwd())
            runpy.run_module(argv[1], run_name="__main__", alter_sys=True)
        else:
            sys.path.insert(0, os.path.dirname(os.path.abspath(argv[0])))
            runpy.run_path(argv[0], run_name="__main__")
    except SystemExit as end:
        return exit_code(end.code)
    except KeyboardInterrupt:
        return 130
    except BaseException:  # noqa: BLE001 - the interpreter's own last resort, done here
        sys.excepthook(*sys.exc_info())
        return 1
    return 0


def exit_code(code: Any) -> int:
    if code is None:
        return 0
    if isinstance(code, int):
        return code
    print(code, file=sys.stderr)  # noqa: T201 - what the interpreter does with sys.exit("text")
    return 1


def keep_store(reply: str) -> int:
    """Be the store that groups meet at, and say where; ends with the launcher."""
    import torch.distributed as dist  # noqa: PLC0415

    store = dist.TCPStore("127.0.0.1", 0, None, is_master=True, wait_for_workers=False)
    with open(reply, "wb") as answer:
        answer.write(str(store.port).encode())
    signal.pause()
    return 0


if __name__ == "__main__":
    serve_and_exit(socket.socket(fileno=int(sys.argv[1])))
