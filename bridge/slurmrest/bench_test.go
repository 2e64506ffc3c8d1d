package slurmrest

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurmrest/internal/v0042"
)

// manyJobs is a listing of 2,000 jobs in the mixture that was recorded.
func manyJobs(b *testing.B) []byte {
	b.Helper()
	var listing struct {
		Jobs []map[string]any `json:"jobs"`
	}
	if err := json.Unmarshal(recorded(b, "jobs.json"), &listing); err != nil {
		b.Fatal(err)
	}
	jobs := make([]map[string]any, 2000)
	for i := range jobs {
		jobs[i] = listing.Jobs[i%len(listing.Jobs)]
	}
	body, err := json.MarshalIndent(map[string]any{"jobs": jobs}, "", "  ") // slurmrestd indents too
	if err != nil {
		b.Fatal(err)
	}
	return body
}

// readJobs reads a listing as the client does.
func readJobs(body []byte) ([]parsedJob, error) {
	told, said, err := v0042.API("").Jobs().Stream(bytes.NewReader(body))
	if err == nil {
		err = failed(200, said)
	}
	jobs := make([]parsedJob, len(told))
	for i := range told {
		jobs[i] = readJob(&told[i])
	}
	return jobs, err
}

func BenchmarkDecodeJobs(b *testing.B) {
	body := manyJobs(b)
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		if jobs, err := readJobs(body); err != nil || len(jobs) != 2000 {
			b.Fatal(len(jobs), err)
		}
	}
}

func BenchmarkDecodeStates(b *testing.B) {
	states := make([]map[string]any, 2000)
	for i := range states {
		states[i] = map[string]any{"job_id": "1234", "state": []string{"PENDING"}}
	}
	body, err := json.MarshalIndent(map[string]any{"jobs": states}, "", "  ")
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := v0042.API("").States().Read(body); err != nil {
			b.Fatal(err)
		}
	}
}
