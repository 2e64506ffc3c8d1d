# How much of Slurm the daemon takes, how large a cluster it holds, and whether it leaves anything behind: docs/performance.md has the
# figures. None of these is part of make test; a short soak is.

BENCH := go test -tags live,bench -count=1 -v -timeout 60m

.PHONY: bench-gentle bench-citizen bench-scale soak

bench-gentle: build ## what rounds ask of slurmrestd and slurmctld with 100, 1,000 and 5,000 jobs waiting, and 9,900 of one user at once
	@tests/live/with-cluster.sh synergy-gentle 600 $(BENCH) -run 'TestGentle|TestAFlood' ./tests/live

bench-citizen: build ## what opting in costs: how long the same jobs wait with the word and without, and how long one takes on an idle cluster
	@tests/live/with-cluster.sh synergy-citizen 60 $(BENCH) -run TestCitizen ./tests/live

bench-scale: build ## 64 nodes of 8 GPUs, 512 jobs running and 5,000 waiting
	@NODES=64 PER_CONTAINER=16 MIN_JOB_AGE=300 tests/live/with-cluster.sh synergy-scale 900 $(BENCH) -run TestSixtyFourNodes ./tests/live

soak: build ## 2,000 short jobs through four nodes: is all flat afterwards?
	@MIN_JOB_AGE=60 tests/live/with-cluster.sh synergy-soak 30 $(BENCH) -run TestTwoThousandShortJobs ./tests/live
