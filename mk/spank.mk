# The SPANK plugin: docs/node-setup.md. It has to be built against the headers of the very Slurm that loads it: HEADERS names the folder that has
# slurm/spank.h. Where there are none, it is built for the cluster in containers, inside of its image.

HEADERS ?= /usr/include
PLUGIN := bin/synergy.so

.PHONY: spank

spank: ## the SPANK plugin into bin/, against HEADERS=/usr/include or for the cluster in containers
	@mkdir -p bin
	@if [ -e "$(HEADERS)/slurm/spank.h" ]; then \
		$(MAKE) --no-print-directory -C spank HEADERS="$(HEADERS)" OUT="$(CURDIR)/$(PLUGIN)"; \
	elif docker version >/dev/null 2>&1; then \
		echo "no $(HEADERS)/slurm/spank.h: building for Slurm $(SLURM) of the cluster in containers"; \
		$(CLUSTER) spank $(PLUGIN); \
	else \
		echo "make spank: no $(HEADERS)/slurm/spank.h and no Docker: install Slurm's headers (libslurm-dev, slurm-devel) or say HEADERS=FOLDER" >&2; exit 1; \
	fi
