# How much of Slurm the daemon takes, how large a cluster it holds, and whether it leaves anything behind: docs/performance.md has the
# figures. None of these is part of make test; a short soak is.

BENCH := go test -tags live,bench -count=1 -v -timeout 60m

# Slurm's schedulers look as often as by default. INTERVALS=short is what the tests have, and what benches in compressed time need.
LOOKS := INTERVALS=$(or $(INTERVALS),slurm)

.PHONY: bench-gentle bench-citizen bench-scale soak

bench-gentle: build ## what rounds ask of slurmrestd and slurmctld with 100, 1,000 and 5,000 jobs waiting, and 9,900 of one user at once
	@$(LOOKS) tests/live/with-cluster.sh synergy-gentle 600 $(BENCH) -run 'TestGentle|TestAFlood' ./tests/live

bench-citizen: build ## what opting in costs: how long the same jobs wait with the word and without, and how long one takes on an idle cluster
	@$(LOOKS) tests/live/with-cluster.sh synergy-citizen 60 $(BENCH) -run TestCitizen ./tests/live

# Clusters have 4 otherwise.
SCALE = $(if $(filter 4,$(NODES)),64,$(NODES))

bench-scale: build ## 64 nodes of 8 GPUs, 512 jobs running and 5,000 waiting; NODES=512: BUSY_WAITING="1000 5000 10000 20000", with and without the daemon
	@$(LOOKS) NODES=$(SCALE) PER_CONTAINER=$(if $(filter-out 64,$(SCALE)),128,16) MIN_JOB_AGE=300 tests/live/with-cluster.sh synergy-scale 900 \
		$(subst 60m,240m,$(BENCH)) -run '$(if $(filter-out 64,$(SCALE)),TestABusySite,TestSixtyFourNodes)$$' ./tests/live

soak: build ## 2,000 short jobs through four nodes: is all flat afterwards?
	@MIN_JOB_AGE=60 tests/live/with-cluster.sh synergy-soak 30 $(BENCH) -run TestTwoThousandShortJobs ./tests/live
