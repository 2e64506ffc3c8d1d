package outcome

import (
	"cmp"
	"encoding/json"
	"io"
)

// Version is that of the document. It rises when a field changes its meaning or goes; new ones may come at any time.
const Version = 1

// Document is what WriteJSON writes. Times are seconds, but for completion_h, which is in hours; utilisation is from 0
// to 1. What is not known is left out, and never null or not a number instead:
//
//	{
//	  "version": 1,
//	  "runs": [
//	    {
//	      "setting": {"engine": "artifact", "policy": "fifo", "allocator": "tune", "load_jobs_per_hour": 9, …},
//	      "summary": {
//	        "jobs": 1000, "finished": 1000, "unfinished": 0,
//	        "completion_s": {"mean": …, "median": …, "p90": …, "p99": …, "p999": …, "max": …},
//	        "queueing_s": {…}, "slowdown": {…}, "completion_h": {…},
//	        "makespan_s": …, "utilisation": {"gpus": …, "cpus": …, "memory": …},
//	        "rounds": …, "preemptions": …
//	      },
//	      "against_proportional": {"mean": …, "median": …, "p90": …, "p99": …, "p999": …, "makespan": …},
//	      "by_model": [
//	        {"model": "alexnet", "jobs": …, "finished": …, "completion_s": {…}, "queueing_s": {…}, "slowdown": {…}}, …
//	      ],
//	      "by_gpus": [{"gpus": 1, …}, …]
//	    }
//	  ]
//	}
//
// A run without figures has "error" in place of all that comes behind its setting.
type Document struct {
	Version int      `json:"version"`
	Runs    []Result `json:"runs"`
}

// WriteJSON writes a Document of the runs. When some of them have no figures, the others are written all the same, and
// the error says which and why.
func WriteJSON(w io.Writer, runs []Run) error {
	results, faults := Results(runs)
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	return cmp.Or(encoder.Encode(Document{Version, results}), faults)
}
