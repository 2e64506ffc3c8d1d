# The SPANK plugin: docs/node-setup.md. It has to be built against the headers of the very Slurm that loads it: SLURM names the folder that has
# slurm/spank.h. Where there are none, it is built for the cluster in containers, inside of its image.

SLURM ?= /usr/include
PLUGIN := bin/synergy.so

.PHONY: spank

spank: ## the SPANK plugin into bin/, against SLURM=/usr/include or for the cluster in containers
	@mkdir -p bin
	@if [ -e "$(SLURM)/slurm/spank.h" ]; then \
		$(MAKE) --no-print-directory -C spank SLURM="$(SLURM)" OUT="$(CURDIR)/$(PLUGIN)"; \
	elif docker version >/dev/null 2>&1; then \
		echo "no $(SLURM)/slurm/spank.h: building for the Slurm of the cluster in containers"; \
		$(CLUSTER) spank $(PLUGIN); \
	else \
		echo "make spank: no $(SLURM)/slurm/spank.h and no Docker: install Slurm's headers (libslurm-dev, slurm-devel) or say SLURM=FOLDER" >&2; exit 1; \
	fi
