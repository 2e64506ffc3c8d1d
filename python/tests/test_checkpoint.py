"""Checkpoint files under kill -9, damage and malice."""

import json
import os
import pickle
import random
import shutil
import signal
import stat
import struct
import tempfile
import time
import unittest
import zlib
from collections import Counter, OrderedDict

from synergy import checkpoint
from synergy.checkpoint import Damaged, Store


class Folder(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder, True)

    def path(self, iterations):
        return os.path.join(self.folder, f"synergy-{iterations:015d}.ckpt")

    def put(self, iterations, data):
        with open(self.path(iterations), "wb") as file:
            file.write(data)

    def bytes_of(self, iterations):
        with open(self.path(iterations), "rb") as file:
            return file.read()

    def quietly(self):
        return self.assertLogs("synergy")


class Saving(Folder):
    def test_what_was_saved_last_is_found(self):
        store = Store(self.folder)
        self.assertIsNone(store.newest())
        for n in (1, 2, 30):
            store.save(n, {"n": n, "x": [0.1, None, "ä"]})
        self.assertEqual(Store(self.folder).newest(), (30, {"n": 30, "x": [0.1, None, "ä"]}))

    def test_what_is_loaded_is_what_was_saved_whatever_its_keys_and_containers(self):
        state = {
            1: (1, 2),
            "a": [None, True, 0.1, -1e300],
            None: {},
            2.5: OrderedDict(x=1),
            "dict": {"tuple": []},
            "counts": Counter([3, 3]),
        }
        Store(self.folder).save(1, state)
        found = Store(self.folder).newest()[1]
        self.assertEqual(found, state)
        self.assertEqual([type(x) for x in found.values()], [type(x) for x in state.values()])

    def test_the_last_two_are_kept_and_nothing_else_is_touched(self):
        other = os.path.join(self.folder, "model.pt")
        with open(other, "w") as file:
            file.write("mine")
        store = Store(self.folder)
        for n in range(5):
            store.save(n, n)
        self.assertEqual(
            sorted(os.listdir(self.folder)),
            ["model.pt", *(os.path.basename(self.path(n)) for n in (3, 4))],
        )

    def test_the_one_that_was_gone_on_from_is_kept_until_there_are_two_newer(self):
        Store(self.folder).save(1, 1)
        store = Store(self.folder)
        store.newest()
        store.save(2, 2)
        self.assertTrue(os.path.exists(self.path(1)))
        store.save(3, 3)
        self.assertFalse(os.path.exists(self.path(1)))

    def test_the_bytes_are_on_the_disk_before_the_name_and_the_name_before_the_return(self):
        calls, real = [], (os.fsync, os.replace)
        self.addCleanup(lambda: (setattr(os, "fsync", real[0]), setattr(os, "replace", real[1])))
        os.fsync = lambda file: calls.append("folder" if self.is_folder(file) else "file")
        os.replace = lambda *names: calls.append("name") or real[1](*names)
        Store(self.folder).save(1, 1)
        self.assertEqual(calls, ["file", "name", "folder"])

    @staticmethod
    def is_folder(file):
        return stat.S_ISDIR(os.fstat(file).st_mode)

    def test_a_save_that_fails_leaves_the_ones_before(self):
        store = Store(self.folder)
        store.save(1, 1)
        for bad in ({"x": object()}, {"x": {(1, 2): 2}}, {"x": ({1, 2},)}, [b"bytes"]):
            with self.assertRaisesRegex(TypeError, "want"):
                store.save(2, bad)
        self.assertEqual(os.listdir(self.folder), [os.path.basename(self.path(1))])

    def test_a_killed_writers_rest_is_swept_and_others_files_are_not(self):
        rest = self.path(3) + ".77.tmp"
        for name in (rest, os.path.join(self.folder, "mine.tmp")):
            open(name, "w").close()
        Store(self.folder).sweep()
        self.assertEqual(os.listdir(self.folder), ["mine.tmp"])

    def test_what_is_asked_is_refused_by_name(self):
        with self.assertRaisesRegex(ValueError, "keep=1"):
            Store(self.folder, keep=1)
        with self.assertRaisesRegex(ValueError, "iterations=-1"):
            Store(self.folder).save(-1, 0)


class Killed(Folder):
    KILLS, TORN, AT_MOST = 150, 8, 2000

    def test_kill_9_at_any_moment_leaves_a_whole_checkpoint_no_older_than_the_last_done(
        self,
    ):
        draw, torn, kills = random.Random(4), 0, 0
        done, span = os.path.join(self.folder, "done"), 3 * self.a_save()
        while kills < self.KILLS or torn < self.TORN and kills < self.AT_MOST:
            kills += 1
            self.life(done, draw.random() * span)
            torn += any(name.endswith(".tmp") for name in os.listdir(self.folder))
            found = Store(self.folder).newest()
            last = self.read(done)
            self.assertGreaterEqual(found[0] if found else 0, last)
            if found:
                self.assertEqual(found[1], self.state(found[0]))
            Store(self.folder).sweep()
        self.assertGreaterEqual(
            torn, self.TORN, "no kill met a half-written file: the test proves nothing"
        )

    def a_save(self):
        """Seconds that one save takes here: on a slow machine no fixed time reaches the writing."""
        with tempfile.TemporaryDirectory() as folder:
            begin = time.monotonic()
            for n in range(1, 9):
                Store(folder).save(n, self.state(n))
            return (time.monotonic() - begin) / 8

    @staticmethod
    def state(n):
        return {"n": n, "weights": [n] * 20000}

    @staticmethod
    def read(done):
        try:
            with open(done) as file:
                return int(file.read() or 0)
        except FileNotFoundError:
            return 0

    def life(self, done, seconds):
        """A writer that is killed some time after its first checkpoint has begun."""
        begins, ready = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                self.write_for_ever(done, ready)
            finally:
                os._exit(1)
        os.close(ready)
        os.read(begins, 1)
        os.close(begins)
        time.sleep(seconds)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)

    def write_for_ever(self, done, ready):
        store = Store(self.folder)
        found = store.newest()
        n = found[0] if found else 0
        os.write(ready, b".")
        while True:
            n += 1
            store.save(n, self.state(n))
            with open(done + ".new", "w") as file:
                file.write(str(n))
            os.replace(done + ".new", done)


class DamagedFiles(Folder):
    def test_every_flipped_bit_and_every_cut_is_noticed(self):
        store = Store(self.folder)
        store.save(1, {"n": 1})
        store.save(2, {"n": 2, "x": list(range(20))})
        whole = self.bytes_of(2)
        for at in range(len(whole)):
            flipped = bytearray(whole)
            flipped[at] ^= 1 << (at % 8)
            self.put(2, flipped)
            with self.quietly():
                self.assertEqual(Store(self.folder).newest(), (1, {"n": 1}), f"byte {at}")
            self.put(2, whole[:at])
            with self.quietly():
                self.assertEqual(Store(self.folder).newest(), (1, {"n": 1}), f"cut at {at}")
        self.put(2, whole + b"x")
        with self.quietly():
            self.assertEqual(Store(self.folder).newest()[0], 1)

    def test_where_none_is_whole_it_says_so_and_does_not_begin_anew(self):
        self.put(1, b"")
        self.put(2, b"\0" * 1000)
        with self.quietly(), self.assertRaisesRegex(
            Damaged, "no checkpoint is whole.*another folder"
        ):
            Store(self.folder).newest()

    def test_a_file_under_another_name_is_not_taken(self):
        Store(self.folder).save(5, {})
        os.rename(self.path(5), self.path(9))
        with self.quietly(), self.assertRaisesRegex(Damaged, "holds iteration 5"):
            Store(self.folder).newest()

    def test_a_trailer_that_was_changed_to_fit_another_name_is_not_taken(self):
        Store(self.folder).save(5, {})
        self.put(9, self.bytes_of(5).replace(b'"iterations": 5', b'"iterations": 9'))
        os.unlink(self.path(5))
        with self.quietly(), self.assertRaisesRegex(Damaged, "checksum"):
            Store(self.folder).newest()

    def test_a_damaged_newest_one_is_replaced_when_its_iteration_comes_again(self):
        store = Store(self.folder)
        store.save(1, 1)
        store.save(2, 2)
        self.put(2, b"damaged")
        again = Store(self.folder)
        with self.quietly():
            self.assertEqual(again.newest(), (1, 1))
        again.save(2, "new")
        self.assertEqual(Store(self.folder).newest(), (2, "new"))


class HostileFolders(Folder):
    def test_what_is_no_file_is_passed_over_without_waiting(self):
        store = Store(self.folder)
        store.save(1, 1)
        os.mkdir(self.path(2))
        os.mkfifo(self.path(3))
        os.symlink("/dev/zero", self.path(4))
        os.symlink(self.path(1), self.path(5))
        os.symlink("nowhere", self.path(6))
        for name in (
            "synergy-.ckpt",
            "synergy-7.ckpt",
            "synergy-" + "9" * 200 + ".ckpt",
            "synergy-00000000000000٣.ckpt",
        ):
            open(os.path.join(self.folder, name), "w").close()
        with self.quietly():
            self.assertEqual(Store(self.folder).newest(), (1, 1))

    def test_a_link_to_a_whole_checkpoint_of_another_job_is_none_of_ours(self):
        with tempfile.TemporaryDirectory() as other:
            theirs = Store(other).save(9, "theirs")
            Store(self.folder).save(1, "ours")
            os.symlink(theirs, self.path(9))
            with self.quietly():
                self.assertEqual(Store(self.folder).newest(), (1, "ours"))

    def test_saving_does_not_write_through_a_link(self):
        victim = os.path.join(self.folder, "victim")
        with open(victim, "w") as file:
            file.write("precious")
        os.symlink(victim, self.path(1))
        os.symlink(victim, f"{self.path(1)}.{os.getpid()}.tmp")
        Store(self.folder).save(1, "state")
        with open(victim) as file:
            self.assertEqual(file.read(), "precious")
        self.assertEqual(Store(self.folder).newest(), (1, "state"))

    def forged(self, payload, **about):
        """A checkpoint with a right checksum, by somebody who knows how."""
        about = {"version": 1, "kind": "json", "iterations": 1, "length": len(payload), **about}
        return payload + checkpoint._trailer(about, zlib.crc32(payload))

    def test_a_forged_one_runs_no_code(self):
        class Code:
            def __reduce__(self):
                return os.mkdir, (os.path.join(folder, "ran"),)

        folder = self.folder
        payload = pickle.dumps(Code())
        for kind in ("pickle", "json"):
            self.put(1, self.forged(payload, kind=kind))
            with self.quietly(), self.assertRaises(Damaged):
                Store(self.folder).newest()
        self.assertFalse(os.path.exists(os.path.join(self.folder, "ran")))

    def test_a_forged_trailer_is_refused_whatever_it_claims(self):
        deep = b"[" * 100000
        for data in (
            self.forged(deep),
            self.forged(b'{"tensor": 0}'),
            self.forged(b'{"os": "x"}'),
            self.forged(b'{"dict": [], "tuple": []}'),
            self.forged(b'{"dict": [[[], 1]]}'),
            self.forged(b"{}", version=2),
            self.forged(b"{}", version="1"),
            self.forged(b"{}", kind="shell"),
            self.forged(b"{}", kind=None),
            self.forged(b"{}", kind=[]),
            self.forged(b"{}", length=-1),
            self.forged(b"{}", length=10**30),
            self.forged(b"{}", length="2"),
            self.forged(b"{}", iterations=1.0),
            b"{}" + b"[" * 4000 + struct.pack("<I8s", 4000, checkpoint.MAGIC),
            b"x" * 20 + struct.pack("<I8s", 2**32 - 1, checkpoint.MAGIC),
            json.dumps({"version": 1}).encode() + struct.pack("<I8s", 14, checkpoint.MAGIC),
        ):
            self.put(1, data)
            with self.subTest(data=data[-60:]), self.quietly(), self.assertRaises(Damaged):
                Store(self.folder).newest()

    def test_a_folder_that_cannot_be_read_is_an_error_and_no_new_beginning(self):
        path = os.path.join(self.folder, "file")
        open(path, "w").close()
        with self.assertRaises(OSError):
            Store(path).newest()

    def test_any_object_may_be_saved_where_the_folder_is_trusted(self):
        Store(self.folder, trust=True).save(1, {"x": {1, 2}, "y": b"bytes"})
        self.assertEqual(Store(self.folder, trust=True).newest(), (1, {"x": {1, 2}, "y": b"bytes"}))
        with self.quietly(), self.assertRaisesRegex(Damaged, "trust=True"):
            Store(self.folder).newest()


if __name__ == "__main__":
    unittest.main()
