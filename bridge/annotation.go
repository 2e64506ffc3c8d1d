package bridge

import (
	"encoding/json"
	"time"
)

// annotation is what a managed job carries in its extra field, so that any later daemon, an administrator, or the user
// can see what was asked for first and why it stands as it does. Users cannot write it where the lua is installed;
// where it is not, an annotation is believed only as far as it is harmless: it must name the job, and its GPUs cannot
// differ from the job's. Nodes know an annotation by its first four fields, byte by byte (spank/words.c,
// etc/node/prolog.sh): they stay first, and in this order.
type annotation struct {
	V     int `json:"v"`   // 1
	Lua   int `json:"lua"` // 1: written at submission
	Job   int `json:"job"`
	Round int `json:"round"`
	// Why and Note are for people, who see the beginning of it in scontrol show job.
	Why  string `json:"why,omitempty"`  // why the job waits, or what it was given
	Note string `json:"note,omitempty"` // what its user should mend
	// Share is what it was granted of a GPU that others may use, too; nil: its GPUs are its own.
	Share    *granted `json:"share,omitempty"`
	Begin    int64    `json:"begin"` // the user's own begin time, seconds since the epoch; 0: none
	First    int64    `json:"first"` // first submission, seconds since the epoch
	Attained float64  `json:"gpu_s"` // service so far, GPU-seconds
	Done     float64  `json:"done_s"`
	Own      *Request `json:"own,omitempty"`
	Explicit Explicit `json:"explicit,omitzero"` // what of Own was asked for in so many words
	// Mem, CPUs, Time and Steps are the gate's words for that: 1 where it was.
	Mem   int `json:"mem,omitempty"`
	CPUs  int `json:"cpus,omitempty"`
	Time  int `json:"time,omitempty"`
	Steps int `json:"steps,omitempty"`
	// Slurms: the job is handed back for want of a place, and is Slurm's for this wait; nil: it is not.
	Slurms *slurms `json:"slurms,omitempty"`
	// Measure asks the job to measure itself inside of its grant, and to report the curve: 1 where it is.
	Measure int `json:"measure,omitempty"`
	// Found is how its speed contradicts its profile.
	Found *Contradiction `json:"found,omitempty"`
}

const (
	annotationVersion = 1        // written and understood
	maxAnnotation     = 16 << 10 // bytes; ours have a few hundred
	maxService        = 1e9      // seconds, thirty years: more is no account of anything
)

// readAnnotation returns the annotation of a job, or the zero annotation when it has none that can be believed.
func readAnnotation(j *Job) annotation {
	var s annotation
	if len(j.Extra) > maxAnnotation || json.Unmarshal([]byte(j.Extra), &s) != nil || s.V != annotationVersion {
		return annotation{}
	}
	switch {
	case s.Lua == 1:
		// The lua says no more, and cannot know the job.
		return annotation{V: s.V, Lua: 1, Begin: s.Begin, Explicit: Explicit{true, s.Mem == 1, s.CPUs == 1, s.Time == 1,
			s.Steps == 1}}
	case j.Array != 0 && s.Job == j.Array && s.Job != j.ID && s.Own != nil && s.Own.GPUs == j.Request.GPUs:
		// A task of an array has got a job of its own, and what the array's said of its user's request holds for it.
		s = annotation{V: s.V, Job: s.Job, Begin: s.Begin, First: s.First, Own: s.Own, Explicit: s.Explicit,
			Slurms: s.Slurms}
	case s.Job != j.ID:
		return annotation{}
	}
	if s.Attained < 0 || s.Attained > maxService || s.Done < 0 || s.Done > maxService {
		s.Attained, s.Done = 0, 0
	}
	if s.Found != nil && !s.Found.credible() {
		s.Found = nil
	}
	if s.Own != nil && (s.Own.GPUs != j.Request.GPUs || s.Own.Tasks < 1 || s.Own.Nodes < 1) {
		s.Own = nil
	}
	if s.Own != nil && j.Request.Shard != "" && !s.Own.ownGPU() {
		s.Own = nil
	}
	if s.Share != nil && !s.Share.credible() {
		s.Share = nil
	}
	if s.Own != nil {
		s.Own.Shard = ""
		if j.Request.Shard == "" && !j.Request.narrowed(s.Own) {
			s.Own.GRES, s.Own.GPUType = j.Request.GRES, j.Request.GPUType // no round changes them otherwise
		}
		// an operator may move a job to where its user may not be
		s.Own.Partition = j.Request.Partition
	}
	return s
}

func (s annotation) String() string {
	text, err := json.Marshal(s)
	if err != nil {
		// Only a not-a-number could do this, and sums of durations have none.
		return ""
	}
	return string(text)
}

// annotationOf is the annotation that job id is to carry.
func annotationOf(r *Record, round int, why, note string) annotation {
	return annotation{
		V: annotationVersion, Job: r.Job, Round: round,
		Begin: unixOrZero(r.NotBefore), First: unixOrZero(r.First),
		Attained: r.Attained, Done: r.Done.Seconds(), Own: &r.Own, Explicit: r.Explicit, Why: why, Note: note,
		Found: r.Audit.Found, Measure: r.measure,
	}
}

func unixOrZero(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.Unix()
}

func fromUnix(s int64) time.Time {
	if s <= 0 {
		return time.Time{}
	}
	return time.Unix(s, 0)
}
