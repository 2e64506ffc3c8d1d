"""The random numbers of this process: Python's, and NumPy's and torch's where they are imported."""

import base64
import contextlib
import random
import sys
from typing import Any, Iterator


def state() -> "dict[str, Any]":
    """The state of all of them, as JSON has it."""
    version, numbers, gauss = random.getstate()
    found: "dict[str, Any]" = {"python": [version, list(numbers), gauss]}
    numpy, torch = sys.modules.get("numpy.random"), sys.modules.get("torch")
    if numpy is not None:
        name, keys, *rest = numpy.get_state()
        found["numpy"] = [name, [int(key) for key in keys], *rest]
    if torch is not None:
        found["torch"] = _text(torch.get_rng_state())
        if torch.cuda.is_initialized():
            found["cuda"] = [_text(each) for each in torch.cuda.get_rng_state_all()]
    return found


def restore(saved: "dict[str, Any]") -> None:
    """Sets what is there now and was there then."""
    version, numbers, gauss = saved["python"]
    random.setstate((version, tuple(numbers), gauss))
    numpy, torch = sys.modules.get("numpy.random"), sys.modules.get("torch")
    if numpy is not None and "numpy" in saved:
        numpy.set_state(tuple(saved["numpy"]))
    if torch is not None and "torch" in saved:
        torch.set_rng_state(_tensor(saved["torch"]))
        _restore_cuda(torch, saved.get("cuda", []))


def _restore_cuda(torch: Any, saved: "list[str]") -> None:
    """Another number of GPUs than then begins anew."""
    if saved and torch.cuda.is_available() and torch.cuda.device_count() == len(saved):
        torch.cuda.set_rng_state_all([_tensor(each) for each in saved])


@contextlib.contextmanager
def kept(generator: Any) -> "Iterator[None]":
    """What is drawn inside of torch's numbers counts for nothing, nor what a generator of torch's
    draws."""
    torch = sys.modules.get("torch")
    before = None if torch is None else torch.get_rng_state()
    own = None if generator is None else generator.get_state()
    try:
        yield
    finally:
        if torch is not None:
            torch.set_rng_state(before)
        if own is not None:
            generator.set_state(own)


@contextlib.contextmanager
def seeded(seed: bytes) -> "Iterator[None]":
    """Inside, random numbers follow from seed, 32 bytes; outside nothing has changed."""
    numpy, torch = sys.modules.get("numpy.random"), sys.modules.get("torch")
    python = random.getstate()
    arrays = None if numpy is None else numpy.get_state()
    tensors = None if torch is None else torch.get_rng_state()
    random.seed(int.from_bytes(seed, "big"))
    if numpy is not None:
        numpy.seed(int.from_bytes(seed[:4], "big"))
    if torch is not None:
        torch.default_generator.manual_seed(int.from_bytes(seed[:8], "big") >> 1)
    try:
        yield
    finally:
        random.setstate(python)
        if numpy is not None:
            numpy.set_state(arrays)
        if torch is not None:
            torch.set_rng_state(tensors)


def _text(tensor: Any) -> str:
    return base64.b64encode(bytes(tensor.cpu().tolist())).decode()


def _tensor(text: str) -> Any:
    import torch

    return torch.tensor(list(base64.b64decode(text)), dtype=torch.uint8)
