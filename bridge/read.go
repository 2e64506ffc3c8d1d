package bridge

import (
	"fmt"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/policy"
	"github.com/synergy-slurmd/synergy-slurmd/sensitivity"
	"github.com/synergy-slurmd/synergy-slurmd/sensitivity/learned"
)

// managedJob is a job as a round takes it up: with what its comment says, what is remembered of it, and how it runs.
type managedJob struct {
	*Job
	said  *comment
	ours  bool   // it carries our directive and is in a managed partition
	alone string // why a round does not touch it all the same

	annotation *annotation          // what its extra field says; nil: not read yet
	written    string               // what we wrote there last, as far as the runner knows
	since      time.Time            // when its run began, by Slurm's clock as it goes now
	holds      *policy.Placement    // while it runs
	wouldHold  *policy.Placement    // what it would hold, in the shadow
	unsaved    *policy.Placement    // likewise, if nobody had declared a checkpoint
	saved      *policy.Placement    // likewise, if everybody had
	matched    bool                 // it says nothing, and is taken to by a rule, in the shadow
	topology   *topology            // in which the rest was worked out
	on         []int                // the nodes that it holds, as the topology counts them
	profile    *sensitivity.Profile // nil: none that can be used
	gain       float64              // at which it runs; 0 while it waits
	note       string               // what its user should mend
	doubt      string               // why its report is ignored
	ignored    Ignored              // what of it, where there is a doubt
	// iterations/s in the window of reports that ended with this observation; 0: none did
	ran     float64
	claimed float64 // what its profile said of that window; 0: nothing
	drifted bool    // what was learned does not fit this job

	bar  bar      // why it may not start in the round under way, whatever is free
	shut []string // of the partitions that it may start in those which it must not, in the round under way

	// record is what is remembered of it up to the observation, and while the round acts up to what was seen since.
	record *Record
}

// comment is what the comment of a job says.
type comment struct {
	text    string
	managed bool
	word    Word
	wrong   error   // with the word
	asks    *lookup // for its profile; nil: for none that could be had

	reports  bool // how far the job has come
	progress Progress
	unclear  error // the report

	curve   Curve // that the job measured of itself
	unclean error // the curve
}

// lookup is what was found under the name of a profile.
type lookup struct {
	name    string
	sight   int // when that was
	profile *sensitivity.Profile
	err     error
}

// reader knows the jobs of the last observation, so that a round reads only what has changed. It believes nothing
// before it has compared what that rests on; to lose it costs time and nothing else.
type reader struct {
	sight    int // counts observations
	topology *topology
	nodes    []Node        // ascending in name
	divided  division      // the last observation
	jobs     []*managedJob // ascending in ID
	lookups  map[string]*lookup
	lessons  map[learned.Key]*lesson
}

// spare is how many lookups of names that are gone may be kept, beyond as many as there are jobs.
const spare = 64

// read reads the jobs of an observation.
func (r *Runner) read(jobs []*Job) []*managedJob {
	last, now := r.reader.jobs, make([]*managedJob, 0, len(jobs))
	for _, j := range jobs {
		for len(last) > 0 && last[0].ID < j.ID {
			last = last[1:]
		}
		switch {
		case len(last) == 0 || last[0].ID != j.ID:
			now = append(now, r.readJob(j, &managedJob{}))
		case last[0].Job != j:
			now = append(now, r.readJob(j, last[0]))
		default:
			now = append(now, last[0])
		}
	}
	r.reader.jobs = now
	return now
}

// readJob reads a job that has changed. What was read of it before stands where the text is the same.
func (r *Runner) readJob(j *Job, before *managedJob) *managedJob {
	t := &managedJob{Job: j, said: before.said, written: before.written}
	if t.said == nil || t.said.text != j.Comment || before.matched {
		t.said = r.readComment(j.Comment)
	}
	if said := (matching{r}).said(t); said != nil {
		t.said, t.matched = said, true
	}
	if before.annotation != nil && before.Extra == j.Extra && before.Request.GPUs == j.Request.GPUs &&
		before.Request.Shard == j.Request.Shard && before.Request.GRES == j.Request.GRES &&
		before.Request.GPUType == j.Request.GPUType {
		t.annotation = before.annotation
	}
	t.ours = j.State != Finished && t.said.managed && r.manages(j.Partition)
	if j.State == Running {
		t.since = j.Started
		if before.Job != nil && before.State == Running && before.Started.Equal(j.Started) {
			t.since = before.since
		}
		t.holds = &policy.Placement{Nodes: j.Runs.Nodes, PerNode: j.Runs.PerNode, Device: j.Runs.Shard}
	}
	return t
}

func (r *Runner) readComment(text string) *comment {
	c := &comment{text: text, managed: Managed(text)}
	c.word, c.wrong = ParseComment(text)
	if c.reports = Reports(text); c.reports {
		c.progress, c.unclear = ParseProgress(text)
	}
	c.curve, c.unclean = ParseCurve(text)
	if c.wrong == nil && c.word.Profile != "" {
		c.asks = r.reader.lookup(c.word.Profile)
	}
	return c
}

// lookup is the one for that name. When there are many of names that nobody asks for any more, all are forgotten.
func (r *reader) lookup(name string) *lookup {
	if r.lookups == nil || len(r.lookups) > 2*len(r.jobs)+spare {
		r.lookups = map[string]*lookup{}
	}
	if r.lookups[name] == nil {
		r.lookups[name] = &lookup{name: name}
	}
	return r.lookups[name]
}

// annotated is what the job's extra field says.
func (t *managedJob) annotated() *annotation {
	if t.annotation == nil {
		s := readAnnotation(t.Job)
		t.annotation = &s
	}
	return t.annotation
}

// told says that the job carries an annotation of ours: it has been told why it waits.
func (t *managedJob) told() bool {
	return t.written != "" && t.Extra == t.written || t.annotated().Job == t.ID
}

// equip looks the profile of a managed job up, and with it how fast the job runs. Whatever is wrong with its word or
// the profile costs it no more than that: it then gets the proportional share, and its user is told why. So does one
// whose profile its own speed contradicts.
func (r *Runner) equip(t *managedJob) {
	profile, err := r.profile(t)
	t.note = ""
	if err != nil {
		t.note = fmt.Sprintf("gets the proportional share: %v", err)
	}
	if found := r.found(t); found != nil && profile != nil {
		profile, t.note = nil, found.String()
	}
	if refused := (seating{r}).shareRefused(t); refused != "" && t.note == "" {
		t.note = "is put on no GPU that others use: " + refused
	}
	if t.topology == r.reader.topology && t.profile == profile {
		return
	}
	t.topology, t.profile = r.reader.topology, profile
	if t.State == Running {
		t.on = t.topology.find(t.Runs.Nodes)
		t.gain = t.gainNow()
	}
}

// profile is the one that a job's comment asks for. Each is looked up once in a round, whoever asks.
func (r *Runner) profile(t *managedJob) (*sensitivity.Profile, error) {
	if t.said.wrong == nil && t.said.word.Auto {
		return learner{r}.taught(t)
	}
	l := t.said.asks
	if l == nil {
		return nil, t.said.wrong
	}
	if l.sight != r.reader.sight {
		l.sight = r.reader.sight
		l.profile, l.err = r.Profiles(l.name)
	}
	return l.profile, l.err
}
