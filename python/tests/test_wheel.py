"""The package as pip installs it: what is in the wheel, and that it needs nothing but Python."""

import ast
import importlib.util
import os
import subprocess
import sys
import tempfile
import unittest
import zipfile

import synergy

PACKAGE = os.path.dirname(os.path.abspath(synergy.__file__))
ROOT = os.path.dirname(PACKAGE)


def back_end():
    spec = importlib.util.spec_from_file_location(
        "wheel_of_synergy", os.path.join(ROOT, "wheel_of_synergy.py")
    )
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def sources():
    return [
        os.path.join(PACKAGE, name) for name in sorted(os.listdir(PACKAGE)) if name.endswith(".py")
    ]


class Wheel(unittest.TestCase):
    def test_the_wheel_has_every_file_and_works_by_itself(self):
        with tempfile.TemporaryDirectory() as folder:
            wheel = os.path.join(folder, back_end().build_wheel(folder))
            with zipfile.ZipFile(wheel) as archive:
                names = {name for name in archive.namelist() if name.startswith("synergy/")}
                archive.extractall(os.path.join(folder, "site"))
            wanted = {
                "synergy/" + name
                for name in os.listdir(PACKAGE)
                if not name.startswith("__pycache__")
            }
            self.assertEqual(names, wanted)
            say = "import synergy.emulate as e; print(e.GPU.of_table('alexnet', 'V100', 256).batch)"
            env = {**os.environ, "PYTHONPATH": os.path.join(folder, "site")}
            out = subprocess.run(
                [sys.executable, "-c", say], env=env, cwd="/", stdout=subprocess.PIPE, check=True
            )
            self.assertEqual(out.stdout, b"256\n")

    def test_the_same_sources_are_the_same_wheel(self):
        wheels = []
        for _ in range(2):
            with tempfile.TemporaryDirectory() as folder:
                with open(os.path.join(folder, back_end().build_wheel(folder)), "rb") as file:
                    wheels.append(file.read())
        self.assertEqual(*wheels)

    def test_only_the_standard_library_is_imported_and_torch_only_inside_of_functions(self):
        for path in sources():
            with open(path, encoding="utf-8") as file:
                tree = ast.parse(file.read(), path, feature_version=(3, 9))
            inside = {
                id(node)
                for f in ast.walk(tree)
                if isinstance(f, ast.FunctionDef)
                for node in ast.walk(f)
            }
            for node in ast.walk(tree):
                for name in imported(node):
                    known = name in STANDARD or name == "torch" and id(node) in inside
                    self.assertTrue(known, f"{path} imports {name}")

    def test_lines_are_short(self):
        for path in sources():
            with open(path, encoding="utf-8") as file:
                for n, line in enumerate(file, 1):
                    self.assertLessEqual(len(line.rstrip("\n")), 100, f"{path}:{n}")


STANDARD = set(
    "array atexit base64 collections contextlib csv errno fcntl hashlib io json logging os pickle"
    " random re select shutil signal socket stat struct subprocess sys tempfile threading time"
    " typing zlib".split()
)


def imported(node):
    if isinstance(node, ast.Import):
        return [alias.name.split(".")[0] for alias in node.names]
    if isinstance(node, ast.ImportFrom) and node.level == 0:
        return [node.module.split(".")[0]]
    return []


if __name__ == "__main__":
    unittest.main()
