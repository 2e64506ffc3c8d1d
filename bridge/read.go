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
	isOurs           bool    // it has our directive and is in a managed partition
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
	// measuredSpeed is iterations a second in the window of reports that ended with this observation; 0: none did.
	measuredSpeed float64
	claimed       float64 // by its profile, for that window; 0: nothing
	drifted       bool    // what was learned does not fit this job

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
	nodes    []slurm.Node                   // ascending in name
	divided  pooledView                     // of the last observation
	jobs     []*managedJob                  // ascending in ID
	lookups  map[string]*lookup             // by name of the profile
	lessons  map[learned.Key]*cachedProfile // profiles that were learned, by user and job name
}

// spare is how many lookups are kept beyond twice the number of jobs; then all are dropped. The same bound holds for
// lessons.
const spare = 64

// read returns what rounds must know of each observed job, in the same order. Jobs whose pointer is that of the last
// observation have not changed and are taken from the cache: of ten thousand jobs only a few change between two
// observations.
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

// readJob reads a job that has changed. before is the same job in the last observation; an empty one for a new job.
// Parsed directives and annotations are taken over from it where the text from which they were parsed is the same,
// since parsing takes time.
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
	t.isOurs = j.State != slurm.Finished && t.directives.Managed && r.manages(j.Partition)
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

// profileOf is the lookup of the profile that directives name. Nil: they name none or contain a mistake, so the job
// gets the proportional share.
func (r *observationCache) profileOf(d *directive.Directives) *lookup {
	if d.Err() != nil || d.Profile == "" {
		return nil
	}
	return r.lookup(d.Profile)
}

// lookup is the cached lookup of a profile's name, shared by all jobs that name it. If there are many more lookups than
// jobs, all are dropped first, so that names of past jobs do not fill the memory.
func (r *observationCache) lookup(name string) *lookup {
	if r.lookups == nil || len(r.lookups) > 2*len(r.jobs)+spare {
		r.lookups = map[string]*lookup{}
	}
	if r.lookups[name] == nil {
		r.lookups[name] = &lookup{name: name}
	}
	return r.lookups[name]
}

// parsedAnnotation is the job's annotation; one without content if the job has none. It is parsed only when first
// needed, since most are never looked at.
func (t *managedJob) parsedAnnotation() *annotation {
	if t.annotation == nil {
		s := readAnnotation(t.Job)
		t.annotation = &s
	}
	return t.annotation
}

// hasOurAnnotation says that the job carries an annotation of ours and so shows its user why it waits; if not, a small
// round writes one. An annotation that is the one written last need not be parsed.
func (t *managedJob) hasOurAnnotation() bool {
	return t.written != "" && t.Extra == t.written || t.parsedAnnotation().Job == t.ID
}

// attachProfile looks up the profile of a managed job, and with it the job's speed. A mistake in the directive or the
// profile costs no more than the profile: the job gets the proportional share, and its user is told why (note). The
// same holds for a job whose speed contradicts its profile. The indices of its nodes and its speed are worked out anew
// only with another topology or profile.
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
		t.nodePlaces = t.topology.placesOf(t.Runs.Nodes)
		t.gain = t.gainNow()
	}
}

// profile is the one for which the job's comment asks; nil with an error if there is a mistake or no such profile, and
// nil without one if the comment names none. Each name is looked up once in an observation, so all jobs of a round see
// the same file.
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
