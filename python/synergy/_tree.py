"""State as JSON and a list of tensors, so that reading it can run no code, whatever version of
torch reads it.

Numbers, text and lists are JSON's own; every other container is a JSON object with one name.
"""

import json
import sys
from collections import Counter, OrderedDict
from typing import Any, Callable

PLAIN = (type(None), bool, int, float, str)


def encode(state: Any, name: str = "state") -> "tuple[str, list[Any]]":
    """(text, tensors) of state. TypeError says where in it something is that could not be read
    again."""
    tensors: "list[Any]" = []
    return json.dumps(_encode(state, name, tensors)), tensors


def decode(text: "bytes | str", tensors: "list[Any]") -> Any:
    """What encode was given. ValueError, KeyError, TypeError or IndexError: it was not encode's."""
    return _decode(json.loads(text), tensors)


def _encode(value: Any, name: str, tensors: "list[Any]") -> Any:
    kind = type(value)
    if kind in PLAIN:
        return value
    if kind in (list, tuple):
        items = [_encode(item, f"{name}[{n}]", tensors) for n, item in enumerate(value)]
        return items if kind is list else {"tuple": items}
    if kind in (dict, OrderedDict, Counter):  # the last is what MultiStepLR keeps
        return _encode_dict(value, name, tensors)
    if _is_a_plain_tensor(value):
        tensors.append(value.detach())
        return {"tensor": len(tensors) - 1}
    raise TypeError(
        f"{name} is a {kind.__name__}: want tensors, numbers, text, lists, tuples and dicts; "
        "with trust=True it may be any object"
    )


def _encode_dict(value: "dict[Any, Any]", name: str, tensors: "list[Any]") -> Any:
    pairs = []
    for key, item in value.items():
        if type(key) not in PLAIN:
            raise TypeError(f"{name} has the key {key!r:.40}: want text or numbers")
        pairs.append([key, _encode(item, f"{name}[{key!r}]", tensors)])
    if type(value) is not OrderedDict:
        return {"dict" if type(value) is dict else "counter": pairs}
    # A module's state_dict carries the versions of its parts beside it.
    versions = _encode(getattr(value, "_metadata", None), name, tensors)
    return {"ordered": [pairs, versions]}


def _is_a_plain_tensor(value: Any) -> bool:
    """Those of one process and in memory as they are: parts of a model over many ranks are not."""
    torch = sys.modules.get("torch")
    if torch is None or type(value) not in (torch.Tensor, torch.nn.Parameter):
        return False
    return value.layout is torch.strided and not value.is_quantized


def _decode(value: Any, tensors: "list[Any]") -> Any:
    if isinstance(value, list):
        return [_decode(item, tensors) for item in value]
    if not isinstance(value, dict):
        return value
    ((kind, inner),) = value.items()
    return _KINDS[kind](inner, tensors)


def _pairs(pairs: "list[Any]", tensors: "list[Any]") -> "list[Any]":
    return [(key, _decode(item, tensors)) for key, item in pairs]


def _ordered(inner: Any, tensors: "list[Any]") -> Any:
    pairs, versions = inner
    found = OrderedDict(_pairs(pairs, tensors))
    if versions is not None:
        found._metadata = _decode(versions, tensors)  # type: ignore[attr-defined]
    return found


_KINDS: "dict[str, Callable[[Any, list[Any]], Any]]" = {
    "tuple": lambda inner, tensors: tuple(_decode(inner, tensors)),
    "dict": lambda inner, tensors: dict(_pairs(inner, tensors)),
    "counter": lambda inner, tensors: Counter(dict(_pairs(inner, tensors))),
    "ordered": _ordered,
    "tensor": lambda inner, tensors: tensors[inner],
}
