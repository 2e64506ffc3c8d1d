"""torchrun itself under `synergy run`: workers that know only SIGTERM save, leave and go on.

Needs torch and bin/synergy (`make build`), and says so: `make test-python-torch`.
"""

import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest

from . import WITHOUT_LIBUV, command

LIMIT = 300  # seconds; importing torch takes long on a machine that has other work

WORKER = """
import os, signal, sys, time
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
wanted = False
def term(signum, frame):
    global wanted
    wanted = True
signal.signal(signal.SIGTERM, term)
n = torch.load("state.pt")["n"] if os.path.exists("state.pt") else 0
last = n + 20 if n else 10 ** 9
print("goes on at", n, flush=True)
while n < last:
    time.sleep(0.01)
    n += 1
    flag = torch.tensor([int(wanted)])
    dist.all_reduce(flag)
    if flag.item():
        if dist.get_rank() == 0:
            torch.save({"n": n}, "state.new")
            os.rename("state.new", "state.pt")
            print("saved at", n, flush=True)
        dist.barrier()
        sys.exit(int(sys.argv[1]))
print("trained to", n, flush=True)
"""


def read(path):
    with open(path) as file:
        return file.read()


class Torchrun(unittest.TestCase):
    def setUp(self):
        self.command = command(self)
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        with open(os.path.join(self.folder, "worker.py"), "w") as file:
            file.write(WORKER)

    def start(self, name, options, code):
        # torch 1.13 on Python 3.11 starts only with redirects.
        line = [self.command, "run", *options, "--", sys.executable, "-m", "torch.distributed.run"]
        line += ["--redirects=1", "--tee=1", "--log_dir=" + name]
        line += ["--master_addr=127.0.0.1", "--master_port=" + str(20000 + os.getpid() % 20000)]
        line += ["--nproc_per_node=2", "worker.py", str(code)]
        out = open(os.path.join(self.folder, name + ".out"), "w+")
        self.addCleanup(out.close)
        env = {"PYTHONUNBUFFERED": "1", "OMP_NUM_THREADS": "1", "USE_LIBUV": "0"}
        env = {**os.environ, **env, "PYTHONPATH": WITHOUT_LIBUV}
        run = subprocess.Popen(
            line, cwd=self.folder, stdout=out, stderr=subprocess.STDOUT, env=env
        )
        self.addCleanup(run.kill)
        return run, lambda: read(out.name)

    def give_way(self, options, code):
        run, said = self.start("first", options, code)
        end = time.monotonic() + LIMIT
        while said().count("goes on at 0") < 2 and run.poll() is None and time.monotonic() < end:
            time.sleep(0.1)
        self.assertEqual(said().count("goes on at 0"), 2, said())
        run.send_signal(signal.SIGUSR1)
        self.assertEqual(run.wait(LIMIT), 98, said())
        self.assertEqual(said().count("saved at"), 1, said())
        n = int(said().split("saved at ")[1].split()[0])
        run, said = self.start("second", options, code)
        self.assertEqual(run.wait(LIMIT), 0, said())
        self.assertEqual(said().count(f"goes on at {n}\n"), 2, said())
        self.assertEqual(said().count(f"trained to {n + 20}\n"), 2, said())

    def test_workers_that_end_with_0_give_way(self):
        self.give_way(["--children"], 0)

    def test_workers_that_leave_with_98_give_way_although_torchrun_fails(self):
        self.give_way(["--children", "--accept", "1"], 98)


if __name__ == "__main__":
    unittest.main()
