package bridge

import (
	"encoding/json"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
)

// annotation is the JSON in the extra field of a managed job. It tells a later daemon, an administrator or the user
// what was first asked for and why the job is in its present state. With the gate users cannot write it. Without the
// gate it is believed only if it is harmless: it must name the job, and its GPUs must equal the job's.
//
// Programs on nodes match its first four fields byte by byte (spank/words.c, etc/node/prolog.sh), so these must stay
// first and in this order.
type annotation struct {
	V     int `json:"v"`   // 1
	Lua   int `json:"lua"` // 1: written by the gate at submission; 0: by a daemon
	Job   int `json:"job"`
	Round int `json:"round"`
	// Why and Note are for people, who see the first part of them in scontrol show job.
	Why  string `json:"why,omitempty"`  // why the job waits, or what it was given
	Note string `json:"note,omitempty"` // what its user should correct
	// Share is what the job was granted of a shared GPU; nil: it has its GPUs for itself.
	Share    *slotGrant     `json:"share,omitempty"`
	Begin    int64          `json:"begin"`             // the user's own begin time, seconds since the epoch; 0: none
	First    int64          `json:"first"`             // first submission, seconds since the epoch
	Attained float64        `json:"gpu_s"`             // service so far, GPU-seconds
	Done     float64        `json:"done_s"`            // progress so far, seconds at the proportional share
	Own      *slurm.Request `json:"own,omitempty"`     // the user's own request; nil: not known
	Explicit Explicit       `json:"explicit,omitzero"` // which amounts of Own the user asked for explicitly
	// Mem, CPUs, Time and Steps say the same in the gate's annotation: 1 means explicit.
	Mem   int `json:"mem,omitempty"`
	CPUs  int `json:"cpus,omitempty"`
	Time  int `json:"time,omitempty"`
	Steps int `json:"steps,omitempty"`
	// Slurms says that the job was handed back because it has no place, and is Slurm's for this wait; nil: it is not.
	Slurms *handBackMark `json:"slurms,omitempty"`
	// Measure is 1 if the job shall measure itself inside its grant and report the curve. Nodes match it as text.
	Measure int `json:"measure,omitempty"`
	// Found is the contradiction between the job's speed and its profile; nil: none was found.
	Found *Contradiction `json:"found,omitempty"`
}

// Bounds of what is believed of an annotation.
const (
	annotationVersion = 1        // the version that is written and understood
	maxAnnotation     = 16 << 10 // bytes; ours have a few hundred
	maxService        = 1e9      // seconds, about thirty years; larger values are not believed
)

// readAnnotation returns the annotation of a job, or the zero annotation (V is 0) if there is none that can be
// believed. A part that cannot be true is dropped alone: service, contradiction, slot, or the user's own request. The
// GPUs and the partition of that request are replaced by those that Slurm shows, except for a GPU type or a shard that
// a round has added. The checks are needed because on a site without the gate the job's owner can write this field, and
// what it says is written back to the job with the rights of an operator.
func readAnnotation(j *slurm.Job) annotation {
	var s annotation
	if len(j.Extra) > maxAnnotation || json.Unmarshal([]byte(j.Extra), &s) != nil || s.V != annotationVersion {
		return annotation{}
	}
	switch {
	case s.Lua == 1:
		// The gate writes no other fields, and does not know the job's ID.
		return annotation{V: s.V, Lua: 1, Begin: s.Begin, Explicit: Explicit{true, s.Mem == 1, s.CPUs == 1, s.Time == 1,
			s.Steps == 1}}
	case j.Array != 0 && s.Job == j.Array && s.Job != j.ID && s.Own != nil && s.Own.GPUs == j.Request.GPUs:
		// A task of an array got a job of its own. What the array's annotation says of the user's request holds for the
		// task.
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
	// A job carries a shard only in place of one GPU (share.go). isOneGPU also sets GPUType.
	if s.Own != nil && j.Request.Shard != "" && !isOneGPU(s.Own) {
		s.Own = nil
	}
	if s.Share != nil && !s.Share.isValid() {
		s.Share = nil
	}
	if s.Own != nil {
		// No user's own request has a shard: such a job is never managed.
		s.Own.Shard = ""
		if j.Request.Shard == "" && !isNarrowed(&j.Request, s.Own) {
			s.Own.GRES, s.Own.GPUType = j.Request.GRES, j.Request.GPUType // no round changes them in any other way
		}
		// The partition is Slurm's, never the annotation's: an update by the daemon, as an operator, could move the job
		// to a partition that its user may not use.
		s.Own.Partition = j.Request.Partition
	}
	return s
}

// String is the annotation as JSON.
func (s annotation) String() string {
	text, err := json.Marshal(s)
	if err != nil {
		// Only a NaN could cause this, and sums of durations have none.
		return ""
	}
	return string(text)
}

// annotationOf is the annotation that the job of r shall carry. why says why the job waits or what it was given, note
// what its user should correct; empty: nothing.
func annotationOf(r *Record, round int, why, note string) annotation {
	return annotation{
		V: annotationVersion, Job: r.Job, Round: round,
		Begin: unixOrZero(r.NotBefore), First: unixOrZero(r.First),
		Attained: r.Attained, Done: r.Done.Seconds(), Own: &r.Own, Explicit: r.Explicit, Why: why, Note: note,
		Found: r.Audit.Found, Measure: r.measure,
	}
}

// unixOrZero is t in seconds since the epoch; 0 for the zero time.
func unixOrZero(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.Unix()
}

// fromUnix is the time of s seconds since the epoch; the zero time if s is not positive.
func fromUnix(s int64) time.Time {
	if s <= 0 {
		return time.Time{}
	}
	return time.Unix(s, 0)
}
