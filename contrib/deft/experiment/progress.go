package experiment

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"time"
)

// maxLine is the longest line of a log, bytes.
const maxLine = 1 << 16

// ReadProgress reads the log of synergy-emujob, whose iterations are jobs with the pause before each, and returns the
// jobs. A job ends when it was first counted, and begins one pause after the end of the job before. If several jobs
// were first counted together, the time is divided evenly among them. An incomplete last line is ignored.
func ReadProgress(r io.Reader, pause time.Duration) ([]Job, error) {
	in := bufio.NewScanner(r)
	in.Buffer(nil, maxLine)
	var jobs []Job
	var last time.Time
	var count int64
	for n := 1; in.Scan(); n++ {
		var line struct {
			Time      time.Time `json:"t"`
			Event     string    `json:"ev"`
			Iteration int64     `json:"iteration"`
		}
		if err := json.Unmarshal(in.Bytes(), &line); err != nil {
			if in.Scan() {
				return nil, fmt.Errorf("line %d: want a record of synergy-emujob: %w", n, err)
			}
			break
		}
		switch more := line.Iteration - count; {
		case line.Event == "start":
			last, count = line.Time, line.Iteration
		case more <= 0 || last.IsZero() || line.Time.Before(last):
		case int64(len(jobs))+more > maxJobs:
			return nil, fmt.Errorf("line %d: more than %d jobs: want a shorter experiment", n, maxJobs)
		default:
			each := line.Time.Sub(last) / time.Duration(more)
			for range more {
				end := last.Add(each)
				jobs = append(jobs, Job{Start: last.Add(min(pause, each)), End: end})
				last = end
			}
			count = line.Iteration
		}
	}
	if err := in.Err(); err != nil {
		return nil, fmt.Errorf("read the log: %w", err)
	}
	return jobs, nil
}
