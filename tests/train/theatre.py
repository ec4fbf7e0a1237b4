"""A process with torch imported that forks a launcher on request, so that a hundred runs pay for one import.

Reads one JSON object per line (argv, env, log, and what else to import once for all), answers with the launcher's
process id, then with its exit code when asked to wait.
"""

import ctypes
import gc
import importlib
import json
import os
import signal
import sys


def main():
    # By name: a plain import that nothing uses is tidied away, and then every run pays for its own.
    from tutti.train.zygote import WARM

    for name in ("torch", *WARM, "tutti.train.launch"):
        importlib.import_module(name)
    print(json.dumps({"ready": True}), flush=True)
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)
    running = set()
    for line in sys.stdin:
        request = json.loads(line)
        if "wait" in request:
            _, status = os.waitpid(request["wait"], 0)
            running.discard(request["wait"])
            print(json.dumps({"code": os.waitstatus_to_exitcode(status)}), flush=True)
            continue
        for name in request.get("warm", ()):
            importlib.import_module(name)
        gc.freeze()
        pid = os.fork()
        if pid == 0:
            perform(request)
        running.add(pid)
        print(json.dumps({"pid": pid}), flush=True)
    for pid in running:
        os.kill(pid, signal.SIGKILL)


def perform(request):
    """In the fork: be `python -m tutti.train`."""
    log = os.open(request["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    null = os.open(os.devnull, os.O_RDONLY)
    for number, file in ((0, null), (1, log), (2, log)):
        os.dup2(file, number)
    os.closerange(3, 256)
    os.environ.clear()
    os.environ.update(request["env"])
    sys.path[:0] = [path for path in os.environ["PYTHONPATH"].split(os.pathsep) if path not in sys.path]
    code = 70
    try:
        from tutti.train.launch import main as launch

        code = launch(request["argv"])
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    except BaseException:  # noqa: BLE001
        import traceback

        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    main()
