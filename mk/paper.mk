# The two experiments that the paper ran on its own 32 GPUs, live; docs/paper.md has the figures. Each runs on two
# clusters at once, with Slurm alone and with the daemon. A second stands for SPEED seconds, so at 25 either takes three
# quarters of an hour. ONLY=static and ONLY=dynamic have clusters of their own, so that both can run at a time.

SPEED ?= 25
ONLY ?=
PAPER_LIVE := synergy-paper$(ONLY:%=-%)
PAPER_TESTS := TestThePapersExperiments|TestTheTimeOfAnExperiment|TestAJobThatWaitsWhile|TestTheLeastMakespan

.PHONY: bench-paper-live

bench-paper-live: build ## the paper's batch and its arrivals, live (TRACES=folder SPEED=25 ONLY=static)
	@tests/live/with-cluster.sh $(PAPER_LIVE)-alone 120 tests/live/with-cluster.sh $(PAPER_LIVE) 120 \
		env TRACES=$(and $(TRACES),$(abspath $(TRACES))) SPEED=$(SPEED) ONLY=$(ONLY) \
		go test -tags live,bench -count=1 -v -parallel 2 -timeout 8h -run '$(PAPER_TESTS)' ./tests/live
