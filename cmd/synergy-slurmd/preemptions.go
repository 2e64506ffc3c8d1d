package main

import (
	"fmt"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"
)

// preemptions reads how many running jobs a round may stop: a number, a part of the cluster's GPUs as 5%, or "20 or
// 5%", of which the larger counts.
func preemptions(c *Config, value *yaml.Node) error {
	text, err := scalar(value)
	if err != nil {
		return err
	}
	number, part, both := strings.Cut(text, " or ")
	if !both && strings.HasSuffix(text, "%") {
		number, part = "0", text
	}
	n, err := strconv.Atoi(number)
	share, ok := 0.0, err == nil && n >= 0 && n <= 100_000
	if ok && part != "" || both {
		x, err := strconv.ParseFloat(strings.TrimSuffix(part, "%"), 64)
		ok = ok && err == nil && strings.HasSuffix(part, "%") && x >= 0.1 && x <= 100 // NaN fails
		share = x / 100
	}
	if !ok {
		return fmt.Errorf(
			"%q: want a whole number from 0 to 100000, a percentage of the GPUs from 0.1%% to 100%%, or both "+
				"as \"20 or 5%%\", of which the larger counts",
			text,
		)
	}
	c.Rules.MaxPreemptions, c.PreemptionShare = n, share
	return nil
}
