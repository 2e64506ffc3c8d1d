"""The build back end (PEP 517) of the package: a wheel is a zip file of the sources.

pip builds in an environment of its own, for which it would download any back end that is not here;
nodes have no way out.
"""

import base64
import hashlib
import os
import re
import zipfile

HERE = os.path.dirname(os.path.abspath(__file__))
EPOCH = (1980, 1, 1, 0, 0, 0)  # of every file in the wheel: the same sources are the same wheel
WHEEL = "Wheel-Version: 1.0\nGenerator: synergy\nRoot-Is-Purelib: true\nTag: py3-none-any\n"


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    """Writes the wheel into wheel_directory, and returns its file name."""
    return _write(wheel_directory, _modules())


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    """Writes a wheel that only points to this folder, for `pip install -e`."""
    return _write(wheel_directory, {"synergy_slurm.pth": (HERE + "\n").encode()})


def build_sdist(sdist_directory, config_settings=None):
    raise NotImplementedError("synergy: there is no source package: pip install FOLDER/python")


def _field(name):
    """A text field of pyproject.toml; Python reads TOML by itself only from 3.11 on."""
    with open(os.path.join(HERE, "pyproject.toml"), encoding="utf-8") as file:
        return re.search(rf'^{name} = "(.*)"$', file.read(), re.MULTILINE).group(1)


def _metadata():
    return (
        f"Metadata-Version: 2.1\nName: {_field('name')}\nVersion: {_field('version')}\n"
        f"Summary: {_field('description')}\nRequires-Python: {_field('requires-python')}\n"
    )


def _modules():
    """The package's files by their name in the wheel."""
    files = {}
    for name in sorted(os.listdir(os.path.join(HERE, "synergy"))):
        if name.endswith((".py", ".csv", ".typed")):
            with open(os.path.join(HERE, "synergy", name), "rb") as file:
                files["synergy/" + name] = file.read()
    return files


def _write(folder, files):
    stem = f"{_field('name').replace('-', '_')}-{_field('version')}"
    info = stem + ".dist-info/"
    files = {**files, info + "METADATA": _metadata().encode(), info + "WHEEL": WHEEL.encode()}
    record = "".join(f"{name},sha256={_digest(data)},{len(data)}\n" for name, data in files.items())
    files[info + "RECORD"] = (record + info + "RECORD,,\n").encode()
    wheel = stem + "-py3-none-any.whl"
    with zipfile.ZipFile(os.path.join(folder, wheel), "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(zipfile.ZipInfo(name, EPOCH), data)
    return wheel


def _digest(data):
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
