# The simulator; docs/simulator.md has the whole story.

SIM ?=
TRACES ?=

.PHONY: sim

sim: ## three allocators next to each other on a small workload, in a moment (SIM='--policy las')
	@go run ./cmd/synergy sim $(SIM)

.PHONY: paper

paper: ## the paper's claims next to both engines: a quarter of an hour of a core (TRACES=folder of the published ones)
	@go run ./tests/paper $(TRACES)

.PHONY: bench-backfill

bench-backfill: ## Slurm's order with Tune next to Slurm's own backfill, over traces that are drawn and LOGS, in the format recorded; fails if worse by 2 %
	@go run ./tests/bench/backfill $(LOGS)
