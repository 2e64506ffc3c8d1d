# The Slurm cluster in containers; docs/cluster.md has the whole story.

PROJECT ?= synergy
NODES ?= 4
LEASE ?= 900
SLURM ?= 24.11
TORCH ?= no
export PROJECT NODES LEASE SLURM TORCH

CLUSTER := contrib/docker-slurm/cluster.sh

.PHONY: cluster-up cluster-down cluster-status cluster-logs shell

cluster-up: ## start the cluster and wait until jobs can run; SLURM=24.11 or 26.05, TORCH=yes for PyTorch in it
	@$(CLUSTER) up

cluster-down: ## remove the cluster: containers, volumes, network
	@$(CLUSTER) down

cluster-status: ## containers and nodes
	@$(CLUSTER) status

cluster-logs: ## the last lines of every role
	@$(CLUSTER) logs --tail 50

shell: ## a shell as alice on the login role
	@$(CLUSTER) shell
