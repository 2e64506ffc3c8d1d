package main

import (
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestWhatIf(t *testing.T) { testscript.Run(t, testscript.Params{Dir: "testdata/whatif"}) }
