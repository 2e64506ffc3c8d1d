"""synergy profile --local measures a real PyTorch script: one core, two cores, what leaving costs.

Needs torch, two cores and bin/synergy (`make build`): `make test-python-torch`.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

try:
    import torch
except ImportError:
    sys.exit(
        "\n*** torch is MISSING in " + sys.executable + ": nothing is tested here. "
        "Install it (apt-get install python3-torch), or say TORCH_PYTHON=… ***\n"
    )

from . import command

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

# What the GPU would do is next to nothing here, so that the loader is what it waits for.
TRAIN = """
import os, sys, torch, synergy
from torch import nn
torch.set_num_threads(1)

class Images(torch.utils.data.Dataset):
    def __len__(self):
        return 1 << 20
    def __getitem__(self, n):
        image = torch.randn(1, 3, 160, 160)
        for _ in range(4):
            image = nn.functional.interpolate(image, scale_factor=1.5, mode="bilinear")
            image = image[:, :, :160, :160]
        return image[0, :, :16, :16], n % 10

network = nn.Sequential(
    nn.Conv2d(3, 4, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(64, 10))
optimizer = torch.optim.SGD(network.parameters(), lr=0.05)
loader = synergy.loader(Images(), batch=8, seed=5, num_workers=len(os.sched_getaffinity(0)))
run = synergy.resume(sys.argv[1], loader=loader, model=network, optimizer=optimizer)
for epoch in run.epochs(2):
    for images, labels in run.steps(loader):
        optimizer.zero_grad()
        nn.functional.cross_entropy(network(images), labels).backward()
        optimizer.step()
"""


class Profile(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)
        self.assertGreaterEqual(len(os.sched_getaffinity(0)), 2, "this test needs two cores")
        self.command = command(self)

    def test_two_cores_load_about_twice_as_much_as_one_and_leaving_is_measured(self):
        with open(os.path.join(self.folder, "train.py"), "w") as script:
            script.write(TRAIN)
        env = {k: v for k, v in os.environ.items() if not k.startswith(("SLURM_", "SYNERGY_"))}
        line = "profile --local --cores 1-2 --memory 4 --batch 8 --budget 2m --node 2/2/8"
        line += " --checkpoint USR1@60 -o cnn.json --"
        trainer = [sys.executable, "train.py", os.path.join(self.folder, "checkpoints")]
        said = subprocess.run(
            [self.command, *line.split(), *trainer],
            cwd=self.folder,
            env={**env, "PYTHONPATH": HERE},
            capture_output=True,
            text=True,
        )
        print(said.stderr + said.stdout)
        self.assertEqual(said.returncode, 0, said.stderr)
        with open(os.path.join(self.folder, "cnn.json")) as file:
            profile = json.load(file)
        cores = profile["cores_per_gpu"]
        rates = [row[0] for row in profile["throughput_samples_per_s"]]
        self.assertEqual((cores[0], cores[-1]), (1, 2))
        self.assertGreater(rates[-1] / rates[0], 1.25, "the loader has twice the workers on twice the cores")
        self.assertLess(rates[-1] / rates[0], 2.6)
        self.assertIn("2 cores instead of 1 train it", said.stdout)
        self.assertNotIn(profile["checkpoint_s"], (0, 10), "that is what was not measured")
        self.assertGreater(profile["start_s"], 0.3, "nobody imports torch in less")
        with open(os.path.join(self.folder, "cnn.runs.json")) as file:
            self.assertNotIn("remark", json.load(file)["saved"], "it left with 98 and came back")


if __name__ == "__main__":
    unittest.main()
