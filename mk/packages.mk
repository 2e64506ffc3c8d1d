# Packages for Debian and for those with rpm, into dist/: docs/operations.md says what is in them and what happens when
# they are installed. nfpm writes both kinds without the tools of either. The same commit gives the same files, byte by
# byte, wherever compilers are the same.

# The last release that GOPROXY serves whole.
NFPM := go run github.com/goreleaser/nfpm/v2/cmd/nfpm@v2.45.2
DIST := dist
PARTS := build/packages
PACKAGES := synergy-slurmd synergy synergy-node synergy-spank

# All times in packages are the commit's.
export SOURCE_DATE_EPOCH ?= $(shell git log -1 --format=%ct 2>/dev/null || echo 0)
BUILD_DATE := $(shell date -u -d @$(SOURCE_DATE_EPOCH) +%F)

# The plugin is loaded by one release of Slurm only, so its package's version says which: that of the headers, or of the
# cluster in containers.
SLURM_NUMBER = $(shell sed -n 's/^\#define SLURM_VERSION_NUMBER *0x\(....\).*/\1/p' \
	$(HEADERS)/slurm/slurm_version.h 2>/dev/null)
PLUGIN_SLURM = $(if $(SLURM_NUMBER),$(shell printf '%d.%02d' $$((0x$(SLURM_NUMBER) >> 8)) \
	$$((0x$(SLURM_NUMBER) & 255))),$(SLURM))

.PHONY: packages package-parts older test-packages

packages: package-parts ## deb and rpm of the daemon, the tool, the nodes' part and the SPANK plugin, into dist/
	@rm -rf $(DIST) && mkdir -p $(DIST)
	@for package in $(PACKAGES); do for packager in deb rpm; do \
		suffix=; [ $$package != synergy-spank ] || suffix=+slurm$(PLUGIN_SLURM); \
		ARCH=$$(go env GOARCH) VERSION=$(VERSION)$$suffix GLIBC=$$($(GLIBC)) \
			$(NFPM) package --config packaging/$$package.yaml --packager $$packager --target $(DIST)/ || exit 1; \
	done; done

# What is in them that has to be made first.
package-parts: build build-nvml spank
	@rm -rf $(PARTS) && mkdir -p $(PARTS)/bin $(PARTS)/nvml $(PARTS)/completions
	@cp bin/synergy bin/synergy-slurmd bin/synergy-broker $(PARTS)/bin/ && cp bin/nvml/synergy $(PARTS)/nvml/ && cp $(PLUGIN) $(PARTS)/
	@for program in synergy synergy-slurmd; do \
		$(PARTS)/bin/$$program manual --date $(BUILD_DATE) $(PARTS)/man && \
		$(PARTS)/bin/$$program completion bash >$(PARTS)/completions/$$program.bash && \
		$(PARTS)/bin/$$program completion zsh >$(PARTS)/completions/_$$program && \
		$(PARTS)/bin/$$program completion fish >$(PARTS)/completions/$$program.fish || exit 1; \
	done
	@$(PARTS)/bin/synergy-broker manual --date $(BUILD_DATE) $(PARTS)/man/node
	@gzip -9n $(PARTS)/man/*.[18] $(PARTS)/man/node/*

# The oldest C library that has all symbols which the build with NVML asks for.
GLIBC := objdump -T $(PARTS)/nvml/synergy | grep -o 'GLIBC_[0-9.]*' | cut -d_ -f2 | sort -Vu | tail -n 1

# A release that never was, with another configuration: what is upgraded from.
older: packages
	@mkdir -p $(PARTS)/older
	@{ cat etc/synergy-slurmd.yaml; echo '# That is all.'; } >$(PARTS)/older/synergy-slurmd.yaml
	@sed 's#src: etc/synergy-slurmd.yaml#src: $(PARTS)/older/synergy-slurmd.yaml#' packaging/synergy-slurmd.yaml \
		>$(PARTS)/older/nfpm.yaml
	@for packager in deb rpm; do \
		ARCH=$$(go env GOARCH) VERSION=v0.2.99 $(NFPM) package \
			--config $(PARTS)/older/nfpm.yaml --packager $$packager --target $(PARTS)/older/ || exit 1; \
	done

# rpm itself is fetched onto that Debian from its mirror, which the image of the cluster needs as well.
test-packages: older ## the packages on a Debian beside a cluster: installed, upgraded, removed, purged, by dpkg and by rpm; a newcomer's walk
	@NODES=1 tests/live/with-cluster.sh synergy-packages 600 go test -tags live,packages -count=1 -v -timeout 15m \
		-run TestPackages ./tests/live
