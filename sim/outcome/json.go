package outcome

import (
	"cmp"
	"encoding/json"
	"io"
)

// Version is the version of the document's format. It rises when a field changes its meaning or is removed; fields may
// be added at any time.
const Version = 1

// Document is what WriteJSON writes. Times are in seconds, except completion_h, which is in hours; utilisation is from
// 0 to 1. Unknown values are left out instead of null or NaN:
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
// A run without statistics has "error" instead of everything after its setting.
type Document struct {
	Version int      `json:"version"`
	Runs    []Result `json:"runs"`
}

// WriteJSON writes the runs as a Document. If some runs have no statistics, the others are still written, and the error
// says which and why.
func WriteJSON(w io.Writer, runs []Run) error {
	results, faults := Results(runs)
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	return cmp.Or(encoder.Encode(Document{Version, results}), faults)
}
