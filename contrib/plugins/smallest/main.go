// Command smallest is a planner plugin with a policy of its own: jobs with few GPUs go first, and among them those that have run least.
package main

import (
	"github.com/synergy-slurmd/synergy-slurmd/policy"
	"github.com/synergy-slurmd/synergy-slurmd/policy/plugin"
)

func main() {
	smallest := policy.By("smallest", func(_ *policy.Cluster, j *policy.Job) float64 {
		hours := j.Attained / 3600
		if j.Running != nil {
			hours-- // a restart has to be worth it
		}
		return 1000*float64(j.GPUs) + hours
	})
	plugin.Serve(plugin.Ordered(smallest, policy.Tune()))
}
