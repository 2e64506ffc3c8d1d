package policy

import (
	"fmt"
	"strings"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
)

// sketch writes a snapshot in the notation of the drawings, so that what a property finds can be made into one.
func sketch(c Cluster) string {
	var out strings.Builder
	fmt.Fprintf(&out, "rules min-run=%g preemptions=%d patience=%g stranded=%g\n", c.Rules.MinRun.Seconds(), c.Rules.MaxPreemptions,
		c.Rules.Patience.Seconds(), c.Rules.Stranded)
	for _, n := range c.Nodes {
		fmt.Fprintf(&out, "node %s gpu=%d cpu=%d mem=%g", n.Name, n.Total.GPUs, n.Total.CPUs, gigabytes(n.Total.Memory))
		if n.Foreign != (gres.Vector{}) {
			fmt.Fprintf(&out, " foreign=gpu:%d,cpu:%d,mem:%g", n.Foreign.GPUs, n.Foreign.CPUs, gigabytes(n.Foreign.Memory))
		}
		word(&out, "type", n.GPUType)
		word(&out, "closed", n.Closed)
		word(&out, "features", strings.Join(n.Features, ","))
		fmt.Fprintln(&out)
	}
	for i := range c.Jobs {
		sketchJob(&out, c, &c.Jobs[i])
	}
	return out.String()
}

func sketchJob(out *strings.Builder, c Cluster, j *Job) {
	fmt.Fprintf(out, "job %d gpu=%d", j.ID, j.GPUs)
	word(out, "user", j.User)
	word(out, "profile", j.ProfileName)
	count := func(key string, n float64) {
		if n != 0 {
			fmt.Fprintf(out, " %s=%g", key, n)
		}
	}
	count("nodes", float64(j.Nodes))
	count("tasks", float64(j.Tasks))
	word(out, "type", j.GPUType)
	word(out, "features", strings.Join(j.Features, ","))
	word(out, "only", strings.Join(j.Only, ","))
	word(out, "except", strings.Join(j.Except, ","))
	word(out, "barred", strings.ReplaceAll(j.Barred, " ", "_"))
	if r := j.Running; r != nil {
		fmt.Fprintf(out, " runs=%s:%d:%g since=%g", strings.Join(r.Nodes, "+"), r.PerNode.CPUs, gigabytes(r.PerNode.Memory),
			c.Now.Sub(j.Started).Seconds())
	}
	if j.Saves {
		out.WriteString(" saves")
	}
	if j.Fixed {
		out.WriteString(" fixed")
	}
	fmt.Fprintf(out, " arrival=%g restart=%g", j.Arrival.Sub(c.Now).Seconds(), j.Restart.Seconds())
	count("attained", j.Attained)
	count("length", j.Length.Seconds())
	count("done", j.Done.Seconds())
	fmt.Fprintln(out)
}

func gigabytes(m gres.Memory) float64 { return float64(m) / float64(gres.Gigabyte) }

func word(out *strings.Builder, key, value string) {
	if value != "" {
		fmt.Fprintf(out, " %s=%s", key, value)
	}
}
