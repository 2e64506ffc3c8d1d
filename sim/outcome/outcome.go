// Package outcome is what a simulation gave: what became of each job and each round, the figures that follow from it,
// and how both are written. It is the same for every engine, and knows none.
package outcome

import "time"

// Run is the outcome of one simulation.
type Run struct {
	Setting Setting
	Jobs    []Job   // those that arrived, ascending in ID
	Rounds  []Round // in order; empty where they were not asked for
	Spans   []Span  // who held what when, in the order of their starts; empty where they were not asked for
	Held    int     // rounds that were held, idle ones included
	Ended   float64 // seconds since the beginning of the trace
	GPUs    int     // of the cluster
	CPUs    int
	Memory  float64 // GB
	// Busy are GPU-, core- and GB-seconds that were held by jobs.
	BusyGPUs, BusyCPUs, BusyMemory float64
	// Wall is how long the simulation took; 0: nobody says. It is the only thing here that is never twice the same.
	Wall time.Duration
}

// Setting says what was simulated, as far as runs that are laid side by side may differ in it.
type Setting struct {
	Engine    string  `json:"engine"` // production or artifact
	Policy    string  `json:"policy"` // as its engine names it, in lower case
	Allocator string  `json:"allocator"`
	Placement string  `json:"placement,omitempty"`          // of the artifact engine
	Load      float64 `json:"load_jobs_per_hour,omitempty"` // of a generated workload; 0: none was generated
	// of a generated workload: percent of image, language and speech jobs
	Split    string `json:"split,omitempty"`
	Static   bool   `json:"static,omitempty"`   // all jobs were there from the beginning
	Workload string `json:"workload,omitempty"` // where the jobs came from, for people
	Cluster  string `json:"cluster"`            // for people: 16x8:24:500
	// cores per GPU that the table of models is for; 0: nobody says
	Ratio  int    `json:"ratio,omitempty"`
	Seed   int64  `json:"seed"`
	Window Window `json:"window,omitzero"`
	// RoundSeconds lie between rounds. RestartSeconds are what a restart costs a job.
	RoundSeconds   float64 `json:"round_s"`
	RestartSeconds float64 `json:"restart_s"`
	Until          float64 `json:"until_s,omitempty"`    // when the simulation was ended at the latest; 0: nobody said
	AtRounds       bool    `json:"at_rounds,omitempty"`  // ended jobs count as finished when their round is over
	Strict         bool    `json:"strict,omitempty"`     // a replay ended at the first round without a job
	Prioritize     bool    `json:"prioritize,omitempty"` // the jobs of the window went first
	// Outside is the part of the jobs that did not opt in, Unsaved that without a checkpoint, from 0 to 1.
	Outside float64 `json:"outside,omitempty"`
	Unsaved float64 `json:"unsaved,omitempty"`
	Sharing float64 `json:"sharing,omitempty"` // part of the jobs of one GPU that may share it, from 0 to 1
	// ShareMode is by which way nodes have GPUs shared; empty: by turns.
	ShareMode string `json:"share_mode,omitempty"`
}

// Window is the range of job IDs that the figures count, from First up to but without End. The zero window counts every
// job.
type Window struct {
	First int `json:"first"`
	End   int `json:"end"`
}

// Has says whether the job counts.
func (w Window) Has(id int) bool { return w == Window{} || id >= w.First && id < w.End }

// Job is what became of one job. Moments are seconds since the beginning of the trace.
type Job struct {
	ID          int
	Model, User string
	GPUs        int
	Arrival     float64
	Length      float64 // seconds that it takes at the proportional share
	FirstRun    float64 // negative: it never ran
	Finish      float64 // negative: it was not finished when the simulation ended
	Starts      int
	AttainedGPU float64 // GPU-seconds
}

// Done says that the job was finished.
func (j Job) Done() bool { return j.Finish >= 0 }

// Completion is the job completion time, waiting included, in seconds.
func (j Job) Completion() float64 { return j.Finish - j.Arrival }

// Round is the cluster right after a round.
type Round struct {
	At               float64 // seconds since the beginning of the trace
	Running, Waiting int     // jobs
	GPUs, CPUs       float64 // held
	Memory           float64 // held, GB
	Demand           float64 // GPUs that all unfinished jobs ask for
	Started, Stopped int     // jobs in this round
	// Value is what the round's plan is worth, Bound the proven most that one for the same jobs could be (package
	// policy/bound); 0: nobody says.
	Value, Bound float64
}

// Span is a job's stay on one server.
type Span struct {
	Job        int
	Model      string
	Server     int   // index in the cluster
	Devices    []int // GPUs of the server, ascending; nil where the engine does not say
	GPUs, CPUs int
	From, To   float64
}
