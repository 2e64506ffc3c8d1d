# The simulator; docs/simulator.md has the whole story.

SIM ?=

.PHONY: sim

sim: ## three allocators next to each other on a small workload, in a moment (SIM='--policy las')
	@go run ./cmd/synergy sim $(SIM)
