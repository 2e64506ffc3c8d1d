// Command smallest is a planner plugin with its own policy: jobs with fewer GPUs go first, and of jobs with equally
// many, the one that has run least.
package main

import (
	"github.com/synergy-slurmd/synergy-slurmd/policy"
	"github.com/synergy-slurmd/synergy-slurmd/policy/plugin"
)

// A GPU more weighs as much as a thousand GPU-hours of running, more than a job usually has.
func main() {
	smallest := policy.By("smallest",
		func(_ *policy.Cluster, j *policy.Job) float64 { return 1000*float64(j.GPUs) + j.Attained/3600 },
		func(_ *policy.Cluster, j *policy.Job) float64 { return 1 }) // a restart is worth an hour of running
	plugin.Serve(plugin.Ordered(smallest, policy.Tune()))
}
