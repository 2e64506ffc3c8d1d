# The Python package of training scripts: docs/python.md. Its tests need python3 and nothing else; those that train a network need torch as well (Debian's
# python3-torch, which belongs to /usr/bin/python3). Only the first are part of make test.

PYTHON ?= python3
TORCH_PYTHON ?= $(shell /usr/bin/python3 -c 'import torch' 2>/dev/null && echo /usr/bin/python3 || echo python3)

.PHONY: test-python test-python-torch bench-python

test-python: ## the Python package's tests, with PYTHON=python3; part of make test
	cd python && $(PYTHON) -B -m unittest discover -s tests -t .

test-python-torch: build ## the same with torch: a network that is preempted and resized ends bit for bit as one that was left alone; torchrun itself; fails without torch
	cd python && $(TORCH_PYTHON) -B -m unittest discover -v -s tests_torch -t .

bench-python: ## what a step of the Python package costs
	cd python && $(PYTHON) -B bench.py
