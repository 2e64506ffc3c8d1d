package bridge

import (
	"fmt"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge/directive"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
	"github.com/synergy-slurmd/synergy-slurmd/policy"
	"github.com/synergy-slurmd/synergy-slurmd/sensitivity"
	"github.com/synergy-slurmd/synergy-slurmd/sensitivity/learned"
)

// managedJob is a job as a round sees it: with its directives, its record, and how it runs.
type managedJob struct {
	*slurm.Job
	directives       *directive.Directives
	profileLookup    *lookup // for its profile; nil: none can be looked up
	ours             bool    // it has our directive and is in a managed partition
	untouchedBecause string  // why a round does not touch it all the same; empty: it does

	annotation       *annotation          // of its extra field; nil: not read yet
	written          string               // extra field that we wrote last, as far as the runner knows
	since            time.Time            // start of its run, by Slurm's clock as it is set now
	placement        *policy.Placement    // placement while it runs
	shadowPlacement  *policy.Placement    // placement that it would have, in shadow mode
	noSavePlacement  *policy.Placement    // the same if no job had declared a checkpoint
	allSavePlacement *policy.Placement    // the same if all jobs had
	managedByRule    bool                 // it has no directive, and is managed by a rule in shadow mode
	topology         *topology            // the one for which profile, on and gain were worked out
	nodePlaces       []int                // indices of its nodes in the topology
	profile          *sensitivity.Profile // nil: none that can be used
	gain             float64              // at which it runs; 0 while it waits
	note             string               // what its user should correct
	ignoredReason    string               // why its report is ignored; empty: it is not
	ignored          Ignored              // which report, if there is a doubt
	// ran is iterations a second in the window of reports that ended with this observation; 0: none did.
	ran     float64
	claimed float64 // by its profile, for that window; 0: nothing
	drifted bool    // what was learned does not fit this job

	bar              barReason // why it may not start in this round, even if there is room
	closedPartitions []string  // those of its partitions in which it must not start in this round

	// record is what is remembered of it: up to the observation, and while the round acts up to what was seen since.
	record *Record
}

// lookup is the result of looking up the name of a profile.
type lookup struct {
	name    string
	sight   int // number of the observation for which it was looked up
	profile *sensitivity.Profile
	err     error
}

// observationCache caches what was read of the jobs of the last observation, so that a round reads only what has
// changed. Each entry is compared with what it depends on before it is used; losing the cache costs only time.
type observationCache struct {
	sight    int // number of observations
	topology *topology
	nodes    []slurm.Node  // ascending in name
	divided  pooledView    // of the last observation
	jobs     []*managedJob // ascending in ID
	lookups  map[string]*lookup
	lessons  map[learned.Key]*cachedProfile
}

// spare is how many lookups are kept beyond twice the number of jobs; then all are dropped. The same bound holds for
// lessons.
const spare = 64

// read reads the jobs of an observation. Unchanged jobs are taken from the cache.
func (r *Runner) read(jobs []*slurm.Job) []*managedJob {
	last, now := r.cache.jobs, make([]*managedJob, 0, len(jobs))
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
	r.cache.jobs = now
	return now
}

// readJob reads a job that has changed. What depends on unchanged text is taken over from before.
func (r *Runner) readJob(j *slurm.Job, before *managedJob) *managedJob {
	t := &managedJob{
		Job:           j,
		directives:    before.directives,
		profileLookup: before.profileLookup,
		written:       before.written,
	}
	// After a rule applied, the directives are the rule's and not the comment's.
	if t.directives == nil || before.Comment != j.Comment || before.managedByRule {
		said := directive.Parse(j.Comment)
		t.directives, t.profileLookup = &said, r.cache.profileOf(&said)
	}
	if said := assumedDirectives(r, t); said != nil {
		t.directives, t.profileLookup, t.managedByRule = said, r.cache.profileOf(said), true
	}
	if before.annotation != nil && before.Extra == j.Extra && before.Request.GPUs == j.Request.GPUs &&
		before.Request.Shard == j.Request.Shard && before.Request.GRES == j.Request.GRES &&
		before.Request.GPUType == j.Request.GPUType {
		t.annotation = before.annotation
	}
	t.ours = j.State != slurm.Finished && t.directives.Managed && r.manages(j.Partition)
	if j.State == slurm.Running {
		t.since = j.Started
		if before.Job != nil && before.State == slurm.Running && before.Started.Equal(j.Started) {
			// It follows Slurm's clock when that is set (shift); Started does not.
			t.since = before.since
		}
		t.placement = &policy.Placement{Nodes: j.Runs.Nodes, PerNode: j.Runs.PerNode, Device: j.Runs.Shard}
	}
	return t
}

// profileOf is the lookup of the profile that directives name; nil: they name none, or there is a mistake in them.
func (r *observationCache) profileOf(d *directive.Directives) *lookup {
	if d.Err() != nil || d.Profile == "" {
		return nil
	}
	return r.lookup(d.Profile)
}

// lookup is the lookup for a name. If there are many more lookups than jobs, all are dropped first.
func (r *observationCache) lookup(name string) *lookup {
	if r.lookups == nil || len(r.lookups) > 2*len(r.jobs)+spare {
		r.lookups = map[string]*lookup{}
	}
	if r.lookups[name] == nil {
		r.lookups[name] = &lookup{name: name}
	}
	return r.lookups[name]
}

// parsedAnnotation is the job's annotation, which is read when it is first needed.
func (t *managedJob) parsedAnnotation() *annotation {
	if t.annotation == nil {
		s := readAnnotation(t.Job)
		t.annotation = &s
	}
	return t.annotation
}

// hasOurAnnotation says that the job carries our annotation, and so has been told why it waits. The annotation need not
// be parsed if it is the one that was written last.
func (t *managedJob) hasOurAnnotation() bool {
	return t.written != "" && t.Extra == t.written || t.parsedAnnotation().Job == t.ID
}

// attachProfile looks up the profile of a managed job, and with it the job's speed. A mistake in the directive or the
// profile costs no more than the profile: the job gets the proportional share, and its user is told why. So does a job
// whose own speed contradicts its profile. Places and speed are worked out anew only with another topology or profile.
func (r *Runner) attachProfile(t *managedJob) {
	profile, err := r.profile(t)
	t.note = ""
	if err != nil {
		t.note = fmt.Sprintf("gets the proportional share: %v", err)
	}
	if found := r.contradictionOf(t); found != nil && profile != nil {
		profile, t.note = nil, found.String()
	}
	if refused := shareRefused(r, t); refused != "" && t.note == "" {
		t.note = "is put on no GPU that others use: " + refused
	}
	if t.topology == r.cache.topology && t.profile == profile {
		return
	}
	t.topology, t.profile = r.cache.topology, profile
	if t.State == slurm.Running {
		t.nodePlaces = t.topology.find(t.Runs.Nodes)
		t.gain = t.gainNow()
	}
}

// profile is the one for which the job's comment asks. Each name is looked up once in a round.
func (r *Runner) profile(t *managedJob) (*sensitivity.Profile, error) {
	wrong := t.directives.Err()
	if wrong == nil && t.directives.Auto {
		return learnedProfile(r, t)
	}
	l := t.profileLookup
	if l == nil {
		return nil, wrong
	}
	if l.sight != r.cache.sight {
		l.sight = r.cache.sight
		l.profile, l.err = r.Profiles(l.name)
	}
	return l.profile, l.err
}
