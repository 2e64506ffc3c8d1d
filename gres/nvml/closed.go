//go:build !nvml || !cgo

package nvml

import "errors"

// errNotBuilt says what to do, since such a build looks the same as one with the library.
var errNotBuilt = errors.New(
	"this build of synergy cannot see GPUs: it is compiled without NVIDIA's library, as the static binaries are; " +
		"make build-nvml makes one that can, bin/nvml/synergy, for the nodes that have GPUs")

// open always fails in a build without NVIDIA's library.
func open() (library, error) { return nil, errNotBuilt }
