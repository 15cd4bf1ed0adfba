"""The process that forks each ``pyspark.daemon`` of sessions of the tests, each process of a streaming source, and each kernel.

It has imported what their workers would import. Arguments: the number of a socket, names of modules to import, and names of
functions to call. It ends when its input does. It also runs in environments without this project.
"""

from __future__ import annotations

import gc
import json
import os
import runpy
import select
import signal
import socket
import sys
from pkgutil import resolve_name


def become_daemon(client: socket.socket) -> None:
    """Run a module of pyspark with the files, environment, directory and arguments of a client, which waits for the end of it."""
    _, files, _, _ = socket.recv_fds(client, 1, 3)
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    with client.makefile("rb") as stream:
        request = json.load(stream)
    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["directory"])
    paths = [request["directory"], *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    sys.path[:] = list(dict.fromkeys([*filter(None, paths), *sys.path]))
    gc.collect = _keep_garbage
    module, *sys.argv[1:] = request["arguments"]
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    client.sendall(str(os.getpid()).encode())
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def _keep_garbage(generation: int = 2) -> int:
    """Collect nothing after a task: a collection takes as long as many tasks. Python still collects by itself."""
    return 0


def main() -> None:
    """Fork a daemon for each client."""
    _, number, *names = sys.argv
    for found in map(resolve_name, names):
        if callable(found):
            found()
    gc.collect()
    gc.freeze()  # pages of these objects stay shared with the workers
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    with socket.socket(fileno=int(number)) as listener:
        while sys.stdin not in select.select([sys.stdin, listener], [], [])[0]:
            client, _ = listener.accept()
            if os.fork() == 0:
                listener.close()
                become_daemon(client)
            client.close()


if __name__ == "__main__":
    main()
