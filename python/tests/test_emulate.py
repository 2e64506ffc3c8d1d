"""The emulated GPU, and GPEmu's own 24 points of a training on real loaders."""

import heapq
import os
import tempfile
import unittest

from synergy import emulate
from synergy.emulate import GPU

# Images a second on a V100, batch 256, by loader cores, as GPEmu has published them.
MEASURED = {
    "alexnet": {1: 174, 2: 300, 3: 458, 6: 940, 12: 1657, 24: 2349},
    "resnet18": {1: 171, 2: 304, 3: 473, 6: 870, 12: 1000, 24: 993},
    "mobilenet_v2": {1: 171, 2: 306, 3: 472, 6: 806, 12: 798, 24: 799},
    "resnet50": {1: 173, 2: 299, 3: 338, 6: 338, 12: 337, 24: 337},
}
PER_CORE = 155  # images a second that one core decodes
PROFILES = os.path.join(os.path.dirname(__file__), "..", "..", "etc", "profiles")


class Clock:
    """Time that only passes when somebody sleeps; every sleep takes a little longer than it
    should."""

    def __init__(self, late=0.0):
        self.now, self.late = 0.0, late

    def __call__(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds + self.late


def train(gpu, clock, cores, steps=200, warm=50):
    """Images a second of a loader as torch's: a worker on each core makes whole batches, two of
    each are ahead."""
    ready = [
        gpu.batch / PER_CORE * (1 + n / cores) for n in range(cores)
    ]  # when each worker has its next batch
    heapq.heapify(ready)
    ahead, begun = [], 0.0
    for step in range(steps):
        while ready and len(ahead) < 2 * cores:
            done = heapq.heappop(ready)
            ahead.append(done)
            heapq.heappush(ready, done + gpu.batch / PER_CORE)
        clock.now = max(clock.now, ahead.pop(0))
        gpu.step()
        if step == warm:
            begun = clock.now
    return (steps - warm - 1) * gpu.batch / (clock.now - begun)


class ThePublishedPoints(unittest.TestCase):
    def test_every_one_of_the_24_is_met_within_16_percent(self):
        worst = 0.0
        for model, points in MEASURED.items():
            for cores, measured in points.items():
                clock = Clock(late=0.0001)
                gpu = GPU.of_table(model, "V100", 256, sleep=clock.sleep, clock=clock)
                off = train(gpu, clock, cores) / measured - 1
                worst = max(worst, abs(off))
                with self.subTest(model=model, cores=cores):
                    self.assertLess(abs(off), 0.16)
        self.assertEqual(sum(map(len, MEASURED.values())), 24)
        self.assertGreater(
            worst, 0.05, "closer than these times can be: the test compares something with itself"
        )


class Sleeping(unittest.TestCase):
    def test_what_one_step_oversleeps_the_next_make_up_for(self):
        clock = Clock(late=0.0005)
        gpu = GPU(0.01, 32, sleep=clock.sleep, clock=clock)
        for _ in range(1000):
            gpu.step()
        self.assertAlmostEqual(clock.now, 10.0, delta=0.01)

    def test_a_machine_that_stood_still_is_not_made_up_for(self):
        clock = Clock()
        gpu = GPU(0.01, 32, sleep=clock.sleep, clock=clock)
        clock.late = 60
        gpu.step()
        clock.late, before = 0, clock.now
        for _ in range(100):
            gpu.step()
        self.assertGreaterEqual(clock.now - before, 1 - emulate.MAX_OWED - 1e-9)

    def test_a_smaller_batch_takes_its_part_of_the_time(self):
        clock = Clock()
        GPU(1.0, 100, sleep=clock.sleep, clock=clock).step(25)
        self.assertEqual(clock.now, 0.25)


class Tables(unittest.TestCase):
    def test_between_two_batches_the_time_is_on_the_line(self):
        low, high = (GPU.of_table("alexnet", "V100", n).step_s for n in (128, 256))
        self.assertAlmostEqual(GPU.of_table("alexnet", "V100", 192).step_s, (low + high) / 2)
        self.assertAlmostEqual(GPU.of_table("alexnet", "V100", 64).step_s, low / 2)

    def test_far_beyond_what_was_measured_it_refuses(self):
        GPU.of_table("alexnet", "V100", 512)
        for batch in (513, 0):
            with self.assertRaisesRegex(ValueError, f"batch={batch}"):
                GPU.of_table("alexnet", "V100", batch)

    def test_a_model_that_is_not_there_is_refused_with_those_that_are(self):
        with self.assertRaisesRegex(ValueError, "model='gpt2'.*resnet50 on V100"):
            GPU.of_table("gpt2", "V100", 1)

    def test_more_memory_than_the_gpu_has_is_a_memory_error(self):
        with self.assertRaisesRegex(MemoryError, "needs 21481 MiB, it has 11448"):
            GPU.of_table("resnet50", "V100", 256, memory_mib=11448)

    def test_the_paper_s_profiles_are_gpus_as_well(self):
        gpu = GPU.of_profile(os.environ.get("SYNERGY_PROFILES", PROFILES) + "/alexnet.json")
        self.assertEqual((gpu.batch, round(gpu.rate)), (512, 2509))

    def test_what_is_no_profile_or_table_is_refused_by_name(self):
        with tempfile.TemporaryDirectory() as folder:
            path = folder + "/x"
            for text in (
                "",
                "[1]",
                '{"batch": 1}',
                '{"batch": 0, "throughput_samples_per_s": [[1]]}',
                "[" * 100000,
            ):
                with open(path, "w") as file:
                    file.write(text)
                with self.assertRaises(ValueError):
                    GPU.of_profile(path)
            with open(path, "w") as file:
                file.write(",".join(emulate.COLUMNS) + "\nV100,x,0,1,1,1,1,me\n")
            with self.assertRaisesRegex(ValueError, "row 2: batch='0'"):
                GPU.of_table("x", "V100", 1, path)
            with open(path, "w") as file:
                file.write("a,b\n1,2\n")
            with self.assertRaisesRegex(ValueError, "want gpu, model, batch"):
                GPU.of_table("x", "V100", 1, path)

    def test_what_cannot_be_is_refused_by_name(self):
        for arguments, name in (
            ((0, 1), "step_s"),
            ((1, 0), "batch"),
            ((float("nan"), 1), "step_s"),
            ((1, 1.5), "batch"),
        ):
            with self.assertRaisesRegex(ValueError, name):
                GPU(*arguments)


if __name__ == "__main__":
    unittest.main()
