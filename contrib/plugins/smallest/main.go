// Command smallest is a planner plugin with a policy of its own: jobs with few GPUs go first, and among them those that
// have run least.
package main

import (
	"github.com/synergy-slurmd/synergy-slurmd/policy"
	"github.com/synergy-slurmd/synergy-slurmd/policy/plugin"
)

func main() {
	smallest := policy.By("smallest",
		func(_ *policy.Cluster, j *policy.Job) float64 { return 1000*float64(j.GPUs) + j.Attained/3600 },
		func(_ *policy.Cluster, j *policy.Job) float64 { return 1 }) // an hour: a restart has to be worth it
	plugin.Serve(plugin.Ordered(smallest, policy.Tune()))
}
