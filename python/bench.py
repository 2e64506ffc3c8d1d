"""What the package costs a training: python3 bench.py. Figures are for people; no test depends
on them."""

import os
import tempfile
import time
import timeit

import synergy
from synergy import _follow
from synergy.emulate import GPU


def say(what, seconds, unit="µs"):
    print(f"{what:<58} {seconds * {'µs': 1e6, 'ms': 1e3, 's': 1}[unit]:10.2f} {unit}")


def each(call, number=100_000):
    return min(timeit.repeat(call, number=number, repeat=5)) / number


def progress():
    with tempfile.TemporaryDirectory() as folder:
        counter = synergy.Progress(folder)
        say("progress.step()", each(counter.step))
        counter.close()


def loop():
    bare = each(lambda: sum(1 for _ in range(10_000)), 10) / 10_000
    counted = synergy.Loop(lambda n: None, tell_every=0)
    say(
        "a step of steps(loader, save=save), beside the bare loop",
        each(lambda: sum(1 for _ in counted.steps(range(10_000))), 10) / 10_000 - bare,
    )
    counted.close()
    sampler = synergy.Sampler(10**6, batch=1)
    say("sampler.trained(n)", each(lambda: sampler.trained(1)))


def order():
    for samples in (100_000, 1_281_167):
        begun = time.perf_counter()
        next(iter(synergy.Sampler(samples, batch=256)))
        say(f"the order of an epoch of {samples:,} samples", time.perf_counter() - begun, "ms")


def checkpoint():
    with tempfile.TemporaryDirectory() as folder:
        store = synergy.Store(folder)
        begun = time.perf_counter()
        for n in range(1, 21):
            store.save(n, {"n": n})
        say("a small checkpoint, synced", (time.perf_counter() - begun) / 20, "ms")


def cache():
    with tempfile.TemporaryDirectory() as data, synergy_cache() as files:
        path = os.path.join(data, "x")
        with open(path, "wb") as file:
            file.write(os.urandom(110_000))
        begun = time.perf_counter()
        files.read(path)
        say("the first read of a file of 110 kB, which caches it", time.perf_counter() - begun)
        say("each later read of it", each(lambda: files.read(path), 2000))
        with open(path, "rb") as file:
            say("the same from the page cache", each(lambda: (file.seek(0), file.read()), 2000))


class synergy_cache:
    def __enter__(self):
        self.files = synergy.CachedFiles(size=1 << 24, name=f"bench-{os.getpid()}")
        return self.files

    def __exit__(self, *_):
        self.files.close()


def gpu():
    emulated = GPU(0.005, 32)
    begun = time.perf_counter()
    for _ in range(200):
        emulated.step()
    say("200 emulated steps of 5 ms take, each", (time.perf_counter() - begun) / 200, "ms")


class Sleeping:
    """A data set whose samples take 2 ms each without any CPU, as from a slow disk."""

    def __len__(self):
        return 2048

    def __getitem__(self, index):
        time.sleep(0.002)
        return index


def real_loader(workers):
    """Samples a second of torch's own loader in front of an emulated GPU."""
    emulated, begun = GPU(0.02, 16), 0.0
    loader = synergy.loader(Sleeping(), batch=16, num_workers=workers)
    for step, batch in enumerate(loader):
        emulated.step(len(batch))
        if step == 16:
            begun = time.perf_counter()
    return (step - 16) * 16 / (time.perf_counter() - begun)


def loaders():
    for workers in (1, 2, 4):
        expected = min(500 * workers, 800)
        rate = real_loader(workers)
        print(f"{workers} workers, emulated GPU: {rate:.0f} samples/s, {rate / expected - 1:+.1%}")


def following():
    loader = synergy.loader(range(10**5), batch=1)
    follower, told = loader.synergy_follower, lambda cores: None
    say("a look whether the cores have changed", each(follower._changed))
    batches = follower.batches(loader, told)
    next(batches)
    took = []
    for cores in (1, 4, 1, 4):
        os.sched_getaffinity = lambda process, cores=cores: range(cores)
        time.sleep(2 * _follow.LOOK)
        begun = time.perf_counter()
        next(batches)
        took.append(time.perf_counter() - begun)
    say("from 4 workers to 1, and to the first batch of that", min(took[2::2]), "ms")
    say("from 1 worker to 4, and to the first batch of these", min(took[1::2]), "ms")


def one_rank(rank, ranks, port, said):
    import torch.distributed

    torch.set_num_threads(1)
    address = f"tcp://127.0.0.1:{port}"
    torch.distributed.init_process_group("gloo", address, rank=rank, world_size=ranks)
    counted = synergy.Loop(lambda n: None, tell_every=0)
    waited = 0.0
    for _ in range(300):
        time.sleep(0.005)  # the step, in which the wishes go round
        begun = time.perf_counter()
        counted._between()
        waited += time.perf_counter() - begun
    said.put(waited / 300)


def agreement(ranks=2):
    import torch.multiprocessing

    said = torch.multiprocessing.get_context("spawn").SimpleQueue()
    port = 20000 + os.getpid() % 20000
    torch.multiprocessing.spawn(one_rank, (ranks, port, said), ranks)
    say(f"{ranks} ranks agree at each step, each waits", max(said.get() for _ in range(ranks)))


if __name__ == "__main__":
    for part in (progress, loop, order, checkpoint, cache, gpu):
        part()
    try:
        import torch  # noqa: F401
    except ImportError:
        print("no torch here: real loaders and ranks are left out")
    else:
        loaders()
        following()
        agreement()
