package policy

import (
	"fmt"
	"strings"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
)

// sketch writes a snapshot in the notation of the drawings, so that what a property finds can be made into one.
func sketch(c Cluster) string {
	var out strings.Builder
	fmt.Fprintf(&out, "rules min-run=%g preemptions=%d patience=%g stranded=%g\n", c.Rules.MinRun.Seconds(),
		c.Rules.MaxPreemptions,
		c.Rules.Patience.Seconds(), c.Rules.Stranded)
	for _, q := range c.Quotas {
		fmt.Fprintf(&out, "quota %s", strings.ReplaceAll(q.Name, " ", "_"))
		for i, n := range []int{q.Jobs, q.Nodes, q.GPUs, q.CPUs} {
			if n != Unbounded {
				fmt.Fprintf(&out, " %s=%d", []string{"jobs", "nodes", "gpu", "cpu"}[i], n)
			}
		}
		if q.Memory != Unbounded {
			fmt.Fprintf(&out, " mem=%g", gigabytes(q.Memory))
		}
		fmt.Fprintln(&out)
	}
	for _, n := range c.Nodes {
		fmt.Fprintf(&out, "node %s gpu=%d cpu=%d mem=%g", n.Name, n.Total.GPUs, n.Total.CPUs, gigabytes(n.Total.Memory))
		if n.Foreign != (gres.Vector{}) {
			fmt.Fprintf(&out, " foreign=gpu:%d,cpu:%d,mem:%g", n.Foreign.GPUs, n.Foreign.CPUs,
				gigabytes(n.Foreign.Memory))
		}
		var ends []string
		for _, e := range n.ForeignEnds {
			ends = append(ends, fmt.Sprintf("%g:%d:%d:%g", e.At.Sub(c.Now).Seconds(), e.Size.GPUs, e.Size.CPUs,
				gigabytes(e.Size.Memory)))
		}
		word(&out, "ends", strings.Join(ends, ","))
		word(&out, "type", n.GPUType)
		word(&out, "closed", n.Closed)
		word(&out, "features", strings.Join(n.Features, ","))
		var reserved []string
		for _, r := range n.Reserved {
			to := ""
			if !r.To.IsZero() {
				to = fmt.Sprint(r.To.Sub(c.Now).Seconds())
			}
			reserved = append(reserved, fmt.Sprintf("%s:%g:%s", r.Name, r.From.Sub(c.Now).Seconds(), to))
		}
		word(&out, "reserved", strings.Join(reserved, ","))
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
	for _, term := range []struct {
		key string
		v   gres.Vector
	}{{"floor", j.Floor}, {"pace", j.Pace}, {"ceiling", j.Ceiling}} {
		if term.v != (gres.Vector{}) {
			fmt.Fprintf(out, " %s=%d:%g", term.key, term.v.CPUs, gigabytes(term.v.Memory))
		}
	}
	if j.PerCore {
		count("percore", 1)
	}
	count("limit", j.TimeLimit.Seconds())
	word(out, "reservation", j.Reservation)
	count("priority", float64(j.Priority))
	word(out, "quotas", strings.ReplaceAll(strings.Trim(fmt.Sprint(j.Quotas), "[]"), " ", ","))
	if r := j.Running; r != nil {
		fmt.Fprintf(out, " runs=%s:%d:%g since=%g", strings.Join(r.Nodes, "+"), r.PerNode.CPUs,
			gigabytes(r.PerNode.Memory),
			c.Now.Sub(j.Started).Seconds())
	}
	if j.Saves {
		out.WriteString(" saves")
	}
	if j.Fixed {
		out.WriteString(" fixed")
	}
	if j.Owed {
		out.WriteString(" owed")
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
