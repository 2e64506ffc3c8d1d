"""Trains a real model: resnet (images that the loader's workers decode and crop) or gpt (tokens that cost no core anything).

It prints a step a line, saves on USR1 and leaves with 98, and goes on where it was. DEVICE=cpu and SMALL=1 are for a look at it without a GPU.
"""

import io
import os
import random
import signal
import sys

import torch
from torch import nn

DEVICE = os.environ.get("DEVICE", "cuda")
SMALL = os.environ.get("SMALL") == "1"
SIDE = 64 if SMALL else 224
STATE = f"{sys.argv[1]}.pt"

try:
    from PIL import Image
except ImportError:
    Image = None


class Pictures(torch.utils.data.Dataset):
    """Photographs of noise, decoded, cropped and turned as ImageNet's are; without PIL the same work by torch."""

    def __init__(self):
        noise = torch.randint(0, 255, (24, 32, 3), dtype=torch.uint8)
        self.stored = noise
        if Image is not None:
            file = io.BytesIO()
            Image.fromarray(noise.numpy()).resize((500, 375)).save(file, "JPEG", quality=90)
            self.stored = file.getvalue()

    def __len__(self):
        return 1 << 24

    def __getitem__(self, n):
        left, top = random.randrange(100), random.randrange(100)
        if Image is None:
            picture = self.stored.permute(2, 0, 1)[None].float() / 255
            picture = nn.functional.interpolate(picture, (375, 500), mode="bicubic")
            picture = picture[:, :, top : top + 256, left : left + 256]
            picture = nn.functional.interpolate(picture, (SIDE, SIDE), mode="bilinear")[0]
        else:
            picture = Image.open(io.BytesIO(self.stored)).convert("RGB")
            picture = picture.crop((left, top, left + 256, top + 256)).resize((SIDE, SIDE), Image.BILINEAR)
            picture = torch.frombuffer(bytearray(picture.tobytes()), dtype=torch.uint8)
            picture = picture.view(SIDE, SIDE, 3).permute(2, 0, 1).float() / 255
        return picture, n % 1000


class Tokens(torch.utils.data.Dataset):
    def __init__(self):
        self.text = torch.randint(0, 5000, (1 << 20,))

    def __len__(self):
        return 1 << 24

    def __getitem__(self, n):
        length = 64 if SMALL else 512
        at = n * 7919 % (len(self.text) - length - 1)
        return self.text[at : at + length], self.text[at + 1 : at + length + 1]


class Block(nn.Module):
    """ResNet's of two convolutions."""

    def __init__(self, before, after, stride):
        super().__init__()
        self.one = nn.Sequential(
            nn.Conv2d(before, after, 3, stride, 1, bias=False), nn.BatchNorm2d(after), nn.ReLU(inplace=True),
            nn.Conv2d(after, after, 3, 1, 1, bias=False), nn.BatchNorm2d(after))
        self.two = nn.Sequential()
        if stride > 1 or before != after:
            self.two = nn.Sequential(nn.Conv2d(before, after, 1, stride, bias=False), nn.BatchNorm2d(after))

    def forward(self, x):
        return torch.relu(self.one(x) + self.two(x))


def resnet18():
    layers = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)]
    for before, after, stride in ((64, 64, 1), (64, 128, 2), (128, 256, 2), (256, 512, 2)):
        layers += [Block(before, after, stride), Block(after, after, 1)]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 1000))


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        width, layers, heads = (64, 2, 4) if SMALL else (768, 12, 12)
        self.words = nn.Embedding(5000, width)
        self.places = nn.Embedding(512, width)
        layer = nn.TransformerEncoderLayer(width, heads, 4 * width, 0.0, batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.out = nn.Linear(width, 5000)

    def forward(self, x):
        mask = torch.full((x.shape[1], x.shape[1]), float("-inf"), device=x.device).triu(1)
        places = self.places(torch.arange(x.shape[1], device=x.device))
        return self.out(self.layers(self.words(x) + places, mask=mask)).flatten(0, 1)


def main():
    asked = []
    signal.signal(signal.SIGUSR1, lambda *_: asked.append(1))
    torch.set_num_threads(1)
    model, data, batch = (resnet18(), Pictures(), 256) if sys.argv[1] == "resnet" else (GPT(), Tokens(), 16)
    batch = 8 if SMALL else batch
    workers = len(os.sched_getaffinity(0))
    loader = torch.utils.data.DataLoader(data, batch, num_workers=workers, pin_memory=DEVICE == "cuda", drop_last=True)
    model = model.to(DEVICE)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001, momentum=0.9)
    step = 0
    if os.path.exists(STATE):
        state = torch.load(STATE, map_location=DEVICE)
        model.load_state_dict(state["model"])
        step = state["step"]
        print("step", step, flush=True)
    for inputs, wanted in loader:
        with torch.autocast(DEVICE, torch.bfloat16):
            loss = nn.functional.cross_entropy(model(inputs.to(DEVICE, non_blocking=True)), wanted.flatten().to(DEVICE, non_blocking=True))
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        if DEVICE == "cuda":
            torch.cuda.synchronize()
        step += 1
        print("step", step, flush=True)
        if asked:
            torch.save({"model": model.state_dict(), "step": step}, STATE + ".new")
            os.replace(STATE + ".new", STATE)
            os._exit(98)


main()
