package emulate

import (
	"encoding/json"
	"fmt"
	"io"
	"time"
)

// Record is one line of a job's log: an event and the job's state then. Fields that do not belong to the event are left
// out.
type Record struct {
	Time      string `json:"t"`
	Event     string `json:"ev"` // start, run, save, signal, ignored, end
	Iteration int64  `json:"iteration"`

	Mode      string  `json:"mode,omitempty"` // VirtualCPU or RealCPU; their figures must not be compared
	Model     string  `json:"model,omitempty"`
	GPUType   string  `json:"gpu_type,omitempty"`
	Batch     int     `json:"batch,omitempty"`
	Job       string  `json:"job,omitempty"`
	Restart   *int    `json:"restart,omitempty"` // Slurm's count
	Speedup   float64 `json:"speedup,omitempty"`
	Goal      int64   `json:"goal,omitempty"`                   // iterations
	Predicted float64 `json:"predicted_iterations_s,omitempty"` // by the wall clock

	Nodes  int   `json:"nodes,omitempty"`
	GPUs   int   `json:"gpus,omitempty"`       // on each node
	Cores  int   `json:"cores,omitempty"`      // on each node
	Memory int64 `json:"memory_mib,omitempty"` // on each node; absent: no known limit

	Iterations float64 `json:"iterations_s,omitempty"` // by the wall clock, since the last such record
	Samples    float64 `json:"samples_s,omitempty"`    // the same in samples, over all GPUs

	Busy   float64 `json:"gpu_busy,omitempty"`    // part of an iteration that uses the GPU, if the job takes turns
	Turns  int64   `json:"turns,omitempty"`       // slices used on the GPU in this start
	Waited float64 `json:"turn_wait_s,omitempty"` // seconds waited for them

	Signal string `json:"signal,omitempty"`
	Why    string `json:"why,omitempty"`

	Reason Reason  `json:"reason,omitempty"`
	Done   *int64  `json:"done,omitempty"` // iterations in this start
	Starts int     `json:"starts,omitempty"`
	Wall   float64 `json:"wall_s,omitempty"` // of this start, seconds
	Lost   *int64  `json:"lost,omitempty"`   // iterations done twice, now or later, as far as known
}

// Log writes records as one JSON object per line.
type Log struct {
	To io.Writer
}

func (l Log) write(r Record) error {
	r.Time = time.Now().UTC().Format("2006-01-02T15:04:05.000Z")
	line, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("log %s: %w", r.Event, err)
	}
	if _, err := l.To.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("log %s: %w", r.Event, err)
	}
	return nil
}
