"""What the environment says that this process was given."""

import os
import tempfile
import unittest

from synergy import grant


class Ranks(unittest.TestCase):
    def test_torchrun_comes_before_slurm(self):
        env = {"RANK": "3", "WORLD_SIZE": "8", "SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "2"}
        self.assertEqual((grant.rank(env), grant.ranks(env)), (3, 8))

    def test_a_batch_script_is_one_process_however_many_tasks_it_asked_for(self):
        self.assertEqual(grant.ranks({"SLURM_PROCID": "0", "SLURM_NTASKS": "4"}), 1)

    def test_what_cannot_be_is_one_rank(self):
        for rank, size in (
            ("4", "4"),
            ("-1", "2"),
            ("", ""),
            ("x", "3"),
            ("1", "9" * 20),
            ("１", "2"),
        ):
            self.assertEqual(grant.ranks({"RANK": rank, "WORLD_SIZE": size}), 1)


class Cores(unittest.TestCase):
    def test_the_cores_of_a_task_are_those_that_the_nodes_say(self):
        for env, cores in (
            ({"SLURM_CPUS_PER_TASK": "9", "SLURM_CPUS_ON_NODE": "9"}, 9),
            ({"SLURM_CPUS_PER_TASK": "3", "SLURM_CPUS_ON_NODE": "12"}, 3),
            ({"SLURM_CPUS_PER_TASK": "12", "SLURM_CPUS_ON_NODE": "5"}, 5),
            ({"SYNERGY_CPUS": "8", "SLURM_CPUS_ON_NODE": "16"}, 8),
            ({"SLURM_CPUS_ON_NODE": "12", "SLURM_STEP_TASKS_PER_NODE": "4(x2)"}, 3),
            ({"SLURM_CPUS_ON_NODE": "1", "SLURM_TASKS_PER_NODE": "4"}, 1),
            ({"SLURM_CPUS_PER_TASK": "12", "LOCAL_WORLD_SIZE": "4"}, 3),
            ({"SLURM_CPUS_ON_NODE": "7", "SLURM_TASKS_PER_NODE": "x"}, 7),
            ({}, len(os.sched_getaffinity(0))),
            ({"SLURM_CPUS_PER_TASK": "many"}, len(os.sched_getaffinity(0))),
        ):
            with self.subTest(env=env):
                self.assertEqual(grant.workers(env), cores)


class Memory(unittest.TestCase):
    def test_memory_is_what_slurm_gives_for_a_node_or_for_its_cores(self):
        known = grant.cgroup_memory()
        for env, mib in (
            ({"SYNERGY_MEMORY_MB": "500", "SLURM_MEM_PER_NODE": "900"}, 500),
            ({"SLURM_MEM_PER_NODE": "900"}, 900),
            ({"SLURM_MEM_PER_CPU": "100", "SLURM_CPUS_ON_NODE": "3"}, 300),
        ):
            self.assertEqual(grant.memory(env), min(known or 1 << 60, mib << 20))

    def test_the_tightest_cgroup_on_the_way_up_counts(self):
        with tempfile.TemporaryDirectory() as root:
            os.makedirs(root + "/job/step")
            for path, text in (("/job", "1000\n"), ("/job/step", "max\n")):
                with open(root + path + "/memory.max", "w") as file:
                    file.write(text)
            own = root + "/self"
            with open(own, "w") as file:
                file.write("1:name=systemd:/x\n0::/job/step\n")
            self.assertEqual(grant.cgroup_memory(root, own), 1000)
            self.assertIsNone(grant.cgroup_memory(root, root + "/none"))


if __name__ == "__main__":
    unittest.main()
