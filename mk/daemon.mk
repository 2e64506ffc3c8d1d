# synergy-slurmd on the cluster in containers, to be watched; on a real site etc/synergy-slurmd.service starts it.

ROUND ?= 10s
FLAGS ?=
DAEMON_DIR := /shared/synergy

.PHONY: daemon

daemon: build ## synergy-slurmd on the cluster, in the foreground (ROUND=10s FLAGS=--shadow)
	@$(CLUSTER) exec login synergy tee $(DAEMON_DIR)/synergy-slurmd.yaml < contrib/docker-slurm/synergy-slurmd.yaml > /dev/null
	@$(CLUSTER) exec login synergy /opt/synergy/bin/synergy-slurmd --config $(DAEMON_DIR)/synergy-slurmd.yaml \
		--round $(ROUND) --slurmrestd http://slurmrestd:6820 --token-file $(DAEMON_DIR)/token --ledger $(DAEMON_DIR)/ledger \
		--log-format console $(FLAGS)
