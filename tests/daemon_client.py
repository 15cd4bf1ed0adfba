"""Stands in for ``pyspark.daemon``: a process of :mod:`tests.worker_daemon` forks the real one, whose end this waits for."""

import json
import os
import signal
import socket
import sys

with socket.socket(socket.AF_UNIX) as server:
    server.connect(sys.argv[1])
    socket.send_fds(server, [b"\0"], [0, 1, 2])
    environment = dict(os.environ) | {"TESTS_JVM": str(os.getppid())}
    server.sendall(json.dumps({"arguments": sys.argv[2:], "environment": environment, "directory": os.getcwd()}).encode())
    server.shutdown(socket.SHUT_WR)
    daemon = int(server.recv(20))
    signal.signal(signal.SIGTERM, lambda *_: os.kill(daemon, signal.SIGTERM))
    server.recv(1)
