package forecast_test

import (
	"encoding/json"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/policy"
	"github.com/synergy-slurmd/synergy-slurmd/policy/forecast"
	"github.com/synergy-slurmd/synergy-slurmd/policy/plugin/exam"
)

func fifo() forecast.Options {
	return forecast.Options{Policy: policy.FIFO(), Allocator: policy.Tune()}
}

// queued is one server on which a job has all GPUs, and jobs of the same size that wait for it.
func queued(running policy.Job, waiting ...policy.Job) policy.Cluster {
	c := policy.Cluster{Now: noon, Nodes: []policy.Node{server(0)}}
	running.ID, running.GPUs = 1, 8
	running.Running = &policy.Placement{Nodes: []string{c.Nodes[0].Name}, PerNode: c.Nodes[0].Total}
	running.Started = noon.Add(-running.Done)
	c.Jobs = append(c.Jobs, running)
	for i, j := range waiting {
		j.ID, j.GPUs, j.Arrival = 2+i, 8, noon.Add(-time.Hour+time.Duration(i)*time.Minute)
		c.Jobs = append(c.Jobs, j)
	}
	return c
}

func startOf(t *testing.T, f forecast.Forecast, job int) forecast.Start {
	t.Helper()
	s, known := f.Of(job)
	if !known {
		t.Fatalf("job %d has no estimate: %+v", job, f)
	}
	return s
}

func between(t *testing.T, what string, at time.Time, low, high time.Duration) {
	t.Helper()
	if at.IsZero() || at.Before(noon.Add(low)) || at.After(noon.Add(high)) {
		t.Errorf("%s is in %s, want between %s and %s", what, at.Sub(noon), low, high)
	}
}

func TestWhoFindsRoomStartsNowInAllFutures(t *testing.T) {
	c := policy.Cluster{Now: noon, Nodes: []policy.Node{server(0)}, Jobs: []policy.Job{{ID: 3, GPUs: 8}}}
	s := startOf(t, forecast.Starts(&c, fifo()), 3)
	if s.P10 != noon || s.P50 != noon || s.P90 != noon {
		t.Errorf("%+v, want now", s)
	}
}

func TestWhoWaitsForAJobOfADeclaredLengthStartsAboutAtItsEnd(t *testing.T) {
	c := queued(policy.Job{Length: 4 * time.Hour, Done: 2 * time.Hour}, policy.Job{Length: time.Hour}, policy.Job{})
	f := forecast.Starts(&c, fifo())
	first, second := startOf(t, f, 2), startOf(t, f, 3)
	between(t, "the median", first.P50, 110*time.Minute, 130*time.Minute)
	between(t, "the tenth", first.P10, 70*time.Minute, 110*time.Minute)
	between(t, "the ninetieth", first.P90, 130*time.Minute, 180*time.Minute)
	between(t, "the second's median", second.P50, 165*time.Minute, 200*time.Minute)
}

func TestATimeLimitIsAnEndAtTheLatestAndMostlySooner(t *testing.T) {
	c := queued(policy.Job{TimeLimit: 10 * time.Hour}, policy.Job{})
	s := startOf(t, forecast.Starts(&c, fifo()), 2)
	between(t, "the tenth", s.P10, 0, time.Hour)
	between(t, "the median", s.P50, 3*time.Hour, 7*time.Hour)
	between(t, "the ninetieth", s.P90, 8*time.Hour, 10*time.Hour+time.Minute)
	o := fifo()
	o.Habits = forecast.Habits{0.1, 0.2}
	between(t, "where jobs use little, all", startOf(t, forecast.Starts(&c, o), 2).P90, time.Hour, 2*time.Hour)
}

func TestAJobThatHasRunForMostOfItsLimitIsNotOverYet(t *testing.T) {
	c := queued(policy.Job{TimeLimit: 10 * time.Hour, Done: 9 * time.Hour}, policy.Job{})
	s := startOf(t, forecast.Starts(&c, fifo()), 2)
	between(t, "the tenth", s.P10, time.Minute, 30*time.Minute)
	between(t, "the median", s.P50, 15*time.Minute, time.Hour+time.Minute)
	between(t, "the ninetieth", s.P90, 40*time.Minute, time.Hour+time.Minute)
}

func TestOfAJobOfWhichNobodySaysHowLongItIsOnlyAGuessIsMade(t *testing.T) {
	c := queued(policy.Job{Done: 5 * time.Hour}, policy.Job{TimeLimit: time.Hour})
	f := forecast.Starts(&c, fifo())
	if f.Guess != 1 {
		t.Errorf("%d guesses, want 1", f.Guess)
	}
	between(t, "the median", startOf(t, f, 2).P50, 3*time.Hour, 8*time.Hour)
}

func TestHowLongTheJobItselfIsDecidesNothingOfItsStart(t *testing.T) {
	c := queued(policy.Job{Done: 5 * time.Hour, TimeLimit: 6 * time.Hour}, policy.Job{})
	if f := forecast.Starts(&c, fifo()); f.Guess != 0 {
		t.Errorf("%d guesses, want none", f.Guess)
	}
	c = queued(policy.Job{Done: 5 * time.Hour, TimeLimit: 6 * time.Hour}, policy.Job{}, policy.Job{})
	if f := forecast.Starts(&c, fifo()); f.Guess != 2 {
		t.Errorf("%d guesses of two that wait one behind the other, want 2", f.Guess)
	}
}

func TestAfterTheHorizonNothingIsSaid(t *testing.T) {
	c := queued(policy.Job{Length: 100 * time.Hour}, policy.Job{})
	o := fifo()
	o.Horizon = time.Hour
	f := forecast.Starts(&c, o)
	s := startOf(t, f, 2)
	if !s.P10.IsZero() || !s.P50.IsZero() || !s.P90.IsZero() || f.Until != noon.Add(time.Hour) {
		t.Errorf("%+v until %s: want nothing before the end of the first hour", s, f.Until)
	}
}

func TestWhoMayNotStartYetHasNoEstimateAndNobodyIsHeldUpByThat(t *testing.T) {
	c := queued(policy.Job{Length: time.Hour}, policy.Job{Barred: "waits for another job"}, policy.Job{})
	f := forecast.Starts(&c, fifo())
	if _, known := f.Of(2); known {
		t.Error("a job that waits for another has an estimate")
	}
	between(t, "the other's median", startOf(t, f, 3).P50, 50*time.Minute, 70*time.Minute)
}

func TestAForecastIsCutWhereThereIsNoTimeAndSaysUpToWhen(t *testing.T) {
	c := queued(policy.Job{TimeLimit: 100 * time.Hour}, policy.Job{})
	o, asked := fifo(), 0
	o.Stop = func() bool { asked++; return asked > 3 }
	f := forecast.Starts(&c, o)
	if !f.Cut || f.Draws != 1 || !f.Until.After(noon) || f.Until.After(noon.Add(time.Hour)) || asked != 4 {
		t.Errorf("%+v, asked %d times: want one future of three rounds", f, asked)
	}
}

func TestAForecastIsTheSameHoweverJobsAreListedAndChangesNothing(t *testing.T) {
	for n := range 40 {
		c := exam.Snapshot(4, n)
		o := fifo()
		o.Draws, o.Horizon = 3, 24*time.Hour
		before := inJSON(t, c)
		want := inJSON(t, forecast.Starts(&c, o))
		if inJSON(t, c) != before {
			t.Fatalf("snapshot %d was changed", n)
		}
		slices.Reverse(c.Jobs)
		if got := inJSON(t, forecast.Starts(&c, o)); got != want {
			t.Fatalf("snapshot %d: %s, want %s", n, got, want)
		}
	}
}

func TestASpreadIsInOrderAndNotBeforeTheSnapshot(t *testing.T) {
	for n := range 60 {
		c := exam.Snapshot(5, n)
		o := fifo()
		o.Draws = 5
		f := forecast.Starts(&c, o)
		for _, s := range f.Start {
			late := func(at time.Time) time.Time {
				if at.IsZero() {
					return f.Until.Add(time.Hour)
				}
				return at
			}
			if s.P10.Before(c.Now) && !s.P10.IsZero() || late(s.P50).Before(late(s.P10)) ||
				late(s.P90).Before(late(s.P50)) {
				t.Errorf("snapshot %d, job %d: %+v", n, s.Job, s.Spread)
			}
		}
		if math.IsNaN(f.Trained) || f.Trained < 0 {
			t.Errorf("snapshot %d: trained %v", n, f.Trained)
		}
	}
}

func TestOfAStartForWhichNobodyHadTimeToLookNothingIsSaid(t *testing.T) {
	c := exam.Snapshot(5, 40)
	o := fifo()
	o.Stop = func() bool { return true }
	f := forecast.Starts(&c, o)
	for _, s := range f.Start {
		if known, is := f.Of(s.Job); is && known.P50.IsZero() {
			t.Errorf("job %d is %s, and it is now %s", s.Job, f.Words(known.Spread), c.Now)
		}
	}
	if len(f.Start) == 0 || !f.Cut {
		t.Errorf("%d jobs wait, cut %v", len(f.Start), f.Cut)
	}
}

func TestTheClusterTrainsWhatItsJobsDo(t *testing.T) {
	c := queued(policy.Job{Length: 100 * time.Hour})
	if got := forecast.Starts(&c, fifo()).Trained; math.Abs(got-8) > 1e-9 {
		t.Errorf("eight GPUs train %v", got)
	}
	c = queued(policy.Job{Length: 100 * time.Hour, Done: 98 * time.Hour})
	if got := forecast.Starts(&c, fifo()).Trained; got < 3.5 || got > 4.5 {
		t.Errorf("eight GPUs that are left after half the time train %v", got)
	}
}

func inJSON(t *testing.T, value any) string {
	t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
