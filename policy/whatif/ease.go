package whatif

import (
	"fmt"
	"strings"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/policy"
	"github.com/synergy-slurmd/synergy-slurmd/share"
)

// Proportioned is a Request that also scales the requested cores and memory per node with the GPUs per node: half the
// GPUs of a node need half of what feeds them.
type Proportioned struct{ *Request }

// Apply changes the request, and scales the cores and memory by the GPUs per node before and after.
func (p Proportioned) Apply(c *Case) error {
	j, err := waiting(c, p.Job, "another number of GPUs or nodes")
	if err != nil {
		return err
	}
	was := perNode(c, j)
	if err := p.Request.Apply(c); err != nil {
		return err
	}
	is := perNode(c, j)
	j.Floor, j.Pace = inProportion(j.Floor, is, was), inProportion(j.Pace, is, was)
	return nil
}

func (p Proportioned) String() string {
	if p.was.Floor == (gres.Vector{}) && p.was.Pace == (gres.Vector{}) {
		return p.Request.String()
	}
	return p.Request.String() + ", with cores and memory in proportion"
}

// perNode is the number of GPUs that a job has on each node, by which Proportioned scales the rest. If the planner
// chooses the nodes it assumes the fewest, at the size of the largest node.
func perNode(c *Case, j *policy.Job) int {
	if j.Nodes > 0 {
		return j.GPUs / j.Nodes
	}
	most := max(1, largest(c))
	nodes := (j.GPUs + most - 1) / most
	return max(1, j.GPUs/max(1, nodes))
}

// inProportion scales the cores and memory for was GPUs on a node to those for is GPUs, rounded up.
func inProportion(v gres.Vector, is, was int) gres.Vector {
	if was < 1 {
		return v
	}
	v.CPUs = (v.CPUs*is + was - 1) / was
	v.Memory = (v.Memory*gres.Memory(is) + gres.Memory(was) - 1) / gres.Memory(was)
	return v
}

// Within shortens the time limit, so that the job ends before a reservation begins.
type Within struct {
	Job   int
	Limit time.Duration

	was time.Duration // its time limit now, for String; 0: none
}

// Apply sets the time limit, which must be a minute at least.
func (w Within) Apply(c *Case) error {
	j, err := waiting(c, w.Job, "another time limit")
	if err != nil {
		return err
	}
	if w.Limit < time.Minute {
		return fmt.Errorf("a time limit of %s for job %d: want a minute at least", w.Limit, w.Job)
	}
	j.TimeLimit = w.Limit
	return nil
}

func (w Within) String() string {
	if w.was == 0 {
		return "with a time limit of " + minutesText(w.Limit) + " instead of none"
	}
	return "with a time limit of " + minutesText(w.Limit) + " instead of " + minutesText(w.was)
}

// Restriction is a kind of restriction to nodes.
type Restriction int

// The restrictions: GPU type, a feature, included nodes, excluded nodes.
const (
	OfType Restriction = iota
	OfFeature
	OfNodes
	OfExcluded
)

// Without drops one restriction of a job.
type Without struct {
	Job     int
	Which   Restriction
	Feature string // for OfFeature

	was policy.Job // the job as it is, for String
}

// Apply drops the restriction, so that the job suits more nodes.
func (w Without) Apply(c *Case) error {
	j, err := waiting(c, w.Job, "to suit more nodes")
	if err != nil {
		return err
	}
	switch w.Which {
	case OfType:
		j.GPUType = ""
	case OfFeature:
		var others []string
		for _, f := range j.Features {
			if f != w.Feature {
				others = append(others, f)
			}
		}
		j.Features = others
	case OfNodes:
		j.Only = nil
	case OfExcluded:
		j.Except = nil
	}
	return nil
}

func (w Without) String() string {
	switch w.Which {
	case OfType:
		return "if any type of GPU would do for it and not " + w.was.GPUType + " alone"
	case OfFeature:
		return "if its nodes needed no feature " + w.Feature
	case OfNodes:
		return "if it might run on other nodes than " + namesText(w.was.Only) + ", by its partition and its node list"
	}
	return "if it did not exclude " + namesText(w.was.Except)
}

// namesText lists up to three names and counts the rest.
func namesText(names []string) string {
	const few = 3
	if len(names) <= few {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:few], ", "), len(names)-few)
}

// Asks lowers the cores and memory per node that a job's user asked for; 0 drops the request.
type Asks struct {
	Job  int
	Most gres.Vector // GPUs is ignored

	was gres.Vector // what it asks for now, for String
}

// Apply lowers what the job must have (Floor) and what its length was estimated from (Pace).
func (a Asks) Apply(c *Case) error {
	j, err := waiting(c, a.Job, "to ask for less cores and memory")
	if err != nil {
		return err
	}
	j.Floor, j.Pace = atMost(j.Floor, a.Most), atMost(j.Pace, a.Most)
	return nil
}

// atMost is an amount with no more cores and memory than most.
func atMost(v, most gres.Vector) gres.Vector {
	v.CPUs, v.Memory = min(v.CPUs, most.CPUs), min(v.Memory, most.Memory)
	return v
}

func (a Asks) String() string {
	var texts []string
	if a.Most.CPUs < a.was.CPUs {
		texts = append(
			texts,
			lessText(a.Most.CPUs == 0, countedNoun(a.Most.CPUs, "core"), "cores", fmt.Sprint(a.was.CPUs)),
		)
	}
	if a.Most.Memory < a.was.Memory {
		texts = append(texts, lessText(a.Most.Memory == 0, a.Most.Memory.String()+" of memory", "memory",
			a.was.Memory.String()))
	}
	return "if it asked for " + strings.Join(texts, " and for ")
}

// lessText says how much less of a resource would be asked for on each node; none says that nothing would be left of
// it.
func lessText(none bool, amount, what, was string) string {
	if none {
		return "no " + what + " by itself instead of " + was + " a node"
	}
	return amount + " a node instead of " + was
}

// Shares lets a job with one GPU share it.
type Shares struct {
	Job     int
	Request share.Request
}

// Apply sets the sharing request of a waiting job with one GPU that has none.
func (s Shares) Apply(c *Case) error {
	j, err := waiting(c, s.Job, "to share a GPU")
	switch {
	case err != nil:
		return err
	case j.GPUs != 1:
		return fmt.Errorf("job %d asks for %d GPUs: only a job with one can share it", s.Job, j.GPUs)
	case j.Share != nil:
		return fmt.Errorf("job %d may share a GPU already", s.Job)
	}
	request := s.Request
	j.Share = &request
	return nil
}

func (s Shares) String() string {
	if s.Request.Memory == 0 {
		return fmt.Sprintf("if it shared a GPU (synergy-share=%s)", s.Request.Class)
	}
	gib := int(s.Request.Memory / gibibyte)
	return fmt.Sprintf("if it shared a GPU and needed at most %d GiB of it (synergy-share=%s,mem=%d)", gib,
		s.Request.Class, gib)
}

// gibibyte is the unit of memory in the directive synergy-share, in MiB.
const gibibyte gres.Memory = 1024
