package bridge

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
	"github.com/synergy-slurmd/synergy-slurmd/gres"
)

func TestServiceIsCreditedForTheTimeOnGPUsAndNoOther(t *testing.T) {
	ago := func(s int) time.Time { return noon.Add(-time.Duration(s) * time.Second) }
	ran := Record{Until: ago(300), Gain: 1.5, Attained: 1000, Done: 500 * time.Second, Asked: ago(250)}
	waited := Record{Until: ago(300), Attained: 1000, Done: 500 * time.Second}
	for _, c := range []struct {
		name     string
		rec      Record
		job      slurm.Job
		gain     float64
		attained float64
		done     time.Duration
	}{
		{"ran all the time", ran, slurm.Job{State: slurm.Running, Started: ago(4000)}, 1.5, 1600, 950 * time.Second},
		{"was started in the middle", waited, slurm.Job{State: slurm.Running, Started: ago(100)}, 1.5, 1200,
			650 * time.Second},
		{"was requeued and started again", ran, slurm.Job{State: slurm.Running, Started: ago(60)}, 2, 1120,
			620 * time.Second},
		{"was requeued, and started again before anybody looked", ran,
			slurm.Job{State: slurm.Running, Started: ago(60), Submitted: ago(100)}, 2, 1520, 920 * time.Second},
		{"was requeued and is being cleaned up", ran, slurm.Job{State: slurm.Pending, Completing: true,
			Submitted: ago(4000)}, 0,
			1600, 950 * time.Second},
		{"was requeued in the middle", ran, slurm.Job{State: slurm.Pending, Submitted: ago(100)}, 0, 1400,
			800 * time.Second},
		{"waited all the time", waited, slurm.Job{State: slurm.Pending, Submitted: ago(100)}, 0, 1000,
			500 * time.Second},
		{"was requeued, says a clock that is ahead", ran, slurm.Job{State: slurm.Pending, Submitted: ago(-60)}, 0, 1600,
			950 * time.Second},
		{"was requeued, says a clock that is behind", ran, slurm.Job{State: slurm.Pending, Submitted: ago(600)}, 0,
			1000,
			500 * time.Second},
	} {
		c.job.Request.GPUs = 2
		tn := read(c.job)
		tn.gain = c.gain
		got := c.rec
		got.credit(tn, noon)
		if got.Attained != c.attained || got.Done != c.done {
			t.Errorf("%s: %.0f GPU-seconds and %s done, want %.0f and %s", c.name, got.Attained, got.Done, c.attained,
				c.done)
		}
		if got.Gain != c.gain || !got.Until.Equal(noon) {
			t.Errorf("%s: goes on at %v from %s, want %v from now", c.name, got.Gain, got.Until, c.gain)
		}
		if leaves := c.job.State == slurm.Running && c.job.Started.Before(c.rec.Asked); got.Asked.IsZero() == leaves {
			t.Errorf("%s: asked at %s", c.name, got.Asked)
		}
	}
}

func TestALostLedgerIsMadeUpFromTheAnnotations(t *testing.T) {
	submitted, started, own := noon.Add(-time.Hour), noon.Add(-10*time.Minute), plainRequest()
	granted := own
	granted.CPUs, granted.Pin = 6, []string{"n1"}
	annotated := annotationOf(&Record{
		Job: 7, First: noon.Add(-24 * time.Hour), Attained: 90, Done: 30 * time.Second,
		NotBefore: noon.Add(5 * time.Hour), Own: own,
	}, 3, "", "").String()
	for _, c := range []struct {
		name string
		job  slurm.Job
		want Record
	}{
		{"a new job", slurm.Job{State: slurm.Pending}, Record{First: submitted, Until: noon, Own: granted}},
		{"a new job whose user said when", slurm.Job{State: slurm.Pending, Begin: noon.Add(time.Hour)},
			Record{First: submitted, Until: noon, NotBefore: noon.Add(time.Hour), Own: granted}},
		{"a new job whose time has come", slurm.Job{State: slurm.Pending, Begin: noon.Add(-time.Hour)},
			Record{First: submitted, Until: noon, Own: granted}},
		{"a new job with a lease", slurm.Job{State: slurm.Pending, Begin: noon.Add(time.Hour),
			Extra: `{"v":1,"lua":1,"begin":0,"mem":1,"steps":1}`},
			Record{First: submitted, Until: noon, Own: granted,
				Explicit: Explicit{Told: true, Memory: true, Steps: true}}},
		{"one that was here before", slurm.Job{State: slurm.Pending, Restarts: 1, Begin: noon.Add(time.Minute),
			Extra: annotated},
			Record{First: noon.Add(-24 * time.Hour), Until: noon, Attained: 90, Done: 30 * time.Second,
				NotBefore: noon.Add(5 * time.Hour), Own: own}},
		{"one that was never requeued and says it came earlier",
			slurm.Job{State: slurm.Pending, Extra: fmt.Sprintf(`{"v":1,"job":7,"first":%d}`, 1)},
			Record{First: submitted, Until: noon, Own: granted}},
		{"one that says it came later than Slurm knows", slurm.Job{State: slurm.Pending,
			Extra: fmt.Sprintf(`{"v":1,"job":7,"first":%d}`, noon.Unix())},
			Record{First: submitted, Until: noon, Own: granted}},
		{"one that runs", slurm.Job{State: slurm.Running, Started: started, Begin: noon.Add(time.Hour)},
			Record{First: submitted, Until: started, Own: granted}},
	} {
		c.job.ID, c.job.Submitted, c.job.Request, c.want.Job = 7, submitted, granted, 7
		tn := read(c.job)
		if got := *firstRecord(tn, noon); utc(got) != utc(c.want) {
			t.Errorf("%s:\n%s, want\n%s", c.name, utc(got), utc(c.want))
		}
	}
}

// utc prints a record with all its times in one zone.
func utc(r Record) string {
	r.First, r.Until, r.NotBefore = r.First.UTC(), r.Until.UTC(), r.NotBefore.UTC()
	return fmt.Sprintf("%+v", r)
}

func TestWhoWasAskedInAnEarlierRoundIsNotForgottenUntilItHasLeft(t *testing.T) {
	before, after := noon.Add(-time.Minute), noon.Add(-10*time.Second)
	for _, c := range []struct {
		name string
		rec  Record
		job  slurm.Job
		want time.Time
	}{
		{"goes on", Record{Gain: 1, Asked: before}, slurm.Job{ID: 7, State: slurm.Running}, before},
		{"has left", Record{Gain: 1, Asked: before}, slurm.Job{ID: 7, State: slurm.Pending}, time.Time{}},
		{"has left and was started again", Record{Gain: 1, Asked: before}, slurm.Job{ID: 7, State: slurm.Running,
			Started: after},
			time.Time{}},
		{"has left and was seen to wait", Record{Asked: before}, slurm.Job{ID: 7, State: slurm.Pending}, time.Time{}},
		{"was not a victim", Record{Gain: 1}, slurm.Job{ID: 8, State: slurm.Running}, time.Time{}},
	} {
		c.rec.Job = c.job.ID
		jobs := []*managedJob{read(c.job)}
		jobs[0].gain = 1
		jobs[0].record = &c.rec
		updateRecords(jobs, noon)
		if got := jobs[0].record; !got.Asked.Equal(c.want) {
			t.Errorf("a job that %s was asked at %s, want %s", c.name, got.Asked, c.want)
		}
	}
}

func TestEveryJobHasItsOwnRecord(t *testing.T) {
	known := Records{{Job: 1, Starts: 1}, {Job: 2, Starts: 2}, {Job: 4, Starts: 4}, {Job: 6, Starts: 6}}
	var jobs []*slurm.Job
	for id := 2; id <= 6; id++ {
		jobs = append(
			jobs,
			&slurm.Job{ID: id, Partition: "gpu", Comment: "synergy-profile=x.json", State: slurm.Pending,
				Request: plainRequest()},
		)
	}
	s := viewer().sort(slurm.Observed{At: noon, Jobs: jobs}, known)
	updateRecords(s.managed, noon)
	for _, tn := range s.managed {
		starts := tn.ID
		if tn.ID%2 == 1 {
			starts = 0 // it is new
		}
		if tn.record.Job != tn.ID || tn.record.Starts != starts || !tn.record.Until.Equal(noon) {
			t.Errorf("job %d has the record %+v", tn.ID, tn.record)
		}
	}
}

// read is a job as a round takes it up.
func read(j slurm.Job) *managedJob {
	t := new(Runner).readJob(&j, &managedJob{})
	t.record = &Record{Job: j.ID}
	return t
}

// Every moment of a record that has passed is moved with Slurm's clock. A new field of that kind belongs to shift and
// here.
func TestEachPastMomentOfARecordMovesWithSlurmsClock(t *testing.T) {
	moment := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	r := &Record{First: moment, Until: moment, FailedAt: moment, ReturnedAt: moment, Asked: moment,
		Refused: Refusal{At: moment}, NoPlace: NoPlace{Since: moment}, Beside: Beside{Since: moment}}
	r.shift(-time.Hour)
	for name, at := range map[string]time.Time{"First": r.First, "Until": r.Until, "FailedAt": r.FailedAt,
		"ReturnedAt": r.ReturnedAt, "Asked": r.Asked, "Refused.At": r.Refused.At, "NoPlace.Since": r.NoPlace.Since,
		"Beside.Since": r.Beside.Since} {
		if want := moment.Add(-time.Hour); !at.Equal(want) {
			t.Errorf("%s is %s, want %s", name, at, want)
		}
	}
	avoids := &Record{Avoids: []Avoided{{"gpu", moment.Add(10 * time.Hour)}, {"big", moment.Add(time.Minute)}}}
	avoids.correctFutureTimes(moment)
	if got := avoids.Avoids; !got[0].Until.Equal(moment.Add(refusalLifetime)) ||
		!got[1].Until.Equal(moment.Add(time.Minute)) {
		t.Errorf("partitions are avoided until %v", got)
	}
	late := &Record{ReturnedAt: moment.Add(time.Hour), Beside: Beside{Since: moment.Add(time.Hour)}}
	if late.correctFutureTimes(moment); !late.ReturnedAt.Equal(moment) || !late.Beside.Since.Equal(moment) {
		t.Errorf("a job came back at %s, and others beside it at %s, which is to come", late.ReturnedAt,
			late.Beside.Since)
	}
}

func TestATypeOfGPUThatIsNamedAnewIsReadAnew(t *testing.T) {
	nodes := []slurm.Node{{Name: "n1", Partitions: []string{"gpu"}, GPUType: "a100",
		Total: gres.Vector{GPUs: 8, CPUs: 24, Memory: 1000}}}
	r := &Runner{Settings: Settings{Partitions: []string{"gpu"}}}
	was := r.topologyOf(nodes)
	if r.topologyOf(slices.Clone(nodes)) != was {
		t.Error("equal nodes have another topology")
	}
	nodes = slices.Clone(nodes)
	nodes[0].GPUType = "h100"
	if r.topologyOf(nodes) == was {
		t.Error("nodes of another type have the same topology")
	}
}
