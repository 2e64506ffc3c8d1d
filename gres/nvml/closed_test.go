//go:build !nvml || !cgo

package nvml

import (
	"strings"
	"testing"
)

func TestABuildWithoutNVMLSaysHowToGetOneThatHasIt(t *testing.T) {
	if _, err := Open(Host{}); err == nil || !strings.Contains(err.Error(), "compiled without NVIDIA's library") ||
		!strings.Contains(err.Error(), "make build-nvml") {
		t.Errorf("%v", err)
	}
}
