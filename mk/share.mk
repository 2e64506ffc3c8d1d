# What two training jobs have of one GPU, by each way to share it; docs/sharing.md.

.PHONY: bench-share bench-share-gpu bench-share-live test-freezer

bench-share: ## two jobs on the emulated GPU by each way to share it: share.json and frontier.svg in dist/share
	@tests/bench/share_gpu.sh dist/share --emulated --seconds 60

bench-share-live: build ## 60 emulated jobs of which a third share their GPU, and the same without, on a cluster with devices (10 minutes)
	@NODE_DEVICES=yes NODES=2 NODE_GPUS=4 tests/live/with-cluster.sh synergy-bench-share 600 go test -tags live,bench -count=1 -v -timeout 60m -run TestAThird ./tests/live

bench-share-gpu: ## the same on this machine's own GPU, with PyTorch and torchvision (TORCH_PYTHON=...); ten minutes
	@TORCH_PYTHON=$(TORCH_PYTHON) tests/bench/share_gpu.sh dist/share-gpu

# No plain test moves processes of the machine that it runs on into cgroups; what is written to which file of a cgroup is part of make test.
test-freezer: ## that a job in cgroups is stopped as a whole: moves processes into cgroups of this machine, as root
	go test -tags faults -count=1 -v -run TestAJobInCgroupsStandsAsAWhole ./share/broker

# PRELOAD_FLAGS are those of a sanitized build. What is called before a program begins is never sanitized.
PRELOAD ?= bin/libsynergy_cuda.so
PRELOAD_FLAGS ?=
PRELOAD_CFLAGS := -std=gnu11 -O2 -fPIC -fvisibility=hidden -Wall -Wextra -Wshadow -Wformat=2 -Wconversion -Werror -Icontrib/share

.PHONY: share-preload test-preload

# Two minutes of processes that take turns in real time, of a library that is an experiment: no part of make test.
test-preload: ## that library between a CUDA program and an emulated driver, with a broker
	go test -tags preload -count=1 -v ./tests/cuda

share-preload: ## bin/libsynergy_cuda.so, by which CUDA programs take turns that know nothing of them; experimental, needs a C compiler and no CUDA
	@mkdir -p $(dir $(PRELOAD))
	$(CC) $(PRELOAD_CFLAGS) -c -o $(PRELOAD).lookup.o contrib/share/cuda/lookup.c
	$(CC) $(PRELOAD_CFLAGS) $(PRELOAD_FLAGS) -shared -Wl,-z,now -o $(PRELOAD) $(PRELOAD).lookup.o \
		$(filter-out %/lookup.c,$(wildcard contrib/share/cuda/*.c)) contrib/share/synergy_turn.c -pthread -ldl
	@rm $(PRELOAD).lookup.o
