// Package outcome is the result of a simulation: what became of each job and each round, the statistics of it, and the
// formats in which both are written. It is independent of the engines.
package outcome

import "time"

// Run is the outcome of one simulation.
type Run struct {
	Setting Setting
	Jobs    []Job   // that arrived, ascending in ID
	Rounds  []Round // in order; empty if they were not recorded
	Spans   []Span  // in the order of their starts; empty if they were not recorded
	Held    int     // rounds, including those in which nothing happened
	Ended   float64 // seconds since the beginning of the trace
	GPUs    int     // of the cluster
	CPUs    int
	Memory  float64 // GB
	// BusyGPUs, BusyCPUs and BusyMemory are the GPU-, core- and GB-seconds that jobs held.
	BusyGPUs, BusyCPUs, BusyMemory float64
	// Wall is how long the simulation took; 0: not measured. It is the only value here that is not reproducible.
	Wall time.Duration
}

// Setting describes what was simulated, as far as compared runs may differ in it.
type Setting struct {
	Engine    string  `json:"engine"` // production or artifact
	Policy    string  `json:"policy"` // the engine's name for it, in lower case
	Allocator string  `json:"allocator"`
	Placement string  `json:"placement,omitempty"`          // of the artifact engine
	Load      float64 `json:"load_jobs_per_hour,omitempty"` // of a generated workload; 0: it was not generated
	// Split is the percent of image, language and speech jobs in a generated workload.
	Split    string `json:"split,omitempty"`
	Static   bool   `json:"static,omitempty"`   // all jobs arrived at the beginning
	Workload string `json:"workload,omitempty"` // where the jobs came from, for display
	Cluster  string `json:"cluster"`            // for display, such as 16x8:24:500
	// Ratio is the cores per GPU of the table of models; 0: not known.
	Ratio  int    `json:"ratio,omitempty"`
	Seed   int64  `json:"seed"`
	Window Window `json:"window,omitzero"`
	// RoundSeconds is the time between rounds, RestartSeconds the cost of a restart to a job.
	RoundSeconds   float64 `json:"round_s"`
	RestartSeconds float64 `json:"restart_s"`
	Until          float64 `json:"until_s,omitempty"`    // when the simulation ended at the latest; 0: no such end
	AtRounds       bool    `json:"at_rounds,omitempty"`  // ended jobs finish at the end of their round
	Strict         bool    `json:"strict,omitempty"`     // a replay ended at the first round without a job
	Prioritize     bool    `json:"prioritize,omitempty"` // jobs of the window went first
	// Outside is the part of the jobs that did not opt in, Unsaved the part without a checkpoint, 0 to 1.
	Outside float64 `json:"outside,omitempty"`
	Unsaved float64 `json:"unsaved,omitempty"`
	Sharing float64 `json:"sharing,omitempty"` // part of the jobs with one GPU that may share it, 0 to 1
	// ShareMode is how jobs share a GPU; empty: in turns.
	ShareMode string `json:"share_mode,omitempty"`
}

// Window is the range of job IDs that statistics count, from First up to but not including End. The zero window counts
// every job.
type Window struct {
	First int `json:"first"`
	End   int `json:"end"`
}

// Has says whether the job is in the window.
func (w Window) Has(id int) bool { return w == Window{} || id >= w.First && id < w.End }

// Job is what became of one job. Times are seconds since the beginning of the trace.
type Job struct {
	ID          int
	Model, User string
	GPUs        int
	Arrival     float64
	Length      float64 // seconds that it takes with the proportional share
	FirstRun    float64 // negative: it never ran
	Finish      float64 // negative: it had not finished when the simulation ended
	Starts      int
	AttainedGPU float64 // GPU-seconds
}

// Done says whether the job has finished.
func (j Job) Done() bool { return j.Finish >= 0 }

// Completion is the job completion time in seconds, including waiting.
func (j Job) Completion() float64 { return j.Finish - j.Arrival }

// Round is the state of the cluster right after a round.
type Round struct {
	At               float64 // seconds since the beginning of the trace
	Running, Waiting int     // jobs
	GPUs, CPUs       float64 // held
	Memory           float64 // held, GB
	Demand           float64 // GPUs that all unfinished jobs ask for
	Started, Stopped int     // jobs in this round
	// Value is the value of the round's plan, Bound the proven upper bound for the same jobs (package policy/bound); 0:
	// not computed.
	Value, Bound float64
}

// Span is a run of a job on one server.
type Span struct {
	Job        int
	Model      string
	Server     int   // index in the cluster
	Devices    []int // GPUs of the server, ascending; nil if the engine does not record them
	GPUs, CPUs int
	From, To   float64
}
