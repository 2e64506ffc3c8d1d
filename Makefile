# make help lists what there is to do. Two commands matter on a fresh machine: make demo, and make test.

SHELL := /bin/bash
.DEFAULT_GOAL := help

STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2
DEADCODE := golang.org/x/tools/cmd/deadcode@v0.52.0

# A tagged commit is that release. Any other is on the way to the one that CHANGELOG.md begins with.
RELEASE := $(shell sed -n 's/^\#\# \[\([0-9.]*\)\].*/\1/p' CHANGELOG.md | head -n 1)
COMMIT := $(shell git describe --always --dirty=.dirty --exclude '*' 2>/dev/null || echo unknown)
NUMBER := $(shell git rev-list --count HEAD 2>/dev/null || echo 0)
TAG := $(filter-out %-dirty,$(shell git describe --tags --exact-match --dirty 2>/dev/null))
VERSION := $(or $(TAG),v$(RELEASE)-dev.$(NUMBER).g$(COMMIT))
LDFLAGS := -s -w -X main.version=$(VERSION)

# The live suites use a cluster of their own beside one that a person may have started.
LIVE := synergy-live
LIVE_LEASE := 30

# go-nvml calls the driver's library by symbols that are there only once that is open, so they have to be looked up late whatever the compiler's default
# is; and half a hundred of its calls are deprecated, which nobody here makes.
WITH_NVML := CGO_ENABLED=1 CGO_LDFLAGS='-O2 -g -Wl,-z,lazy' CGO_CFLAGS='-O2 -g -Wno-deprecated-declarations'

# Programs, go vet and unraced tests are compiled in one way, so that a fresh machine compiles Go's own packages once and not three times. The race detector
# needs cgo.
export CGO_ENABLED := 0
export GOFLAGS := -trimpath $(filter-out -trimpath,$(GOFLAGS))
RACED := CGO_ENABLED=1 go test -race
SUITE := tests/suite.sh

include mk/*.mk

.PHONY: help demo build build-nvml deft test unit image test-unit test-timed test-patient vet test-gpu test-page test-live test-live-rounds test-live-trust test-live-site test-live-limits test-live-share test-live-next test-live-torch lint bench bench-live fidelity fuzz clean fidelity-backfill

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: ## rounds on a Slurm in memory, as a table: no Slurm needed
	@go run ./cmd/synergy-slurmd --demo

build: ## static binaries into bin/
	@mkdir -p bin/plugins
	go build -ldflags '$(LDFLAGS)' -o bin/ ./cmd/...
	go build -ldflags '$(LDFLAGS)' -o bin/plugins/ ./contrib/plugins/...

build-nvml: ## bin/nvml/synergy, which sees GPUs: for the nodes that have them; needs a C compiler, and no GPU
	@mkdir -p bin/nvml
	$(WITH_NVML) go build -tags nvml -ldflags '$(LDFLAGS)' -o bin/nvml/ ./cmd/synergy

deft: ## bin/deft, which runs experiment files of Deft: contrib/deft/README.md
	@mkdir -p bin
	go build -ldflags '-s -w' -o bin/ ./contrib/deft

# First what minds how busy a machine is, while the images are made, which is mostly waiting for a mirror. Then all that does not, at a lower priority beside
# the live clusters.
test: ## everything: lint, unit, race, drawings, properties, scripts, and the live cluster
	@$(MAKE) --no-print-directory --jobs 2 unit image
	@$(MAKE) --no-print-directory --jobs 2 test-patient test-live

unit: vet
	@$(MAKE) --no-print-directory test-timed

image:
	@$(SUITE) "image 24.11" $(CLUSTER) image
	@[ $(SLURM) != 24.11 ] || SLURM=26.05 $(SUITE) "image 26.05" $(CLUSTER) image

# Packages that start no goroutine (tests/imports_test.go holds them to that): the race detector has nothing to find in them, and would make their many plans
# ten times slower.
SEQUENTIAL := printable gres gres/inventory sensitivity sensitivity/profiler sensitivity/profiler/replay \
	policy policy/bound policy/columns policy/snapshot policy/replay limits preflight rollout savings share share/wire \
	share/predict sim/artifact sim/trace sim/report sim/report/figure sim/outcome sim/workload \
	sim/users story page policy/forecast policy/whatif share/node share/turns \
	contrib/deft/experiment contrib/deft/testbed bridge/directive
sequential := $(SEQUENTIAL:%=./%)

# Scripts that simulate months of a cluster with the whole program, and the ledger of savings over weeks. What that does at the same time is raced in the
# tests of ./sim and ./bridge. And scripts that wait for trainers, schedulers and clocks: what they run at the same time is raced in ./profiling, ./launcher
# and ./share, and under the race detector they take three times as long.
SIMULATING := (TestSimulationsOnTheCommandLine|TestOverDays.*)
WAITING := (TestTheProfileCommand|TestDeftsExperimentsOnTheCommandLine|TestARunOfATrainer)

# Daemons that die at every call to the outside, one after the other: hundreds of stories on a virtual clock, ten times as long under the race detector.
# What a round does at the same time is raced in the other tests of ./bridge.
DYING := (TestDying.*|TestAPluginThatDiesAtAnyCallLosesNoJob)

# Packages whose tests want a processor within milliseconds, as leases, grants and freezes of GPUs do. One at a time, and the others beside them at a lower
# priority.
CLOCKED := share/broker share/client share/mps launcher profiling/local profiling/inside policy/plugin cmd/synergy-broker cmd/synergy-emujob
clocked := $(CLOCKED:%=./%)

# Packages whose tests wait for no clock, or a virtual one. Simulations are one goroutine after the other, and what the documentation has executed are other
# programs: what those do at the same time is raced in ./bridge and where they are.
PATIENT := bridge bridge/slurmrest sim sim/backfill
UNRACED := bridge/slurmtest sim/cluster sim/models sim/production tests
patient := $(PATIENT:%=./%) $(UNRACED:%=./%)

test-unit: lint test-timed test-patient ## all tests that need no Slurm, with the race detector where there are goroutines

test-timed:
	@$(MAKE) --no-print-directory --jobs 2 test-clocked test-raced
	@$(SUITE) "nvml, raced" env $(WITH_NVML) go test -race -vet=off -tags nvml ./gres/nvml
	@[ ! -e /dev/nvidia0 ] || $(MAKE) --no-print-directory test-gpu

test-clocked:
	@$(SUITE) "scripts that wait" go test -run '^$(WAITING)$$' ./cmd/synergy ./contrib/deft
	@$(SUITE) "unit, raced, clocked" env $(RACED) -vet=off -p 1 -timeout 30m $(clocked)

test-raced:
	@$(SUITE) "unit, raced" nice -n 15 env $(RACED) -vet=off -p 1 -timeout 30m -skip '^($(SIMULATING)|$(WAITING))$$' $$(go list ./... | grep -vxF "$$(go list $(clocked) $(sequential) $(patient))")

test-patient:
	@$(SUITE) lint nice -n 15 $(MAKE) --no-print-directory lint
	@$(SUITE) "unit, sequential" nice -n 15 go test -timeout 30m $(sequential) $(UNRACED:%=./%)
	@$(SUITE) "scripts that simulate" nice -n 15 go test -timeout 30m -run '^$(SIMULATING)$$' ./cmd/synergy
	@$(SUITE) "dying at each call" nice -n 15 go test -timeout 30m -run '^$(DYING)$$' $(PATIENT:%=./%)
	@$(SUITE) "rounds and simulator, raced" nice -n 15 env $(RACED) -vet=off -p 2 -timeout 30m -skip '^$(DYING)$$' $(PATIENT:%=./%)

test-gpu: ## the inventory and the sampler on this machine's own GPUs, and models with torch that are measured there; fails without
	$(WITH_NVML) go test -tags nvml,gpu -count=1 -v -run TestTheGPUsOfThisMachine ./gres/nvml
	TORCH_PYTHON=$(TORCH_PYTHON) go test -tags gpu -count=1 -v -timeout 20m -run TestModelsOnThisMachinesGPU ./cmd/synergy

test-page: ## the daemon's pages in a headless Chromium: live, readable, refused nothing by their own policy; fails without (apt-get install chromium)
	go test -tags browser -count=1 -v -run Chromium ./cmd/synergy-slurmd

vet:
	@unformatted=$$(gofmt -l $$(git ls-files '*.go')); [ -z "$$unformatted" ] || { echo "gofmt would change: $$unformatted"; exit 1; }
	go vet ./...
	go vet -tags live,bench,fidelity,faults,browser,packages,preload ./...

lint: vet ## gofmt, go vet, staticcheck, go.mod, unreachable functions
	$(WITH_NVML) go vet -tags nvml,gpu ./gres/nvml ./cmd/synergy
	go run $(STATICCHECK) ./...
	$(WITH_NVML) go run $(STATICCHECK) -tags nvml,gpu ./gres/nvml
	go mod tidy -diff
	@dead=$$(go run $(DEADCODE) -test -tags live,bench,fidelity,faults,packages,preload ./...) && [ -z "$$dead" ] || { echo "nobody calls: $$dead"; exit 1; }

test-live: build build-nvml deft ## the live suites on clusters of their own, side by side; SLURM=26.05 for all of them on that
	@$(CLUSTER) image
	@$(MAKE) --no-print-directory --jobs 3 --output-sync=target test-live-trust test-live-rounds test-live-limits test-live-site $(if $(filter 24.11,$(SLURM)),test-live-next) test-live-share test-live-seldom

# Live tests mostly wait, for leases, daemons, Slurm's parts and jobs, so three clusters at a time cost little more than one. By file: what becomes of a cluster when something is away, the jobs that people submit, whose turn it is under which limits, jobs on one GPU, for
# which each GPU has a type of its own, starts at Slurm's own intervals, and what needs PyTorch. All others are in test-live-rounds.
TRUST := leader failsopen faults_short kills rollout systemd soak
SITE := arrays ask power check examples frameworks gate gate_lua interactive lua prometheus steps
LIMITS := citizen differential grid limits loan partitions preempt shapes
SHARE := share share_kills share_offence share_run
SELDOM := seldom
TORCH_TESTS := training
tests-of = $(shell grep -ho '^func Test[A-Za-z0-9_]*' $(1:%=tests/live/%_test.go) | cut -c6- | paste -sd'|')
live = $(SUITE) "live$(1)" tests/live/with-cluster.sh $(LIVE)$(1) $(LIVE_LEASE) go test -tags live -count=1 -v -p 1 -timeout 45m

test-live-rounds: # all the others
	@$(call live) -skip '^($(call tests-of,$(TRUST) $(SITE) $(LIMITS) $(SHARE) $(SELDOM) $(TORCH_TESTS))|$(DEVICES))$$' ./tests/live ./bridge/slurmrest ./bridge/conformance

test-live-trust:
	@$(call live,-trust) -run '^($(call tests-of,$(TRUST)))$$' ./tests/live

test-live-site:
	@$(call live,-site) -run '^($(call tests-of,$(SITE)))$$' ./tests/live

test-live-limits:
	@$(call live,-limits) -run '^($(call tests-of,$(LIMITS)))$$' ./tests/live

test-live-seldom: # starts, where Slurm's schedulers look as often as by default
	@INTERVALS=slurm $(call live,-seldom) -run '^($(call tests-of,$(SELDOM)))$$' ./tests/live

DEVICES := TestSlurmrestSeatsJobsOnDevices

test-live-share:
	@NODE_DEVICES=yes NODES=2 NODE_GPUS=4 $(call live,-share) -run '^($(call tests-of,$(SHARE))|$(DEVICES))$$' ./tests/live ./bridge/conformance

# What differs between Slurms, on the newest: every promise over both versions of the API, shapes of requests and what becomes of them, environments,
# plugins of others.
NEXT := TestWhatTheWordChanges|TestStepsOfAPart|TestWhateverPlainSlurmStarts|TestAPluginForAnother

test-live-next:
	@SLURM=26.05 $(SUITE) live-next tests/live/with-cluster.sh $(LIVE)-next $(LIVE_LEASE) go test -tags live -count=1 -v -p 1 -timeout 30m -run '$(NEXT)|TestSlurmrestKeeps' \
		./bridge/conformance ./tests/live

# On one Slurm is enough: what it shows is of the Python package. It is no part of make test: on two cores that have other work a training is not disturbed as
# often as the test wants before it ends.
test-live-torch: build ## a real training under the daemon, disturbed, and the Python package's tests with torch, on a cluster that has it
	@TORCH=yes $(CLUSTER) image
	@TORCH=yes $(call live,-torch) -run '^($(call tests-of,$(TORCH_TESTS)))$$' ./tests/live

bench: ## in-process benchmarks: Decide, decoding, Diff, simulations, a turn on a GPU
	go test -run '^$$' -bench . -benchmem ./policy ./bridge ./bridge/slurmrest ./bridge/plugin ./sim/production ./sim/artifact ./sim/workload ./sim/trace ./share/broker

bench-live: build ## 60 emulated jobs under Slurm alone, under synergy-slurmd, and with no profile files, on the same cluster
	@tests/live/with-cluster.sh synergy-bench 600 go test -tags live,bench -count=1 -v -timeout 60m -run TestBench ./tests/live

fidelity: build ## the same 60 jobs on the cluster and in synergy sim, job by job
	@tests/live/with-cluster.sh synergy-fidelity 600 go test -tags live,fidelity -count=1 -v -timeout 60m -run TestTheSimulatorAgrees ./tests/live

fidelity-backfill: build ## 80 short jobs under Slurm alone on the cluster and in synergy sim: how long do they wait? (SEED=7)
	@tests/live/with-cluster.sh synergy-backfill 600 go test -tags live,fidelity -count=1 -v -timeout 30m -run TestTheBackfillThatIs ./tests/live

fuzz: ## each fuzz target for FUZZTIME (default 30s)
	@tests/fuzz.sh $(or $(FUZZTIME),30s)

clean: ## what builds and tests left behind, images included
	rm -rf bin build dist
	@$(CLUSTER) clean
