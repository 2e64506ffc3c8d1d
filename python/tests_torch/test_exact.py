"""A network that is preempted and resized at random ends bit for bit as one that was left alone.

Needs torch, and says so: `make test-python-torch`.
"""

import itertools
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from unittest import mock

import synergy
from synergy import _follow

try:
    import torch
except ImportError:
    sys.exit(
        "\n*** torch is MISSING in " + sys.executable + ": nothing is tested here. "
        "Install it (apt-get install python3-torch), or say TORCH_PYTHON=… ***\n"
    )

from . import WITHOUT_LIBUV

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SAMPLES, EPOCHS, BATCH = 768, 4, 16

# The five lines in a usual script; everything else is as anybody writes it.
TRAIN = """
import itertools, json, os, random, sys, time
import numpy, torch
from torch import nn
import synergy
from synergy import _follow

folder, workers = sys.argv[1], int(sys.argv[2])
torch.manual_seed(3)
torch.set_num_threads(1)
torch.use_deterministic_algorithms(True)

class Images(torch.utils.data.Dataset):
    def __len__(self):
        return SAMPLES
    def __getitem__(self, n):
        draw = torch.Generator().manual_seed(n)
        image = torch.randn(3, 16, 16, generator=draw) + n % 10 / 5
        if random.random() < 0.5:                  # what workers do at random, by all three of them
            image = image.flip(2)
        return image * (1 + torch.rand(1) / 10) + float(numpy.random.rand()) / 10, n % 10

ranks = int(os.environ.get("WORLD_SIZE", "1"))
if ranks > 1:
    torch.distributed.init_process_group("gloo")
network = nn.Sequential(
    nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Dropout(0.2),
    nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(128, 10))
model = nn.parallel.DistributedDataParallel(network) if ranks > 1 else network
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)
history = {"losses": [], "seen": []}

if workers:
    loader = synergy.loader(Images(), batch=BATCH, seed=5, num_workers=workers)
else:                            # 1 to 6 that follow the cores, which change every few steps
    looks = itertools.count()
    _follow.LOOK, os.sched_getaffinity = 0, lambda pid: range(1 + next(looks) // 9 * 5 % 6)
    loader = synergy.loader(Images(), batch=BATCH, seed=5)
run = synergy.resume(folder, loader=loader, every=0.1, model=network, optimizer=optimizer,
                     scheduler=scheduler, history=history)
print("ready", flush=True)
for epoch in run.epochs(EPOCHS):
    for images, labels in run.steps(loader):
        time.sleep(0.01)
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        print("step", flush=True)
        history["losses"].append(loss.item())
        counts = torch.bincount(labels, minlength=10)
        if ranks > 1:
            torch.distributed.all_reduce(counts)
        history["seen"].append([epoch, *counts.tolist()])
    scheduler.step()
if synergy.rank() == 0:
    found = {"history": history, "weights": network.state_dict(), "steps": run.iterations}
    found["sets"] = 0 if workers else loader.synergy_follower._generation._own
    torch.save(found, folder + "/result.new")
    os.replace(folder + "/result.new", folder + "/result")
"""
for name in ("SAMPLES", "EPOCHS", "BATCH"):
    TRAIN = TRAIN.replace(name, str(globals()[name]))


def environment(**more):
    env = {k: v for k, v in os.environ.items() if not k.startswith(("SLURM_", "SYNERGY_"))}
    # Debian's torch is built without libuv, which is what ranks meet by unless told otherwise.
    return {**env, "PYTHONPATH": HERE, "OMP_NUM_THREADS": "1", "USE_LIBUV": "0", **more}


def start(folder, workers, env=None):
    return subprocess.Popen(
        [sys.executable, "-c", TRAIN, folder, str(workers)],
        env=env or environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def alike(one, other):
    """Whether both are the same, tensors bit for bit and types as well."""
    if type(one) is not type(other):
        return False
    if isinstance(one, torch.Tensor):
        return one.dtype == other.dtype and torch.equal(one, other)
    if isinstance(one, dict):
        versions = alike(getattr(one, "_metadata", None), getattr(other, "_metadata", None))
        return versions and alike(list(one.items()), list(other.items()))
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(alike, one, other))
    return one == other


class Folder(unittest.TestCase):
    def setUp(self):
        self.folder = self.new()

    def new(self):
        folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, folder, True)
        return folder

    def trains(self, child, steps, draw):
        """Waits for so many steps, since nobody knows how busy the machine is, and a moment."""
        for _ in range(1 + steps):
            child.stdout.readline()
        time.sleep(0.03 * draw.random())

    def result(self, folder=None):
        return torch.load(os.path.join(folder or self.folder, "result"))

    def is_over(self):
        return os.path.exists(os.path.join(self.folder, "result"))


class OneRank(Folder):
    def test_preempted_killed_and_resized_it_ends_bit_for_bit_as_one_left_alone(self):
        alone = self.new()
        child = start(alone, 2)
        _, err = child.communicate(timeout=600)
        self.assertEqual(child.returncode, 0, err)

        draw, codes = random.Random(2), []
        while not self.is_over():
            self.assertLess(len(codes), 60, "it does not get on")
            codes.append(self.life(len(codes) % 7, draw))
        print(
            f"\n  starts: {len(codes)}, asked: {codes.count(98)}, killed: {codes.count(-9)}",
            end=" ",
        )
        self.assertGreater(codes.count(98), 2)
        self.same(self.result(), self.result(alone))

    def test_with_other_workers_every_few_steps_it_ends_bit_for_bit_as_with_two(self):
        alone = self.new()
        for folder, workers in ((alone, 2), (self.folder, 0)):
            child = start(folder, workers)
            _, err = child.communicate(timeout=600)
            self.assertEqual(child.returncode, 0, err)
        self.same(self.result(), self.result(alone))
        self.assertGreater(self.result()["sets"], 15)

    def life(self, workers, draw):
        child = start(self.folder, workers)
        self.trains(child, draw.randrange(2, 40), draw)
        if draw.random() < 0.25:
            child.send_signal(signal.SIGKILL)
        elif draw.random() < 0.5:
            child.send_signal(signal.SIGUSR1)
        else:
            os.killpg(child.pid, signal.SIGUSR1)  # Slurm may signal the loader's workers, too
        _, err = child.communicate(timeout=600)
        self.assertIn(child.returncode, (0, 98, -9), err)
        return child.returncode

    def same(self, one, other):
        self.assertEqual(one["history"]["losses"], other["history"]["losses"])
        self.assertEqual(one["history"]["seen"], other["history"]["seen"])
        self.assertEqual(one["steps"], other["steps"])
        for name, weights in other["weights"].items():
            self.assertTrue(torch.equal(one["weights"][name], weights), name)


class Fresh(unittest.TestCase):
    """Sets of workers of torch's own loader, which follow cores that a test says."""

    def setUp(self):
        self.cores = 2
        for patch in (
            mock.patch.object(os, "sched_getaffinity", lambda process: range(self.cores)),
            mock.patch.object(_follow, "LOOK", 0),
            mock.patch.dict(os.environ, environment(), clear=True),
        ):
            patch.start()
            self.addCleanup(patch.stop)

    def trained(self, loader, cores):
        """The batches of an epoch, after each of which there are the next cores."""
        for batch in _follow.batches(loader, lambda cores: None):
            yield batch.tolist()
            self.cores = next(cores, self.cores)
            loader.batch_sampler.trained(len(batch))

    def test_persistent_workers_lose_no_sample_and_draw_nothing_that_the_training_draws(self):
        drawn, cores = [], itertools.cycle([1, 1, 1, 4, 4, 2])
        for changes in (cores, iter([])):
            self.cores = 2
            torch.manual_seed(1)
            loader = synergy.loader(range(90), batch=4, seeded=False, persistent_workers=True)
            for _ in range(3):
                seen = [x for batch in self.trained(loader, changes) for x in batch]
                self.assertEqual(sorted(seen), list(range(90)))
            drawn.append(torch.rand(1).item())
        self.assertEqual(drawn[0], drawn[1])

    def test_a_number_that_the_user_gave_stays(self):
        loader = synergy.loader(range(90), batch=4, num_workers=3)
        seen = [x for batch in self.trained(loader, itertools.cycle([1, 5])) for x in batch]
        self.assertEqual((sorted(seen), loader.num_workers), (list(range(90)), 3))

    def test_workers_of_a_set_that_is_over_give_up_their_batch_at_the_next_sample(self):
        begun = torch.zeros(400, dtype=torch.int64).share_memory_()

        class Slow:
            def __len__(self):
                return 400

            def __getitem__(self, index):
                begun[index] += 1
                own = loader.synergy_follower._generation
                while index >= 100 and own._own == 0 and own._newest.item() == 0:
                    time.sleep(0.001)
                return index

        loader = synergy.loader(Slow(), batch=50, shuffle=False)
        seen = [x for batch in self.trained(loader, iter([2, 4])) for x in batch]
        self.assertEqual(sorted(seen), list(range(400)))
        twice = [n for n in range(400) if begun[n] == 2]
        self.assertEqual(twice, [100, 150], "what both of the first workers were at, and no more")

    def test_ranks_of_torchrun_divide_the_cores(self):
        os.environ["LOCAL_WORLD_SIZE"] = "2"
        loader = synergy.loader(range(90), batch=4)
        self.assertEqual(loader.num_workers, 1)
        list(self.trained(loader, iter([6])))
        self.assertEqual(loader.num_workers, 3)


class ManyRanks(Folder):
    """Real processes over gloo. Ranks add up in an order of their own: exact are the samples."""

    def test_all_ranks_leave_after_the_same_step_and_each_epoch_is_exact(self):
        draw, codes = random.Random(5), []
        while not self.is_over():
            self.assertLess(len(codes), 40, "it does not get on")
            codes.append(self.life(1 + (len(codes) + 1) % 4, draw))
        print(f"\n  starts by their exit codes: {codes}", end=" ")
        self.assertGreater(sum(set(each) == {98} for each in codes), 1)
        history = self.result()["history"]
        for epoch in range(EPOCHS):
            counts = [
                sum(row[1 + label] for row in history["seen"] if row[0] == epoch)
                for label in range(10)
            ]
            self.assertEqual(
                counts, [sum(n % 10 == label for n in range(SAMPLES)) for label in range(10)]
            )

    def life(self, ranks, draw):
        """One start, of which one rank alone is asked, or all are killed."""
        port = str(20000 + (os.getpid() * 7 + int(time.time())) % 20000)
        children = []
        for rank in range(ranks):
            env = environment(
                RANK=str(rank), WORLD_SIZE=str(ranks), MASTER_ADDR="127.0.0.1", MASTER_PORT=port
            )
            children.append(start(self.folder, (1 + rank) % 3, env))
        self.trains(children[0], draw.randrange(2, 25), draw)
        if draw.random() < 0.25:
            for child in children:
                child.send_signal(signal.SIGKILL)
        else:
            draw.choice(children).send_signal(signal.SIGUSR1)
        ends = [child.communicate(timeout=300)[1] for child in children]
        codes = [child.returncode for child in children]
        self.assertEqual(len(set(codes)), 1, "\n".join(ends))
        self.assertIn(codes[0], (0, 98, -9), "\n".join(ends))
        return codes


class Checkpoints(Folder):
    def test_a_checkpoint_of_tensors_is_read_without_running_code(self):
        from synergy import Damaged, Store

        state = {
            "w": torch.arange(5.0),
            "half": torch.ones(2, dtype=torch.float16),
            "n": (1, [2.5, None]),
        }
        Store(self.folder).save(1, state)
        found = Store(self.folder).newest()[1]
        self.assertTrue(
            torch.equal(found["w"], state["w"]) and torch.equal(found["half"], state["half"])
        )
        self.assertEqual(found["n"], (1, [2.5, None]))

        class Code:
            def __reduce__(self):
                return os.mkdir, (folder + "/ran",)

        folder = self.folder
        with self.assertRaisesRegex(TypeError, "Code: want tensors"):
            Store(self.folder).save(2, {"x": Code()})
        Store(self.folder, trust=True).save(2, {"x": Code()})
        os.unlink(os.path.join(self.folder, f"synergy-{1:015d}.ckpt"))
        with self.assertLogs("synergy"), self.assertRaises(Damaged):
            Store(self.folder).newest()
        self.assertFalse(os.path.exists(folder + "/ran"))

    def test_what_torch_s_own_optimizers_and_schedulers_keep_is_loaded_as_it_was_saved(self):
        from torch.optim import lr_scheduler

        from synergy import Store

        for optimizer in (
            torch.optim.SGD,
            torch.optim.Adam,
            torch.optim.AdamW,
            torch.optim.RMSprop,
        ):
            model = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2))
            steps = optimizer(model.parameters(), lr=0.1)
            model(torch.randn(4, 3)).sum().backward()
            steps.step()
            schedulers = [
                lr_scheduler.MultiStepLR(steps, [3, 3, 5]),
                lr_scheduler.CosineAnnealingLR(steps, 10),
                lr_scheduler.ReduceLROnPlateau(steps),
                lr_scheduler.LambdaLR(steps, lambda epoch: 0.5),
                lr_scheduler.SequentialLR(
                    steps,
                    [lr_scheduler.LinearLR(steps), lr_scheduler.ExponentialLR(steps, 0.9)],
                    [5],
                ),
            ]
            scaler = torch.cuda.amp.GradScaler(enabled=False)
            average = torch.optim.swa_utils.AveragedModel(model)
            saved = [part.state_dict() for part in (model, steps, scaler, average, *schedulers)]
            Store(self.folder).save(1, saved)
            self.assertTrue(alike(Store(self.folder).newest()[1], saved), optimizer)

    def test_the_loader_has_as_many_workers_as_the_grant_has_cores(self):
        import synergy

        os.environ["SLURM_CPUS_PER_TASK"] = "5"
        self.addCleanup(os.environ.pop, "SLURM_CPUS_PER_TASK")
        loader = synergy.loader(list(range(100)), batch=10)
        self.assertEqual((loader.num_workers, len(loader)), (5, 10))
        self.assertEqual(sorted(x for batch in loader for x in batch.tolist()), list(range(100)))


class TorchRun(Folder):
    """The lines of docs/python.md for torchrun, which dies of USR1 and passes it to nobody."""

    LINES = """
trap 'pkill -USR1 -P "$pid"; wait "$pid"; exit 98' USR1
torchrun="-m torch.distributed.run --nproc_per_node=2 --master_port=$PORT $OPTIONS"
"$PYTHON" $torchrun "$TRAINER" "$FOLDER" 1 & pid=$!
wait "$pid"
"""

    def test_the_three_lines_for_torchrun_save_and_leave(self):
        trainer = os.path.join(self.folder, "train.py")
        with open(trainer, "w") as file:
            file.write(TRAIN.replace("run.epochs(4)", "run.epochs(60)"))
        port = str(20000 + os.getpid() % 20000)
        # Its default is a bug in torch 1.13 with Python 3.11.
        options = "-r 1:1 -t 1:1" if torch.__version__.startswith("1.") else ""
        env = environment(
            PYTHONPATH=HERE + ":" + WITHOUT_LIBUV,
            OPTIONS=options,
            PYTHON=sys.executable,
            PORT=port,
            TRAINER=trainer,
            FOLDER=self.folder,
        )
        child = subprocess.Popen(
            ["bash", "-c", self.LINES],
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.trains(child, 20, random)
        child.send_signal(signal.SIGUSR1)
        _, err = child.communicate(timeout=300)
        self.assertEqual(child.returncode, 98, err)
        saved = [
            int(line.rsplit(None, 2)[1].rstrip(","))
            for line in err.split("\n")
            if "saved after iteration" in line
        ]
        self.assertEqual(len(saved), 1, err)
        with open(os.path.join(self.folder, "progress.json")) as file:
            self.assertEqual(json.load(file)["iterations"], saved[0])


if __name__ == "__main__":
    unittest.main()
