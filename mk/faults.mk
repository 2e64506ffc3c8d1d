# What breaks around the daemon, live; docs/operations.md says what the log then tells.

.PHONY: test-faults

test-faults: build ## the live faults: Slurm, its parts, nodes, network, token, clock, disk; 100 times kill -9 (about 20 minutes)
	@FAKE_CLOCK=yes tests/live/with-cluster.sh synergy-faults $(LIVE_LEASE) go test -tags live,faults -count=1 -v -timeout 30m \
		-run 'TestRoundsGoOn|TestClocks|TestADiskThat|TestKilledAHundredTimes' -skip TestRoundsGoOnAfterWhatBreaks ./tests/live
