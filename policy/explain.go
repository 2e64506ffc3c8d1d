package policy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
)

// answer is why a job waits.
type answer struct {
	reason Reason
	why    string
}

// explain tells every job that waits the one reason: what would have to be different for it to run.
func (b *board) explain() {
	for i := range b.seats {
		if s := &b.seats[i]; s.standing == waits && !s.stopped {
			s.told = b.reasonFor(i)
		}
	}
}

// faster says what a job that grows restarts for.
func (b *board) faster(i int, to Placement) string {
	j, s := b.jobs[i], &b.seats[i]
	verb := "restarts"
	if !slices.Equal(j.Running.Nodes, to.Nodes) {
		verb = "moves"
	}
	return fmt.Sprintf("%s to train %.2f× as fast", verb, s.gain/s.was)
}

func (b *board) reasonFor(i int) *answer {
	if why := b.jobs[i].Barred; why != "" {
		return &answer{Barred, why}
	}
	s := &b.seats[i]
	told := &s.kind.told[s.limit]
	if told.reason == "" {
		*told = b.lacks(i)
	}
	return told
}

// lacks finds out what is missing for job i.
func (b *board) lacks(i int) answer {
	j, k := b.jobs[i], b.seats[i].kind
	if len(k.ways) == 0 {
		return answer{Shape, noWay(j, k.zone.largest)}
	}
	w := k.ways[0]
	c := b.survey(i, w)
	switch {
	case c.able < w.nodes:
		return answer{Shape, c.tooFew(j, w)}
	case c.able-c.closed < w.nodes:
		return answer{Closed, fmt.Sprintf("needs %s, and %s closed (%s)", nodesWith(w), c.shut(w), c.example)}
	case b.seats[i].limit == byRule:
		return answer{Limit, "would fit in the place of others, but the rules allow no more jobs to be stopped in this round"}
	case b.seats[i].limit == byCost:
		return answer{Limit, "would fit in the place of others, but their restarts would cost more than it would gain"}
	case c.free < j.GPUs:
		return answer{Turn, fmt.Sprintf("%s free, it needs %d; none of the jobs that run has to give way to it",
			are(c.free, "GPU"), j.GPUs)}
	case c.enough < w.nodes:
		return answer{Gang, c.scattered(w)}
	case c.barred > 0:
		return answer{HeldBack, fmt.Sprintf("what is free is kept for job %d, which has waited too long; "+
			"only a job that declares a checkpoint may use it meanwhile", b.jobs[b.reserved.job].ID)}
	}
	return c.starved(w)
}

func noWay(j *Job, largest int) string {
	if largest == 0 {
		return "needs GPUs" + qualities(j) + ", and no node that it may use has any"
	}
	return fmt.Sprintf("%d GPUs cannot be divided equally over %d nodes", j.GPUs, j.Nodes)
}

// survey is what the nodes that suit a job could give it.
type survey struct {
	wide    int         // nodes that have GPUs enough
	need    gres.Vector // on one of them
	able    int         // of those, the ones that could hold their part of the job if they were empty
	closed  int         // of those
	example string      // one of them, and why
	free    int         // GPUs that are free on open nodes
	most    int         // on one of them
	enough  int         // open nodes where GPUs enough are free
	barred  int         // of those, the ones that are kept for another job
	short   *server
	lack    gres.Vector // what is missing there
}

func (b *board) survey(i int, w way) survey {
	var c survey
	z := b.seats[i].kind.zone
	for n := range b.servers {
		sv := &b.servers[n]
		if !z.servers.has(n) {
			continue
		}
		if sv.Closed == "" {
			c.free += max(sv.open().GPUs, 0)
			c.most = max(c.most, sv.open().GPUs)
		}
		if sv.Total.GPUs >= w.gpus {
			c.wide++
			b.inspect(&c, i, w, n)
		}
	}
	return c
}

// inspect adds a server with GPUs enough for a part of job i.
func (b *board) inspect(c *survey, i int, w way, n int) {
	sv, need := &b.servers[n], b.least(i, w, n).Size
	c.need = need
	if !need.Fits(sv.Total) {
		return
	}
	c.able++
	lack := need.Minus(sv.open())
	switch {
	case sv.Closed != "":
		c.closed++
		c.example = fmt.Sprintf("%s: %s", sv.Name, sv.Closed)
	case lack.GPUs > 0:
	case covered(lack) && b.bars(b.seats[i].kind, n):
		c.enough++
		c.barred++
	case covered(lack):
		c.enough++
	default:
		c.enough++
		if c.short == nil || lack.CPUs < c.lack.CPUs {
			c.short, c.lack = sv, lack
		}
	}
}

// shut says which of the nodes that could hold a job are closed.
func (c *survey) shut(w way) string {
	hold := "that could hold it"
	if w.nodes > 1 {
		hold = "that could hold part of it"
	}
	switch {
	case c.able == 1:
		return "the only one " + hold + " is"
	case c.closed == c.able:
		return fmt.Sprintf("the %d %s are", c.able, hold)
	case c.closed == 1:
		return fmt.Sprintf("1 of the %d %s is", c.able, hold)
	}
	return fmt.Sprintf("%d of the %d %s are", c.closed, c.able, hold)
}

func (c *survey) tooFew(j *Job, w way) string {
	if c.wide >= w.nodes {
		return fmt.Sprintf("needs %s on %s, more than there is", c.need, count(w.nodes, "node"))
	}
	return fmt.Sprintf("needs %s%s, and there %s among those that it may use", nodesWith(w), qualities(j), be(c.able, "such node"))
}

// qualities are what j wants of a node beside its GPUs.
func qualities(j *Job) string {
	wants := j.Features
	if j.GPUType != "" {
		wants = append([]string{j.GPUType}, wants...)
	}
	if len(wants) == 0 {
		return ""
	}
	return " (" + strings.Join(wants, ", ") + ")"
}

func (c *survey) scattered(w way) string {
	if w.nodes == 1 {
		return fmt.Sprintf("no node has %s: of %d at most %d are on one node", count(w.gpus, "free GPU"), c.free, c.most)
	}
	return fmt.Sprintf("needs %s free on each of %d equal nodes, and %s so many", count(w.gpus, "GPU"), w.nodes, have(c.enough))
}

// starved says what is missing where GPUs enough are free.
func (c *survey) starved(w way) answer {
	switch {
	case c.short == nil:
		return answer{Gang, fmt.Sprintf("needs %d equal nodes, and those with %s are of different kinds", w.nodes,
			count(w.gpus, "free GPU"))}
	case c.lack.CPUs > 0:
		return answer{Cores, fmt.Sprintf("%s has %s, but is %s short", c.short.Name, count(w.gpus, "free GPU"),
			count(c.lack.CPUs, "core"))}
	}
	return answer{RAM, fmt.Sprintf("%s has %s, but is %s of memory short", c.short.Name, count(w.gpus, "free GPU"), c.lack.Memory)}
}

func nodesWith(w way) string {
	text := count(w.nodes, "node") + " with " + count(w.gpus, "GPU")
	if w.nodes > 1 {
		text += " each"
	}
	return text
}

// have says that only so many do.
func have(n int) string {
	switch n {
	case 0:
		return "none has"
	case 1:
		return "only 1 has"
	}
	return fmt.Sprintf("only %d have", n)
}

// be says that there are so many.
func be(n int, thing string) string {
	if n < 2 {
		return "is " + count(n, thing)
	}
	return "are " + count(n, thing)
}

// are says that so many of them are something.
func are(n int, thing string) string {
	if n < 2 {
		return count(n, thing) + " is"
	}
	return count(n, thing) + " are"
}

func count(n int, thing string) string {
	switch n {
	case 0:
		return "no " + thing
	case 1:
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
