"""The cache that never evicts: what it holds, what it shares, and what it does when its folder
is somebody else's."""

import os
import pickle
import shutil
import signal
import tempfile
import time
import unittest

from synergy._cache import PAGE, CachedFiles


class Files(unittest.TestCase):
    def setUp(self):
        self.folder, self.data = tempfile.mkdtemp(), tempfile.mkdtemp()
        for folder in (self.folder, self.data):
            self.addCleanup(shutil.rmtree, folder, True)
        self.paths = [os.path.join(self.data, str(n)) for n in range(20)]
        for n, path in enumerate(self.paths):
            with open(path, "wb") as file:
                file.write(bytes([n]) * PAGE)

    def open(self, **options):
        found = CachedFiles(**{"folder": self.folder, "name": "test", **options})
        self.addCleanup(found.close)
        return found

    def hits(self, files):
        """The files that are read from the cache: those that lie elsewhere are not read at all."""
        os.rename(self.data, self.data + ".away")
        try:
            return {n for n, path in enumerate(self.paths) if self.is_there(files, path, n)}
        finally:
            os.rename(self.data + ".away", self.data)

    @staticmethod
    def is_there(files, path, n):
        try:
            return files.read(path) == bytes([n]) * PAGE
        except FileNotFoundError:
            return False


class Caching(Files):
    def test_what_fits_is_kept_for_ever_and_each_epoch_has_the_same_hits(self):
        files = self.open(size=7 * PAGE)
        epochs = []
        for epoch in range(3):
            for path in self.paths if epoch % 2 else reversed(self.paths):
                files.read(path)
            epochs.append(self.hits(files))
        self.assertEqual(epochs, [set(range(13, 20))] * 3)
        self.assertEqual(files.used(), 7 * PAGE)

    def test_ranks_of_a_node_share_one_cache_and_never_exceed_it_together(self):
        files, children = self.open(size=10 * PAGE), []
        for _ in range(4):
            child = os.fork()
            if child == 0:
                mine = CachedFiles(size=10 * PAGE, name="test", folder=self.folder)
                for path in self.paths * 3:
                    mine.read(path)
                os._exit(0)
            children.append(child)
        for child in children:
            self.assertEqual(os.waitpid(child, 0)[1], 0)
        home = os.path.join(self.folder, f"synergy-cache-{os.getuid()}-test")
        held = [name for name in os.listdir(home) if len(name) == 64]
        self.assertLessEqual(len(held), 10)
        self.assertEqual(files.used(), len(held) * PAGE, "what is booked is what is there")
        self.assertGreaterEqual(len(self.hits(files)), 9)

    def test_a_worker_that_was_not_forked_opens_the_same_cache_and_does_not_remove_it(self):
        files = self.open(size=10 * PAGE)
        files.read(self.paths[0])
        worker = pickle.loads(pickle.dumps(files))
        self.assertEqual(self.hits(worker), {0})
        worker.close()
        self.assertEqual(self.hits(files), {0})

    def test_a_library_that_wants_a_name_gets_one(self):
        files = self.open(size=PAGE)
        self.assertTrue(files.path(self.paths[0]).startswith(self.folder))
        self.assertEqual(files.path(self.paths[1]), self.paths[1])
        self.assertEqual(files.open(self.paths[0]).read(), bytes(PAGE))

    def test_a_file_that_is_not_there_is_the_same_error_as_without(self):
        with self.assertRaises(FileNotFoundError):
            self.open(size=PAGE).read(self.data + "/none")

    def test_it_is_as_large_as_the_grant_leaves(self):
        before, os.environ["SLURM_MEM_PER_NODE"] = os.environ.get("SLURM_MEM_PER_NODE"), "1000"
        self.addCleanup(
            os.environ.__setitem__ if before else os.environ.pop,
            "SLURM_MEM_PER_NODE",
            *filter(None, [before]),
        )
        size = self.open().size()
        self.assertLess(size, 750 << 20)
        self.assertGreater(size, 500 << 20)


class Ends(Files):
    def test_the_last_one_to_close_removes_it(self):
        first, second = self.open(size=PAGE), self.open(size=PAGE)
        first.read(self.paths[0])
        first.close()
        self.assertEqual(self.hits(second), {0})
        second.close()
        self.assertEqual(os.listdir(self.folder), [])
        self.assertEqual(first.read(self.paths[0]), bytes(PAGE))

    def test_what_a_killed_run_left_is_removed_by_the_next_and_what_is_used_is_not(self):
        child = os.fork()
        if child == 0:
            CachedFiles(size=PAGE, name="killed", folder=self.folder).read(self.paths[0])
            os.kill(os.getpid(), signal.SIGKILL)
        os.waitpid(child, 0)
        used = self.open(size=PAGE)
        used.read(self.paths[1])
        self.open(size=PAGE, name="next")
        self.assertEqual(self.hits(used), {1})
        self.assertFalse([name for name in os.listdir(self.folder) if "killed" in name])

    def test_killed_while_it_copies_it_holds_no_file_by_halves(self):
        big = os.path.join(self.data, "big")
        with open(big, "wb") as file:
            file.write(b"x" * (4 << 20))
        keeper = self.open(size=1 << 30)
        for n in range(30):
            child = os.fork()
            if child == 0:
                CachedFiles(size=1 << 30, name="test", folder=self.folder).read(big)
                os._exit(0)
            time.sleep(0.0005 * n)
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            place = keeper._place(big)
            if os.path.exists(place):
                self.assertEqual(os.path.getsize(place), 4 << 20)
                os.unlink(place)


class Hostile(Files):
    def test_a_folder_that_is_not_ours_alone_is_not_used(self):
        home = os.path.join(self.folder, f"synergy-cache-{os.getuid()}-test")
        for make in (
            lambda: os.mkdir(home) or os.chmod(home, 0o777),
            lambda: os.symlink(self.data, home),
            lambda: open(home, "w").close(),
        ):
            make()
            with self.assertLogs("synergy") as said:
                files = self.open(size=10 * PAGE)
                self.assertEqual([files.read(path)[0] for path in self.paths], list(range(20)))
            self.assertEqual(len(said.output), 1)
            self.assertEqual(files.size(), 0)
            self.assertEqual(sorted(os.listdir(self.data)), sorted(map(str, range(20))))
            os.rmdir(home) if os.path.isdir(home) and not os.path.islink(home) else os.unlink(home)

    def test_without_a_folder_files_are_read_where_they_lie(self):
        with self.assertLogs("synergy"):
            files = self.open(folder="/nowhere")
        self.assertEqual(files.read(self.paths[3]), bytes([3]) * PAGE)

    def test_a_book_of_nonsense_costs_the_cache_and_no_reads(self):
        files = self.open(size=10 * PAGE)
        home = os.path.join(self.folder, f"synergy-cache-{os.getuid()}-test")
        for text in (b"", b"x", b"\xff" * 16):
            with open(os.path.join(home, "book"), "wb") as file:
                file.write(text)
            for n, path in enumerate(self.paths):
                self.assertEqual(files.read(path), bytes([n]) * PAGE)

    def test_what_cannot_be_is_refused_by_name(self):
        for options, name in (
            ({"size": -1}, "size"),
            ({"size": "1G"}, "size"),
            ({"name": "../x"}, "name"),
        ):
            with self.assertRaisesRegex(ValueError, name):
                CachedFiles(folder=self.folder, **options)

    def test_the_cache_is_closed_for_the_others_when_its_folder_is_gone(self):
        files = self.open(size=10 * PAGE)
        shutil.rmtree(os.path.join(self.folder, f"synergy-cache-{os.getuid()}-test"))
        self.assertEqual(files.read(self.paths[0]), bytes(PAGE))
        self.assertEqual(files.size(), 0)


if __name__ == "__main__":
    unittest.main()
