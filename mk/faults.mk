# What breaks around the daemon, live; docs/operations.md says what the log then tells, docs/reliability.md what came out.

.PHONY: test-faults test-faults-world test-faults-kills

test-faults: build ## the live faults on two clusters: Slurm, its parts, nodes, network, token, clock, disk; 100 times kill -9 (20 minutes)
	@$(CLUSTER) image
	@$(MAKE) --no-print-directory --jobs 2 --output-sync=target test-faults-world test-faults-kills

test-faults-world: # all faults but the kills
	@FAKE_CLOCK=yes tests/live/with-cluster.sh synergy-faults $(LIVE_LEASE) go test -tags live,faults -count=1 -v -timeout 30m \
		-run 'TestRoundsGoOn|TestClocks|TestADiskThat' -skip TestRoundsGoOnAfterWhatBreaks ./tests/live

test-faults-kills:
	@tests/live/with-cluster.sh synergy-kills $(LIVE_LEASE) go test -tags live,faults -count=1 -v -timeout 30m \
		-run TestKilledAHundredTimes ./tests/live
