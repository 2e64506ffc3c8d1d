//go:build !nvml || !cgo

package nvml

import "errors"

// errNotBuilt says what to do, since the program looks the same either way.
var errNotBuilt = errors.New(
	"this build of synergy cannot see GPUs: it is compiled without NVIDIA's library, as the static binaries are; " +
		"make build-nvml makes one that can, bin/nvml/synergy, for the nodes that have GPUs")

func open() (library, error) { return nil, errNotBuilt }
