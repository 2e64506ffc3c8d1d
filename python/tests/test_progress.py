"""Progress: the file, the word in the comment, and a training that goes on whatever happens to
both."""

import json
import os
import shutil
import tempfile
import threading
import time
import unittest

from synergy import progress
from synergy.progress import Progress, Teller, with_progress

SLURM = {"SLURM_JOB_ID": "4711"}


class Folder(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder, True)
        self.file = os.path.join(self.folder, "progress.json")


class File(Folder):
    def test_the_count_goes_on_from_run_to_run(self):
        for total in (3, 6, 9):
            counter = Progress(self.folder, env={})
            for _ in range(3):
                counter.step()
            counter.close()
            self.assertEqual(progress.read(self.file)["iterations"], total)
        self.assertEqual(os.listdir(self.folder), ["progress.json"])

    def test_whoever_measures_names_the_file_and_starts_at_nothing(self):
        Progress(self.folder, start=100, env={}).close()
        measured = os.path.join(self.folder, "trial")
        counter = Progress(self.folder, env={"SYNERGY_PROGRESS": measured})
        counter.step(2)
        counter.close()
        self.assertEqual(progress.read(measured)["iterations"], 2)
        self.assertEqual(progress.read(self.file)["iterations"], 100)

    def test_the_cores_that_a_loader_follows_are_told_before_the_next_step_and_else_not(self):
        counter = Progress(self.folder, write=0.01, env={})
        counter.step()
        while not os.path.exists(self.file):
            time.sleep(0.01)
        self.assertNotIn("cores", self.said())
        counter.cores = 6
        while "cores" not in self.said():
            time.sleep(0.01)
        self.assertEqual((self.said()["cores"], self.said()["iterations"]), (6, 1))
        counter.close()

    def said(self):
        with open(self.file) as file:
            return json.load(file)

    def test_a_checkpoint_knows_better_than_the_file(self):
        Progress(self.folder, start=100, env={}).close()
        counter = Progress(self.folder, start=50, env={})
        counter.step(2)
        counter.close()
        self.assertEqual(progress.read(self.file)["iterations"], 52)

    def test_a_hostile_file_is_passed_over_with_one_warning(self):
        for made in (
            lambda: self.put(b"\0\xff"),
            lambda: self.put(b'{"iterations": -1, "at": 1}'),
            lambda: self.put(b'{"iterations": 1e3, "at": 1}'),
            lambda: self.put(b'{"iterations": true, "at": 1}'),
            lambda: self.put(b'{"iterations": 1}'),
            lambda: self.put(b"[" * 4000),
            lambda: self.put(b" " * 5000),
            lambda: self.put(b'{"iterations": ' + b"9" * 4000 + b', "at": 1}'),
            lambda: os.mkfifo(self.file),
            lambda: os.symlink("/dev/zero", self.file),
        ):
            made()
            with self.assertLogs("synergy") as said:
                counter = Progress(self.folder, env={})
                counter.step()
                counter.close()
            self.assertEqual(counter.iterations, 1)
            self.assertEqual(len([line for line in said.output if "begins at 0" in line]), 1)
            os.unlink(self.file)

    def put(self, data):
        with open(self.file, "wb") as file:
            file.write(data)

    def test_a_folder_that_cannot_be_written_costs_one_warning(self):
        with self.assertLogs("synergy") as said:
            counter = Progress("/dev/null/nothing", write=0.01, env={})
            for _ in range(5):
                counter.step()
                threading.Event().wait(0.03)
            counter.close()
        self.assertEqual(counter.iterations, 5)
        self.assertEqual(
            len([line for line in said.output if "not written" in line]), 1, said.output
        )

    def test_a_slurm_that_hangs_keeps_neither_the_training_nor_its_end(self):
        hangs, hung = threading.Event(), threading.Event()
        self.addCleanup(hangs.set)

        def scontrol(arguments):
            hung.set()
            hangs.wait()
            return ""

        counter = Progress(None, every=0.01, write=0.01, env=SLURM, run=scontrol)
        self.assertTrue(hung.wait(10))
        counter.step(1000)
        begun = time.monotonic()
        counter.close(patience=0.1)
        self.assertLess(time.monotonic() - begun, 10)
        self.assertEqual(counter.iterations, 1000)

    def test_a_folder_that_hangs_keeps_neither_the_training_nor_its_end(self):
        hangs, hung, real = threading.Event(), threading.Event(), os.makedirs
        self.addCleanup(hangs.set)
        self.addCleanup(setattr, os, "makedirs", real)
        os.makedirs = lambda *arguments, **options: hung.set() or hangs.wait()
        counter = Progress(self.folder, write=0.01, env={})
        self.assertTrue(hung.wait(10))
        counter.step(1000)
        begun = time.monotonic()
        counter.close(patience=0.1)
        self.assertLess(time.monotonic() - begun, 10)
        hangs.set()
        counter._thread.join(10)


class Slurm:
    """scontrol that keeps one comment."""

    def __init__(self, comment):
        self.comment, self.calls, self.told = comment, [], threading.Event()

    def __call__(self, arguments):
        self.calls.append(list(arguments))
        if arguments[0] == "show":
            return f"JobId=4711 JobName=x\n   Reason=None\n   Comment={self.comment}\n   Power=\n"
        self.comment = arguments[2].partition("=")[2]
        self.told.set()
        return ""


class Measured(Folder):
    """`synergy measure` is started for a job, and for nothing else."""

    def started(self, folder, **env):
        said = os.path.join(self.folder, "said")
        program = os.path.join(self.folder, "synergy")
        with open(program, "w", encoding="ascii") as file:
            file.write(f'#!/bin/sh\nprintf "%s\\n" "$*" > {said}.new; mv {said}.new {said}\n')
        os.chmod(program, 0o700)
        env = {"PATH": self.folder + ":/usr/bin:/bin", **env}
        counter = Progress(folder, env=env, every=0)
        if hasattr(counter, "_measurer"):
            counter._measurer.wait()
        counter.step(5)
        counter.close()
        if not os.path.exists(said):
            return None
        with open(said, encoding="ascii") as file:
            text = file.read().strip()
        os.unlink(said)
        return text

    def test_it_reads_the_file_of_the_job_or_one_that_is_gone_afterwards(self):
        own = os.path.join(self.folder, "own")
        self.assertEqual(
            self.started(own, **SLURM), f"measure --progress {own}/progress.json"
        )
        words = self.started(None, **SLURM).split()
        self.assertEqual(words[:2], ["measure", "--progress"])
        self.assertFalse(os.path.exists(os.path.dirname(words[2])), words[2])

    def test_it_is_not_started_outside_of_a_job_or_beside_other_tasks_or_another_measurement(self):
        for env in ({}, {**SLURM, "SLURM_STEP_NUM_TASKS": "2"}, {**SLURM, "SYNERGY_PROGRESS": os.path.join(self.folder, "p")}):
            self.assertIsNone(self.started(None, **env), env)


class Word(unittest.TestCase):
    def test_the_other_words_stay_byte_for_byte(self):
        for before, after in (
            (
                "synergy-profile=a.json synergy-progress",
                "synergy-profile=a.json synergy-progress=7@9",
            ),
            ("synergy-progress=1@2,mine  x,,", "synergy-progress=7@9,mine  x,,"),
            (
                '{"a":"synergy-progress"} synergy-progress',
                '{"a":"synergy-progress"} synergy-progress=7@9',
            ),
            ("a\tsynergy-progress=\tb", "a\tsynergy-progress=7@9\tb"),
            ("mysynergy-progress synergy-progressed", None),
            ("x\u00a0synergy-progress", None),
            ("", None),
        ):
            self.assertEqual(with_progress(before, 7, 9), after, before)

    def test_a_word_is_told_with_the_words_as_they_are_now(self):
        slurm = Slurm("synergy-profile=a.json synergy-progress synergy-checkpoint")
        teller = Teller(SLURM, slurm)
        self.assertTrue(teller.tell(10, at=1000))
        slurm.comment = slurm.comment.replace("synergy-checkpoint", "mine=1 synergy-checkpoint")
        self.assertTrue(teller.tell(20, at=1300))
        self.assertEqual(
            slurm.comment,
            "synergy-profile=a.json synergy-progress=20@1300 mine=1 synergy-checkpoint",
        )
        self.assertEqual(slurm.calls[1][:2], ["update", "jobid=4711"])

    def test_a_job_that_did_not_say_that_it_reports_is_left_alone(self):
        for comment in ("", "mine", "synergy-profile=a.json"):
            slurm = Slurm(comment)
            self.assertFalse(Teller(SLURM, slurm).tell(10))
            self.assertEqual([call[0] for call in slurm.calls], ["show"])

    def test_outside_of_slurm_nobody_is_asked(self):
        slurm = Slurm("synergy-progress")
        for env in ({}, {"SLURM_JOB_ID": ""}, {"SLURM_JOB_ID": "1; rm"}, {"SLURM_JOB_ID": "all"}):
            self.assertFalse(Teller(env, slurm).tell(1))
        self.assertEqual(slurm.calls, [])

    def test_the_last_task_of_an_array_does_not_speak_for_all_of_them(self):
        env = {"SLURM_JOB_ID": "11", "SLURM_ARRAY_JOB_ID": "11", "SLURM_ARRAY_TASK_ID": "7"}
        self.assertEqual(progress.job_name(env), "11_7")

    def test_a_comment_that_would_be_too_long_is_not_sent(self):
        slurm = Slurm("synergy-progress " + "x" * 4079)
        with self.assertRaisesRegex(ValueError, "want at most 4096"):
            Teller(SLURM, slurm).tell(1)
        self.assertEqual([call[0] for call in slurm.calls], ["show"])

    def test_the_thread_tells_by_itself(self):
        slurm = Slurm("synergy-progress")
        counter = Progress(None, every=0.01, write=0.01, env=SLURM, run=slurm)
        counter.step(5)
        self.assertTrue(slurm.told.wait(10))
        counter.close()
        self.assertTrue(slurm.comment.startswith("synergy-progress=5@"))

    def test_a_slurm_that_is_away_costs_one_warning(self):
        calls, third = [], threading.Event()

        def away(arguments):
            calls.append(arguments)
            if len(calls) == 3:
                third.set()
            raise OSError("scontrol: Unable to contact slurm controller")

        with self.assertLogs("synergy") as said:
            counter = Progress(None, every=0.01, write=0.01, env=SLURM, run=away)
            counter.step()
            self.assertTrue(third.wait(10))
            counter.close()
        self.assertEqual(len(said.output), 1, said.output)

    def test_a_node_without_scontrol_costs_one_warning(self):
        path, os.environ["PATH"] = os.environ["PATH"], "/nowhere"
        try:
            with self.assertRaises(OSError):
                Teller(SLURM).tell(1)
        finally:
            os.environ["PATH"] = path

    def test_the_file_is_json_that_says_which_job_it_is_of(self):
        with tempfile.TemporaryDirectory() as folder:
            Progress(folder, start=3, env=SLURM).close()
            with open(os.path.join(folder, "progress.json")) as file:
                said = json.load(file)
        self.assertEqual((said["version"], said["job"], said["iterations"]), (1, "4711", 3))


if __name__ == "__main__":
    unittest.main()
