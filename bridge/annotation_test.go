package bridge

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
)

func TestAnAnnotationIsBelievedOnlyAsFarAsItIsHarmless(t *testing.T) {
	own := func(o string) string { return `{"v":1,"job":7,"gpu_s":5,"own":{` + o + `}}` }
	for _, c := range []struct {
		name, extra string
		service     float64 // attained and done together
		begin       int64
		own         bool
	}{
		{"ours", own(`"nodes":1,"tasks":1,"gpus":2`), 5, 0, true},
		{"the lua's, which knows no ID", `{"v":1,"lua":1,"begin":99}`, 0, 99, false},
		{"none", "", 0, 0, false},
		{"a user's own words", "run 3 of 5", 0, 0, false},
		{"of another version", `{"v":2,"job":7,"gpu_s":5,"begin":99}`, 0, 0, false},
		{"of no version", `{"job":7,"gpu_s":5}`, 0, 0, false},
		{"of another job", `{"v":1,"job":8,"gpu_s":5,"begin":99,"own":{"nodes":1,"tasks":1,"gpus":2}}`, 0, 0, false},
		{"of no job", `{"v":1,"gpu_s":5,"begin":99}`, 0, 0, false},
		{"more GPUs than the job has", own(`"nodes":1,"tasks":1,"gpus":8`), 5, 0, false},
		{"fewer GPUs than the job has", own(`"nodes":1,"tasks":1,"gpus":1`), 5, 0, false},
		{"no tasks", own(`"nodes":1,"tasks":0,"gpus":2`), 5, 0, false},
		{"no nodes", own(`"nodes":0,"tasks":1,"gpus":2`), 5, 0, false},
		{"less than no service", `{"v":1,"job":7,"gpu_s":-1,"begin":99}`, 0, 99, false},
		{"service since before there were GPUs", `{"v":1,"job":7,"gpu_s":1e12,"begin":99}`, 0, 99, false},
		{"as much service as there can be", `{"v":1,"job":7,"gpu_s":1e9}`, 1e9, 0, false},
		{"as much done as there can be", `{"v":1,"job":7,"gpu_s":0,"done_s":1e9}`, 1e9, 0, false},
		{"less than nothing done", `{"v":1,"job":7,"gpu_s":5,"done_s":-1}`, 0, 0, false},
		{"more done than there was time", `{"v":1,"job":7,"gpu_s":5,"done_s":1e12}`, 0, 0, false},
	} {
		s := readAnnotation(&slurm.Job{ID: 7, Extra: c.extra, Request: plainRequest()})
		if s.Attained+s.Done != c.service || s.Begin != c.begin || (s.Own != nil) != c.own {
			t.Errorf("%s: %+v", c.name, s)
		}
	}
}

func TestAnAnnotationGivesAJobNoOtherGPUsThanItAskedFor(t *testing.T) {
	for _, own := range []string{`"gres":"gres/gpu:8"`, `"gres":""`, `"gpu_type":"h100"`} {
		j := slurm.Job{
			ID:      7,
			Request: plainRequest(),
			Extra: `{"v":1,"job":7,"own":{"nodes":1,"tasks":1,"gpus":2,` + own +
				`}}`,
		}
		if got := readAnnotation(&j).Own; got == nil || got.GRES != j.Request.GRES || got.GPUType != j.Request.GPUType {
			t.Errorf("%s: %+v, want GRES %s", own, got, j.Request.GRES)
		}
	}
}

func TestAnAnnotationOfTenMegabytesIsNotRead(t *testing.T) {
	extra := `{"v":1,"job":7,"gpu_s":5,"why":"` + strings.Repeat("x", 10<<20) + `"}`
	if s := readAnnotation(&slurm.Job{ID: 7, Extra: extra, Request: plainRequest()}); s.V != 0 {
		t.Errorf("it says %g GPU-seconds", s.Attained)
	}
}

func TestAnAnnotationTellsALaterDaemonWhatItsWriterKnew(t *testing.T) {
	rec := Record{
		Job: 7, First: noon.Add(-time.Hour), Attained: 12.5, Done: 1500 * time.Millisecond,
		NotBefore: noon.Add(time.Hour),
		Own:       plainRequest(), Until: noon,
	}
	extra := annotationOf(&rec, 42, "no GPU is free", "gets the proportional share").String()
	j := slurm.Job{ID: 7, Extra: extra, Request: plainRequest(), Submitted: noon, State: slurm.Pending, Restarts: 1}
	tn := read(j)
	if got := *firstRecord(tn, noon); utc(got) != utc(rec) {
		t.Errorf("read back\n%s, want\n%s", utc(got), utc(rec))
	}
	s := readAnnotation(&j)
	if got := fmt.Sprintln(s.Round, s.Why, "and",
		s.Note); got != "42 no GPU is free and gets the proportional share\n" {
		t.Errorf("says %q", got)
	}
}

func TestAnAnnotationBeginsAsNodesKnowIt(t *testing.T) {
	extra := annotationOf(&Record{Job: 7, Own: plainRequest()}, 42, "its turn", "").String()
	if want := `{"v":1,"lua":0,"job":7,"round":42,`; !strings.HasPrefix(extra, want) {
		t.Errorf("begins %.60s, want %s", extra, want)
	}
}

// What people read first is the reason: nothing but what nodes know an annotation by stands before it.
func TestTheReasonIsTheFirstThatPeopleReadInAnAnnotation(t *testing.T) {
	for _, job := range []int{7, 4711, 4294967295} {
		for _, why := range []string{"its turn", `closed (n2: "DOWN")`, strings.Repeat("no GPU is free; ", 40)} {
			rec := Record{Job: job, Own: plainRequest(), First: noon, Attained: 1e6, Done: time.Hour}
			extra := annotationOf(&rec, 42, why, "gets the proportional share").String()
			want, _ := json.Marshal(why)
			if begin := fmt.Sprintf(`{"v":1,"lua":0,"job":%d,"round":42,"why":%s,"note":"gets`, job, want); !strings.
				HasPrefix(extra, begin) {
				t.Errorf("begins %.120s, want %.120s", extra, begin)
			}
		}
	}
}

// A daemon of before that wrote the reason after the user's request.
func TestAnAnnotationIsReadInWhateverOrderItsFieldsAre(t *testing.T) {
	const before = `{"v":1,"lua":0,"job":7,"round":42,"begin":99,"first":1795254339,"gpu_s":12.5,"done_s":1.5,` +
		`"own":{"nodes":1,"tasks":1,"gpus":2},"why":"no GPU is free","note":"gets the proportional share"}`
	s := readAnnotation(&slurm.Job{ID: 7, Extra: before, Request: plainRequest()})
	if s.Why != "no GPU is free" || s.Note != "gets the proportional share" || s.Begin != 99 || s.Attained != 12.5 ||
		s.Own == nil || s.Round != 42 {
		t.Errorf("%+v", s)
	}
}

func TestATimeThatIsNoneIsWrittenAsNone(t *testing.T) {
	if got := unixOrZero(time.Time{}); got != 0 {
		t.Errorf("no time is written as %d", got)
	}
	for _, s := range []int64{0, -1} {
		if got := fromUnix(s); !got.IsZero() {
			t.Errorf("%d is read as %s", s, got)
		}
	}
}

func FuzzReadAnnotation(f *testing.F) {
	f.Add(`{"v":1,"lua":1,"begin":17}`)
	f.Add(`{"v":1,"job":7,"own":{"nodes":1,"tasks":1,"gpus":2}}`)
	f.Fuzz(func(t *testing.T, extra string) {
		j := slurm.Job{ID: 7, Extra: extra, Request: slurm.Request{GPUs: 2, Nodes: 1, Tasks: 1}}
		if s := readAnnotation(&j); s.Own != nil && s.Own.GPUs != 2 {
			t.Errorf("%q gives the job %d GPUs", extra, s.Own.GPUs)
		}
	})
}
