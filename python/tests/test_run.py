"""Whole runs: a script in a process of its own, real signals, exit codes, and the history of
what was trained."""

import collections
import itertools
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import synergy
from synergy import _leave, run
from synergy.checkpoint import Damaged

END = [signal.SIGUSR1, signal.SIGUSR1, signal.SIGKILL]
HERE = os.path.dirname(os.path.dirname(os.path.abspath(synergy.__file__)))

# The five lines on a plain loop. What was trained is in the state itself, so it is rolled back with
# the weights.
SCRIPT = """
import os, random, sys, time
import synergy

class Loader:                       # as torch's: batch_sampler, and batches that are fetched ahead
    def __init__(self, sampler, ahead):
        self.batch_sampler, self.ahead = sampler, ahead
    def __iter__(self):
        waiting, batches = [], iter(self.batch_sampler)
        for batch in batches:
            waiting.append(batch)
            if len(waiting) > self.ahead:
                yield waiting.pop(0)
        yield from waiting

folder, samples, epochs, batch, ahead = sys.argv[1], *map(int, sys.argv[2:6])
model, scheduler = {"seen": [], "draws": []}, {"epochs": 0}
loader = Loader(synergy.Sampler(samples, batch=batch, seed=5), ahead)
random.seed(1)
run = synergy.resume(folder, loader=loader, every=0.02, model=model, scheduler=scheduler)
print("ready", flush=True)
for epoch in run.epochs(epochs):
    for batch in run.steps(loader):
        model["draws"].append(random.random())
        time.sleep(0.001)
        model["seen"].extend([epoch, x] for x in batch)
    scheduler["epochs"] += 1
import json
with open(folder + "/result.new", "w") as file:
    json.dump({**model, "epochs": scheduler["epochs"], "steps": run.iterations}, file)
os.replace(folder + "/result.new", folder + "/result")
"""

# The two lines, with a save of the script's own.
TWO_LINES = """
import sys, time
import synergy
def save():
    with open(sys.argv[1], "a") as file:
        file.write(f"{done}\\n")
done = 0
for batch in synergy.steps(range(10000), save=save):
    if done == 0:
        print("ready", flush=True)
    time.sleep(0.001)
    done += 1
"""


def start(script, *arguments):
    env = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("SLURM_", "SYNERGY_"))
    }
    child = subprocess.Popen(
        [sys.executable, "-c", script, *map(str, arguments)],
        env={**env, "PYTHONPATH": HERE}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    return child


def end(child):
    out, err = child.communicate(timeout=120)
    return child.returncode, out, err


class Script(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder, True)
        self.file = os.path.join(self.folder, "file")

    def result(self):
        with open(os.path.join(self.folder, "result")) as file:
            return json.load(file)


class Asked(Script):
    def test_two_lines_save_after_a_step_and_leave_with_98(self):
        child = start(TWO_LINES, self.file)
        child.stdout.readline()
        time.sleep(0.2)
        child.send_signal(signal.SIGUSR1)
        code, _, err = end(child)
        self.assertEqual(code, 98, err)
        with open(self.file) as file:
            saves = file.read().split()
        self.assertEqual(len(saves), 1)
        self.assertIn("saved after iteration " + saves[0], err)

    def test_a_forced_requeue_is_saved_for_and_is_no_98(self):
        child = start(TWO_LINES, self.file)
        child.stdout.readline()
        time.sleep(0.2)
        child.send_signal(signal.SIGTERM)
        self.assertEqual(end(child)[0], 143)
        self.assertTrue(os.path.exists(self.file))

    def test_a_save_that_fails_leaves_the_training_running(self):
        script = TWO_LINES.replace("range(10000)", "range(600)")
        child = start(script, "/dev/null/nothing")
        child.stdout.readline()
        child.send_signal(signal.SIGUSR1)
        code, _, err = end(child)
        self.assertEqual(code, 0, err)
        self.assertEqual(err.count("no checkpoint, training goes on"), 1)

    def test_without_a_save_of_its_own_a_script_catches_no_signal(self):
        child = start(TWO_LINES.replace(", save=save", ""), self.file)
        child.stdout.readline()
        child.send_signal(signal.SIGUSR1)
        self.assertEqual(end(child)[0], -signal.SIGUSR1)

    def test_the_second_term_ends_a_script_that_is_not_in_its_loop(self):
        child = start(
            TWO_LINES.replace("time.sleep(0.001)", "time.sleep(0.05); time.sleep(60)"), self.file
        )
        child.stdout.readline()
        time.sleep(0.3)
        child.send_signal(signal.SIGTERM)
        time.sleep(0.2)
        self.assertIsNone(child.poll())
        while child.poll() is None:
            child.send_signal(signal.SIGTERM)
            time.sleep(0.05)
        self.assertEqual(end(child)[0], -signal.SIGTERM)

    def test_one_that_is_asked_again_and_again_while_it_leaves_still_leaves_with_98(self):
        slow = "import atexit, time\natexit.register(time.sleep, 0.5)\n"
        child = start(slow + TWO_LINES, self.file)
        child.stdout.readline()
        time.sleep(0.1)
        while child.poll() is None:
            child.send_signal(signal.SIGUSR1)
            time.sleep(0.01)
        self.assertEqual(end(child)[0], 98)


class History(Script):
    """Five lines, random ends, another batch and another number of workers at each start."""

    def test_killed_and_asked_at_random_moments_each_epoch_is_exact_and_so_is_its_end(self):
        draw, codes = random.Random(11), collections.Counter()
        while not (codes[98] and codes[-9]):  # a busy machine may let a run end before its signal
            codes += self.history(draw, samples=240, epochs=3)
            self.assertLess(sum(codes.values()), 200)

    def history(self, draw, samples, epochs):
        """The exit codes of all starts of one training."""
        folder, codes = tempfile.mkdtemp(dir=self.folder), collections.Counter()
        ends = itertools.chain([signal.SIGUSR1, signal.SIGKILL], iter(lambda: draw.choice(END), 0))
        while not os.path.exists(os.path.join(folder, "result")):
            child = start(
                SCRIPT, folder, samples, epochs, draw.randint(2, 4), 2 * draw.randint(1, 6)
            )
            child.stdout.readline()
            time.sleep(0.03 + 0.05 * draw.random())
            child.send_signal(next(ends))
            code, _, err = end(child)
            self.assertIn(code, (0, 98, -9), err)
            codes[code] += 1
            self.assertLess(sum(codes.values()), 100)
        with open(os.path.join(folder, "result")) as file:
            found = json.load(file)
        wanted = {(epoch, x): 1 for epoch in range(epochs) for x in range(samples)}
        self.assertEqual(collections.Counter(map(tuple, found["seen"])), wanted)
        self.assertEqual(found["epochs"], epochs)
        self.assertEqual(found["steps"], len(found["draws"]))
        return codes

    def test_random_numbers_go_on_where_they_were(self):
        child = start(SCRIPT, self.folder, 90, 2, 3, 4)
        self.assertEqual(end(child)[0], 0)
        undisturbed = self.result()
        shutil.rmtree(self.folder)
        os.mkdir(self.folder)
        code = starts = 0
        while code != 0 or not starts:
            starts += 1
            child = start(SCRIPT, self.folder, 90, 2, 3, starts)
            child.stdout.readline()
            time.sleep(0.04)
            child.send_signal(signal.SIGUSR1)
            code, _, err = end(child)
            self.assertIn(code, (0, 98), err)
            self.assertLess(starts, 100)
        self.assertEqual(self.result(), undisturbed)


class Parts(Script):
    def resume(self, **options):
        found = synergy.resume(self.folder, tell_every=0, **options)
        self.addCleanup(found.close)
        return found

    def test_what_cannot_be_saved_is_said_at_the_start(self):
        with self.assertRaisesRegex(TypeError, r"model\['x'\] is a object"):
            self.resume(model={"x": object()})
        with self.assertRaisesRegex(TypeError, "model is a int: want state_dict"):
            self.resume(model=3)

    def test_a_checkpoint_of_other_parts_is_refused(self):
        first = self.resume(model={"x": 1})
        first._peers = _leave.Alone()
        first._keep(1)
        with self.assertRaisesRegex(ValueError, r"has \['model'\].*given \['net'\]"):
            self.resume(net={})

    def test_a_checkpoint_of_somebody_else_is_refused(self):
        synergy.Store(self.folder).save(1, {"mine": 1})
        with self.assertRaisesRegex(Damaged, "not one of synergy.resume"):
            self.resume()

    def test_signals_are_those_of_the_contract(self):
        with self.assertRaisesRegex(ValueError, "'KILL'.*USR1"):
            self.resume(signals=["KILL"])

    def test_a_handler_of_another_library_is_still_called(self):
        called = []
        before = signal.signal(signal.SIGUSR1, lambda number, frame: called.append(number))
        self.addCleanup(signal.signal, signal.SIGUSR1, before)
        requests = _leave.Requests()
        os.kill(os.getpid(), signal.SIGUSR1)
        self.assertEqual((called, requests.wish), ([signal.SIGUSR1], _leave.LEAVE))
        requests.close()

    def test_a_trainer_with_a_loop_of_its_own_asks_and_leaves_when_it_has_saved(self):
        leave = synergy.Leave()
        self.addCleanup(leave._requests.close)
        self.assertFalse(leave.asked())
        leave.leave()
        os.kill(os.getpid(), signal.SIGUSR1)
        self.assertTrue(leave.asked())
        with self.assertRaises(SystemExit) as left:
            leave.leave()
        self.assertEqual(left.exception.code, 98)

    def test_a_forked_worker_is_not_asked(self):
        requests = _leave.Requests()
        self.addCleanup(requests.close)
        for number, ends in ((signal.SIGUSR1, 0), (signal.SIGTERM, signal.SIGTERM)):
            child = os.fork()
            if child == 0:
                os.kill(os.getpid(), number)
                os._exit(int(requests.wish != _leave.NOTHING))
            self.assertEqual(os.waitpid(child, 0)[1], ends)


class Meeting:
    """Ranks that are threads: the answer of a step is the most that any rank wished in it."""

    def __init__(self, ranks):
        self.barrier, self.ranks = threading.Barrier(ranks, timeout=30), ranks
        self.said = [None] * ranks

    def all(self, rank, value):
        self.said[rank] = value
        self.barrier.wait()
        found = list(self.said)
        self.barrier.wait()
        return found

    def peer(self, rank):
        meeting = self

        class Peer:
            def __init__(self):
                self.rank, self.ranks = rank, meeting.ranks

            def most(self, wish):
                return max(meeting.all(rank, wish))

            def gather(self, text):
                return meeting.all(rank, text) if rank == 0 else meeting.all(rank, text) and None

            def any(self, wrong):
                return any(meeting.all(rank, wrong))

        return Peer()


class AllRanks(Script):
    def loops(self, ranks, save, steps=200):
        """[(exit code, steps)] of ranks of which one is asked, in step 20 or so."""
        meeting, ends = Meeting(ranks), [None] * ranks

        def train(rank):
            loop = run.Loop(lambda n: save(rank, n), peers=meeting.peer(rank), tell_every=0)
            loop._requests.wish = _leave.NOTHING
            try:
                for step, _ in enumerate(loop.steps(range(steps))):
                    if rank == ranks - 1 and step == 20:
                        loop._requests.wish = _leave.LEAVE
                ends[rank] = 0, loop.done
            except SystemExit as left:
                ends[rank] = left.code, loop.done

        threads = [threading.Thread(target=train, args=(rank,)) for rank in range(ranks)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        return ends

    def test_when_one_is_asked_all_save_and_leave_after_the_same_step(self):
        saves = []
        with self.assertLogs("synergy"):
            ends = self.loops(4, lambda rank, n: saves.append((n, rank)))
        self.assertEqual(ends, [(98, 21)] * 4)
        self.assertEqual(sorted(saves), [(21, rank) for rank in range(4)])

    def test_when_one_cannot_save_none_leaves(self):
        def save(rank, n):
            if rank == 1:
                raise OSError("disk full")

        with self.assertLogs("synergy"):
            ends = self.loops(3, save)
        self.assertEqual(ends, [(0, 200)] * 3)

    def test_ranks_that_read_different_checkpoints_do_not_train(self):
        meeting = Meeting(2)
        loops = [
            run.Loop(lambda n: None, peers=meeting.peer(rank), start=rank, tell_every=0)
            for rank in range(2)
        ]
        other = threading.Thread(target=lambda: loops[1]._meet())
        other.start()
        with self.assertRaisesRegex(Damaged, "different iterations: 0, 1"):
            loops[0]._meet()
        other.join()
        for loop in loops:
            loop.close()


if __name__ == "__main__":
    unittest.main()
