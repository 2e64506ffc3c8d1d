package main

import (
	"fmt"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"
)

// preemptions reads how many running jobs a round may stop: a number, or a part of the cluster's GPUs as 5%.
func preemptions(c *Config, value *yaml.Node) error {
	text, err := scalar(value)
	if err != nil {
		return err
	}
	if part, percent := strings.CutSuffix(text, "%"); percent {
		x, err := strconv.ParseFloat(part, 64)
		if err != nil || !(x >= 0.1 && x <= 100) { // written so that NaN fails
			return fmt.Errorf("%q: want a percentage of the cluster's GPUs from 0.1%% to 100%%", text)
		}
		c.Rules.MaxPreemptions, c.PreemptionShare = 0, x/100
		return nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || n > 100_000 {
		return fmt.Errorf("%q: want a whole number from 0 to 100000, or a percentage of the cluster's GPUs as 5%%", text)
	}
	c.Rules.MaxPreemptions, c.PreemptionShare = n, 0
	return nil
}
