package main

import (
	"testing"

	"go.yaml.in/yaml/v4"
)

func TestPreemptionsAreANumberOrAPartOfTheGPUsOrBoth(t *testing.T) {
	for text, want := range map[string]struct {
		number int
		share  float64
		ok     bool
	}{
		"20": {20, 0, true}, "0": {0, 0, true}, "5%": {0, 0.05, true}, "20 or 5%": {20, 0.05, true},
		"100%": {0, 1, true}, "0%": {}, "101%": {}, "NaN%": {}, "-1": {}, "5 or 20": {}, "20 or": {}, "%": {},
		"many":     {},
		"5% or 20": {}, "-1 or 5%": {}, "20 or ": {},
	} {
		var c Config
		err := preemptions(&c, &yaml.Node{Kind: yaml.ScalarNode, Value: text})
		if (err == nil) != want.ok {
			t.Errorf("%q: %v", text, err)
		}
		if c.Rules.MaxPreemptions != want.number || c.PreemptionShare != want.share {
			t.Errorf("%q is %d and %g, want %d and %g", text, c.Rules.MaxPreemptions, c.PreemptionShare, want.number,
				want.share)
		}
	}
}
