"""On the path of torchrun and its workers: torch 2.6 asks for libuv in two places whatever USE_LIBUV says, and Debian
builds it without. Torch 1 knows nothing of it."""

import functools
import importlib

import torch

if not torch.__version__.startswith("1."):
    store = functools.partial(torch.distributed.TCPStore, use_libuv=False)
    # import x.y as z would find the function of that name.
    importlib.import_module("torch.distributed.rendezvous").TCPStore = store
    importlib.import_module("torch.distributed.elastic.rendezvous.static_tcp_rendezvous").TCPStore = store
