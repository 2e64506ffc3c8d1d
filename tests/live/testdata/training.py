"""A small network on generated JPEGs, by the five lines of docs/python.md; the GPU's part of a step is a sleep.

    training.py FOLDER STEP_SECONDS

Beside its checkpoints the folder gets a log, with a line for each start and for each step that was ever trained, also
those that a kill has undone; and at the end the outcome: the weights, and what the history that led to them has trained.
Where a file FOLDER.allowed says up to which step, it goes on slowly from there: somebody wants to disturb it before.
"""

import hashlib
import io
import json
import os
import random
import sys
import time

import numpy
import torch
from PIL import Image
from torch import nn

import synergy
import synergy.emulate

FOLDER, STEP_S = sys.argv[1], float(sys.argv[2])
SAMPLES, EPOCHS, BATCH, CLASSES, SIZE = 900, 6, 16, 10, 32

torch.manual_seed(3)
torch.set_num_threads(1)
torch.use_deterministic_algorithms(True)


def generate(folder):
    """The JPEGs, each following from its number: noise over a pattern of its class."""
    os.makedirs(folder, exist_ok=True)
    for n in range(SAMPLES):
        draw = numpy.random.default_rng(n)
        rows = numpy.arange(SIZE)[:, None, None] * (n % CLASSES + 1) * 8 % 256
        noise = draw.integers(0, 96, (SIZE, SIZE, 3))
        image = Image.fromarray(((rows + noise) % 256).astype(numpy.uint8))
        image.save(os.path.join(folder, f"{n}.jpg"), quality=90)


class Images(torch.utils.data.Dataset):
    def __init__(self, folder):
        self.folder, self.files = folder, synergy.CachedFiles()

    def __len__(self):
        return SAMPLES

    def __getitem__(self, n):
        image = Image.open(self.files.open(os.path.join(self.folder, f"{n}.jpg")))
        pixels = torch.from_numpy(numpy.asarray(image).copy()).permute(2, 0, 1) / 255
        if random.random() < 0.5:  # what workers do at random, by all three generators
            pixels = pixels.flip(2)
        return pixels * (1 + torch.rand(1) / 10) + numpy.random.rand() / 10, n % CLASSES, n


def say(**what):
    """A line in one write, so that none is lost or cut by a kill."""
    os.write(LOG, (json.dumps(what) + "\n").encode())


def digest(state):
    found = hashlib.sha256()
    for name, tensor in sorted(state.items()):
        found.update(name.encode() + tensor.numpy().tobytes())
    return found.hexdigest()


def allowed():
    try:
        with open(FOLDER + ".allowed") as file:
            return int(file.read() or 0)
    except FileNotFoundError:
        return SAMPLES * EPOCHS


def dawdle(step):
    """Lets the step last up to three seconds; one that is asked to leave has to come to the end of it in its grace."""
    for _ in range(30):
        if step < allowed():
            return
        time.sleep(0.1)


os.makedirs(FOLDER, exist_ok=True)
LOG = os.open(os.path.join(FOLDER, "log"), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
images = os.path.join(FOLDER, "images")
if not os.path.exists(images):
    generate(images + ".new")
    os.rename(images + ".new", images)

model = nn.Sequential(
    nn.Conv2d(3, 8, 3, stride=2), nn.BatchNorm2d(8), nn.ReLU(),
    nn.Conv2d(8, 16, 3, stride=2), nn.BatchNorm2d(16), nn.ReLU(),
    nn.AdaptiveAvgPool2d(3), nn.Flatten(), nn.Dropout(0.2), nn.Linear(144, CLASSES),
)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.8)
gpu = synergy.emulate.GPU(step_s=STEP_S, batch=BATCH)
history = {"steps": []}

loader = synergy.loader(Images(images), batch=BATCH, seed=5)
run = synergy.resume(
    FOLDER, loader=loader, every=1, model=model, optimizer=optimizer, scheduler=scheduler, history=history
)
say(
    node=os.environ.get("SLURMD_NODENAME", ""),
    run=int(os.environ.get("SLURM_RESTART_COUNT", "0")),
    workers=loader.num_workers,
    after=run.iterations,
)
for epoch in run.epochs(EPOCHS):
    for pixels, labels, samples in run.steps(loader):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(pixels), labels)
        loss.backward()
        optimizer.step()
        gpu.step(len(labels))
        step = {"step": run.iterations, "epoch": epoch, "loss": loss.item().hex(), "samples": samples.tolist()}
        history["steps"].append(step)
        say(**step)
        dawdle(run.iterations)
    scheduler.step()

with open(os.path.join(FOLDER, "outcome.new"), "w") as file:
    json.dump({"weights": digest(model.state_dict()), "steps": history["steps"]}, file)
os.rename(file.name, os.path.join(FOLDER, "outcome"))
