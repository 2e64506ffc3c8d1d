"""The order of samples, and the promise that each epoch has each of them exactly once."""

import collections
import itertools
import json
import pickle
import random
import subprocess
import sys
import unittest
from unittest import mock

from synergy import _follow, grant
from synergy.data import Sampler, Seeded


def ranks_of(size, **options):
    return [Sampler(rank=rank, ranks=size, **options) for rank in range(size)]


def epoch_of(sampler):
    """What one rank trains in an epoch, step by step."""
    seen = []
    for _ in sampler.epochs(1):
        for share in sampler:
            seen.append(share)
            sampler.trained(len(share))
    return seen


class TheOrder(unittest.TestCase):
    def test_each_epoch_has_another_order_and_the_same_seed_the_same_orders(self):
        sampler = Sampler(1000, seed=7)
        first = list(sampler)
        sampler.set_epoch(1)
        second = list(sampler)
        self.assertNotEqual(first, second)
        self.assertEqual(sorted(first), sorted(second))
        self.assertEqual(first, list(Sampler(1000, seed=7)))
        self.assertNotEqual(first, list(Sampler(1000, seed=8)))

    def test_the_order_of_a_seed_is_that_of_every_python(self):
        self.assertEqual(list(Sampler(10, seed=1)), [0, 1, 4, 9, 3, 7, 6, 8, 5, 2])

    def test_without_shuffling_it_is_the_order_of_the_data_set(self):
        self.assertEqual(list(Sampler(range(5), shuffle=False)), [0, 1, 2, 3, 4])

    def test_what_is_fetched_ahead_does_not_count(self):
        sampler = Sampler(100, batch=10)
        order = [x for batch in sampler for x in batch]
        ahead = iter(sampler)
        for _ in range(7):
            next(ahead)
        sampler.trained(10)
        sampler.trained(10)
        again = Sampler(100, batch=10)
        again.load_state_dict(json.loads(json.dumps(sampler.state_dict())))
        self.assertEqual([x for batch in again for x in batch], order[20:])


class Ranks(unittest.TestCase):
    def test_all_ranks_have_as_many_steps_and_none_is_empty(self):
        for samples in range(1, 200, 7):
            for size in range(1, 5):
                for batch in range(2, 20, 3):
                    if samples < size:
                        continue
                    shares = [
                        list(sampler) for sampler in ranks_of(size, dataset=samples, batch=batch)
                    ]
                    self.assertEqual(
                        len({len(share) for share in shares}), 1, (samples, size, batch)
                    )
                    self.assertEqual(
                        len(shares[0]), len(ranks_of(size, dataset=samples, batch=batch)[0])
                    )
                    self.assertLessEqual(
                        max(len(step) for share in shares for step in share), batch
                    )
                    for step in zip(*shares):
                        self.assertLessEqual(max(map(len, step)) - min(map(len, step)), 1)
                    together = [x for share in shares for step in share for x in step]
                    self.assertEqual(sorted(together), list(range(samples)))

    def test_single_samples_are_shared_to_within_one(self):
        for samples in (1, 7, 10, 11):
            shares = [list(sampler) for sampler in ranks_of(4, dataset=samples)]
            self.assertEqual(sorted(x for share in shares for x in share), list(range(samples)))
            self.assertEqual(
                [len(share) for share in shares], [len(s) for s in ranks_of(4, dataset=samples)]
            )
            self.assertLessEqual(max(map(len, shares)) - min(map(len, shares)), 1)

    def test_every_rank_has_the_same_state_after_the_same_steps(self):
        for batch in (None, 3, 8):
            samplers = ranks_of(3, dataset=100, batch=batch)
            takes = [iter(sampler) for sampler in samplers]
            for _ in range(11 if batch is None else len(samplers[0])):
                for sampler, take in zip(samplers, takes):
                    share = next(take)
                    sampler.trained(1 if batch is None else len(share))
                self.assertEqual(len({json.dumps(s.state_dict()) for s in samplers}), 1)

    def test_the_rank_follows_the_environment(self):
        from synergy import grant

        env = {"SLURM_PROCID": "2", "SLURM_STEP_NUM_TASKS": "4"}
        self.assertEqual((grant.rank(env), grant.ranks(env)), (2, 4))


class Promise(unittest.TestCase):
    """Random runs of a training that is killed and asked to leave, with other workers, ranks and
    batches each time.

    A kill loses what was trained since the last checkpoint, and the weights with it. What the
    weights have seen in the end is each sample of each epoch, once.
    """

    RUNS = 300

    def test_each_epoch_trains_each_sample_exactly_once_whatever_happens(self):
        starts = 0
        for seed in range(self.RUNS):
            with self.subTest(seed=seed):
                starts += self.one(random.Random(seed))
        self.assertGreater(starts, 3 * self.RUNS)

    def one(self, draw):
        samples, epochs = draw.randint(1, 120), draw.randint(1, 3)
        batched, shuffle = draw.random() < 0.7, draw.random() < 0.9
        seen, kept, state, starts = (
            [],
            0,
            None,
            0,
        )  # seen[:kept] is what the checkpoint's weights have seen
        done = False
        while not done:
            starts += 1
            del seen[kept:]
            size, workers = draw.randint(1, 4), draw.randint(1, 6)
            # With fewer samples than ranks, or batches of one, a step may have nothing for a rank:
            # it waits in join().
            batch = draw.randint(1, 9) if batched else None
            options = dict(dataset=samples, seed=None if state else 3, batch=batch, shuffle=shuffle)
            samplers = ranks_of(size, **options)
            for sampler in samplers:
                if state is not None:
                    sampler.load_state_dict(json.loads(state))
            done, kept, state = self.life(draw, samplers, workers, epochs, seen, kept, state)
            self.assertLess(starts, 10_000)
        wanted = collections.Counter((epoch, x) for epoch in range(epochs) for x in range(samples))
        self.assertEqual(collections.Counter(seen), wanted)
        return starts

    def life(self, draw, samplers, workers, epochs, seen, kept, state):
        """One start, until it is over, is killed or leaves: (over, kept, state)."""
        step, end = 0, draw.choice([1, 2, 3, 5, 8, 13, 40])
        asked = draw.random() < 0.5
        while samplers[0].epoch < epochs:
            epoch = samplers[0].epoch
            for shares in self.fetched(samplers, workers):
                for sampler, share in zip(samplers, shares):
                    seen.extend((epoch, x) for x in share)
                for sampler, share in zip(samplers, shares):
                    sampler.trained(len(share))
                step += 1
                if draw.random() < 0.1:
                    kept, state = len(seen), json.dumps(samplers[0].state_dict())
                if step >= end and asked:
                    return False, len(seen), json.dumps(samplers[0].state_dict())
                if step >= end:
                    return False, kept, state
        return True, len(seen), None

    def fetched(self, samplers, workers):
        """The steps of an epoch as loaders give them: 2 × workers batches of each rank are
        fetched ahead."""
        takes = [iter(sampler) for sampler in samplers]
        single = samplers[0].batch is None
        ahead = collections.deque()
        while True:
            while len(ahead) < 2 * workers:
                shares = [next(take, None) for take in takes]
                if all(share is None for share in shares):
                    break
                ahead.append([[] if s is None else [s] if single else s for s in shares])
            if not ahead:
                return
            yield ahead.popleft()


class Chance(unittest.TestCase):
    """What augments a sample at random, in whatever worker and after whatever start."""

    class Noisy:
        classes = 3

        def __len__(self):
            return 10

        def __getitem__(self, index):
            return index, random.random()

    def test_it_follows_from_seed_epoch_and_sample_alone(self):
        sampler = Sampler(10, seed=1)
        data = Seeded(self.Noisy(), sampler)
        forward = [data[n] for n in range(10)]
        random.random()
        self.assertEqual([data[n] for n in reversed(range(10))], forward[::-1])
        self.assertEqual(len({drawn for _, drawn in forward}), 10)
        sampler.set_epoch(1)
        self.assertNotEqual(data[0], forward[0])
        self.assertNotEqual(Seeded(self.Noisy(), Sampler(10, seed=2))[0], forward[0])

    def test_it_changes_nothing_else_and_hides_nothing(self):
        data = Seeded(self.Noisy(), Sampler(10))
        before = random.getstate()
        data[0]
        self.assertEqual(random.getstate(), before)
        self.assertEqual(
            (len(data), data.classes, len(pickle.loads(pickle.dumps(data)))), (10, 3, 10)
        )

    def test_a_data_set_that_is_asked_for_a_batch_at_once_is_seeded_all_the_same(self):
        class Batched(self.Noisy):
            def __getitems__(self, indices):
                return [self[index] for index in indices]

        self.assertFalse(hasattr(Seeded(Batched(), Sampler(10)), "__getitems__"))


class Fetching:
    """A loader as torch's: two batches of each worker are fetched ahead, or lost with it."""

    generator, _iterator = None, None

    def __init__(self, sampler, persistent=False):
        self.batch_sampler, self.persistent_workers = sampler, persistent
        self.num_workers, self.sets = grant.workers({}), []
        self.synergy_follower = _follow.Follower(sampler, mock.Mock())

    def __iter__(self):
        if self.persistent_workers and self._iterator is not None:
            self._iterator[0] = iter(self.batch_sampler)
            return self.ahead(self._iterator)
        self.sets.append(self.num_workers)
        current = [iter(self.batch_sampler), self.num_workers]
        if self.persistent_workers:
            self._iterator = current
        return self.ahead(current)

    def ahead(self, current):
        batches, workers = current
        waiting = collections.deque()
        while True:
            waiting.extend(itertools.islice(batches, 2 * workers - len(waiting)))
            if not waiting:
                return
            yield waiting.popleft()


class Following(unittest.TestCase):
    """A loader whose workers follow the cores, which change at random."""

    def setUp(self):
        self.cores = 1
        for patch in (
            mock.patch.object(grant, "affinity", lambda: self.cores),
            mock.patch.object(_follow, "LOOK", 0),
            mock.patch.dict("os.environ", clear=True),
        ):
            patch.start()
            self.addCleanup(patch.stop)

    def test_each_epoch_trains_each_sample_once_and_all_ranks_take_as_many_steps(self):
        for seed in range(200):
            draw = random.Random(seed)
            size, batch = draw.randint(1, 3), draw.randint(2, 9)
            samples, persistent = draw.randint(size, 90), draw.random() < 0.5
            with self.subTest(seed=seed):
                order = itertools.cycle(draw.sample(range(1, 7), 6))
                ranks = [
                    self.trained(sampler, persistent, order, draw.randint(1, 12))
                    for sampler in ranks_of(size, dataset=samples, batch=batch, seed=seed)
                ]
                for epoch in range(3):
                    seen = [x for rank in ranks for batch in rank[epoch] for x in batch]
                    self.assertEqual(sorted(seen), list(range(samples)))
                    self.assertEqual(len({len(rank[epoch]) for rank in ranks}), 1)

    def trained(self, sampler, persistent, order, every):
        """The batches of each epoch of one rank, whose cores change every so many steps."""
        loader, steps, epochs = Fetching(sampler, persistent), itertools.count(1), []
        for _ in range(3):
            epochs.append([])
            for batch in _follow.batches(loader, lambda cores: None):
                epochs[-1].append(batch)
                if next(steps) % every == 0:
                    self.cores = next(order)
                sampler.trained(len(batch))
        return epochs

    def test_its_workers_are_as_many_as_the_cores_and_no_set_is_begun_for_nothing(self):
        for persistent in (False, True):
            self.cores = 1
            sampler, said = Sampler(60, batch=2), []
            loader, cores = Fetching(sampler, persistent), iter([1, 1, 6, 6, 6, 2, 6])
            for batch in _follow.batches(loader, said.append):
                self.cores = next(cores, 6)
                sampler.trained(len(batch))
            self.assertEqual(loader.sets, [1, 6, 2, 6])
            self.assertEqual(said, [1, 6, 2, 6])

    def test_after_the_last_step_of_an_epoch_nothing_is_begun_and_the_next_epoch_has_its_own(self):
        for persistent in (False, True):
            self.cores = 2
            sampler = Sampler(8, batch=4)
            loader = Fetching(sampler, persistent)
            for batch in _follow.batches(loader, lambda cores: None):
                if len(loader.sets) == 1 and sampler._trained:
                    self.cores = 5
                sampler.trained(len(batch))
            self.assertEqual((sampler.epoch, loader.sets), (1, [2]))
            self.assertEqual(len(list(_follow.batches(loader, lambda cores: None))), 2)
            self.assertEqual(loader.sets, [2, 5])
            self.assertEqual(len(list(_follow.batches(loader, lambda cores: None))), 2)
            self.assertEqual(loader.sets, [2, 5] if persistent else [2, 5, 5])

    def test_what_the_environment_says_counts_until_the_cores_change_and_when_they_are_back(self):
        with mock.patch.dict("os.environ", {"SLURM_CPUS_PER_TASK": "3"}):
            self.cores = 64  # where Slurm confines nobody
            sampler = Sampler(12, batch=2)
            loader, cores = Fetching(sampler), iter([64, 4, 64])
            loader.num_workers = grant.workers()
            for batch in _follow.batches(loader, lambda cores: None):
                self.cores = next(cores, 64)
                sampler.trained(len(batch))
        self.assertEqual(loader.sets, [3, 4, 3])


class States(unittest.TestCase):
    def test_a_state_that_does_not_fit_is_refused_by_its_field_and_changes_nothing(self):
        sampler = Sampler(100, seed=1)
        sampler.trained(5)
        good = sampler.state_dict()
        for field, value in {
            "samples": 101, "seed": 2, "shuffle": False, "trained": 100, "epoch": -1, "version": 2,
        }.items():  # fmt: skip
            with self.subTest(field=field), self.assertRaisesRegex(ValueError, field):
                sampler.load_state_dict({**good, field: value})
            for bad in ("1", None, 1.5, [], 10**400 if field == "trained" else float("nan")):
                with self.subTest(field=field, bad=str(bad)[:9]), self.assertRaises(ValueError):
                    sampler.load_state_dict({**good, field: bad})
            with self.assertRaisesRegex(ValueError, f"{field} is missing"):
                sampler.load_state_dict({name: good[name] for name in good if name != field})
        self.assertEqual(sampler.state_dict(), good)

    def test_the_seed_of_a_state_is_taken_where_none_was_given(self):
        saved = Sampler(50, seed=9)
        loaded = Sampler(50)
        loaded.load_state_dict(saved.state_dict())
        self.assertEqual(list(loaded), list(saved))

    def test_what_cannot_be_is_refused_by_name(self):
        for options, name in (
            ({"dataset": 0}, "samples"), ({"dataset": 5, "batch": 0}, "batch"),
            ({"dataset": 5, "seed": -1}, "seed"),
            ({"dataset": 5, "rank": 2, "ranks": 2}, "rank"), ({"dataset": 5, "rank": 0}, "ranks"),
        ):  # fmt: skip
            with self.subTest(name=name), self.assertRaisesRegex(ValueError, name):
                Sampler(**options)
        with self.assertRaisesRegex(ValueError, "n=6"):
            Sampler(5).trained(6)
        with self.assertRaisesRegex(ValueError, "whole steps"):
            Sampler(50, batch=4).trained(5)

    def test_an_epoch_in_which_nothing_was_counted_is_an_error_and_not_the_same_samples_for_ever(
        self,
    ):
        with self.assertRaisesRegex(RuntimeError, "trained"):
            for _ in Sampler(5).epochs(2):
                pass

    def test_an_epoch_that_was_left_early_comes_again_with_its_rest(self):
        sampler, seen = Sampler(10, batch=2), []
        for epoch in sampler.epochs(2):
            for n, batch in enumerate(sampler):
                seen.append((epoch, tuple(batch)))
                sampler.trained(2)
                if n == 2:
                    break
        samples = [x for epoch, batch in seen for x in batch if epoch == 0]
        self.assertEqual(sorted(samples), list(range(10)))

    def test_the_sampler_needs_no_loader(self):
        self.assertEqual([len(batch) for batch in epoch_of(Sampler(10, batch=4))], [4, 3, 3])



class Workers(unittest.TestCase):
    CODE = """
import os, sys, time
from synergy._loader import _Worker
trainer, worker, dies = os.getpid(), _Worker(None), sys.argv[1] == "dies"
if os.fork() == 0:
    while dies:
        try:
            os.kill(trainer, 0)
            time.sleep(0.01)
        except ProcessLookupError:
            break
    worker(0)
    os.write(1, b"works")
    os._exit(0)
if not dies:
    os.wait()
"""

    def start(self, word):
        """What the worker of a training says that dies before it has begun, or lives."""
        with subprocess.Popen([sys.executable, "-c", self.CODE, word], stdout=subprocess.PIPE) as p:
            p.wait()
            return p.stdout.read()

    def test_a_worker_whose_training_is_gone_when_it_begins_ends(self):
        self.assertEqual(self.start("dies"), b"")
        self.assertEqual(self.start("lives"), b"works")



if __name__ == "__main__":
    unittest.main()
