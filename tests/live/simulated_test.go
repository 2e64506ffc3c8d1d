//go:build live && (bench || fidelity)

package live

import (
	"encoding/csv"
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"testing"
)

// result is what became of one job, in seconds since the first submission; completion is since its own.
type result struct {
	first, finish, completion float64
	starts                    int
}

// hurried writes the profiles with the speed of the emulated jobs and the costs of a restart in seconds.
func hurried(t *testing.T, dir string, speed, save, start float64) {
	t.Helper()
	names, err := filepath.Glob("../../etc/profiles/*.json")
	if err != nil || len(names) == 0 {
		t.Fatalf("profiles: %v, %v", names, err)
	}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		var p map[string]any
		if err := json.Unmarshal(text, &p); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for _, row := range p["throughput_samples_per_s"].([]any) {
			for k, rate := range row.([]any) {
				row.([]any)[k] = rate.(float64) * speed
			}
		}
		p["checkpoint_s"], p["start_s"] = save, start
		text, err = json.Marshal(p)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		put(t, filepath.Join(dir, "profiles", filepath.Base(name)), string(text))
	}
}

func put(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// results reads what --jobs-out wrote.
func results(t *testing.T, path string) []result {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	rows, err := csv.NewReader(file).ReadAll()
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	column := map[string]int{}
	for k, name := range rows[0] {
		column[name] = k
	}
	number := func(row []string, name string) float64 {
		x, err := strconv.ParseFloat(row[column[name]], 64)
		if err != nil {
			t.Fatalf("%s: %s of job %s: %v", path, name, row[column["job_id"]], err)
		}
		return x
	}
	var all []result
	for _, row := range rows[1:] {
		all = append(all, result{
			number(row, "first_run_s"), number(row, "finish_s"), number(row, "jct_s"), int(number(row, "starts")),
		})
	}
	return all
}
