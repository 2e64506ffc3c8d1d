package experiment_test

import (
	"strings"
	"testing"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/contrib/deft/experiment"
)

const emulated = `{"t":"2026-11-23T12:00:00.000Z","ev":"start","iteration":0}
{"t":"2026-11-23T12:00:00.300Z","ev":"run","iteration":1}
{"t":"2026-11-23T12:00:00.400Z","ev":"run","iteration":1}
{"t":"2026-11-23T12:00:01.000Z","ev":"run","iteration":3}
{"t":"2026-11-23T12:00:01.100Z","ev":"end","iteration":3}
`

func TestJobsAreReadFromTheLogOfAnEmulatedOne(t *testing.T) {
	for name, text := range map[string]string{"whole": emulated, "cut": emulated + `{"t":"2026-11`} {
		jobs, err := experiment.ReadProgress(strings.NewReader(text), 100*time.Millisecond)
		var took []int64
		for _, j := range jobs {
			took = append(took, j.Took().Milliseconds())
		}
		if err != nil || len(took) != 3 || took[0] != 200 || took[1] != 250 || took[2] != 250 {
			t.Errorf("%s: %v ms, %v", name, took, err)
		}
	}
	if jobs, err := experiment.ReadProgress(strings.NewReader("no log\n"+emulated), 0); err == nil {
		t.Errorf("%v", jobs)
	}
	const many = `{"t":"2026-11-23T12:00:02Z","ev":"run","iteration":9223372036854775807}`
	if jobs, err := experiment.ReadProgress(strings.NewReader(emulated+many), 0); err == nil {
		t.Errorf("%d jobs", len(jobs))
	}
}

func FuzzReadProgress(f *testing.F) {
	f.Add(emulated)
	f.Fuzz(func(t *testing.T, text string) {
		jobs, err := experiment.ReadProgress(strings.NewReader(text), time.Second)
		if err != nil && jobs != nil {
			t.Fatalf("%d jobs and %v", len(jobs), err)
		}
		for i, j := range jobs {
			if j.End.Before(j.Start) || i > 0 && j.Start.Before(jobs[i-1].End) {
				t.Fatalf("job %d: %v to %v, after %v", i, j.Start, j.End, jobs[max(0, i-1)].End)
			}
		}
	})
}
