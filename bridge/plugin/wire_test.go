package plugin

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge/leader"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/plugin/slurmpb"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
)

// fill gives every field of a struct a value of its own.
func fill(t *testing.T, v reflect.Value, next *int) {
	t.Helper()
	*next++
	switch v.Kind() {
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			v.Set(reflect.ValueOf(time.Unix(int64(*next), 5)))
			return
		}
		for i := range v.NumField() {
			fill(t, v.Field(i), next)
		}
	case reflect.String:
		v.SetString(fmt.Sprintf("s%03d", *next))
	case reflect.Int, reflect.Int64:
		v.SetInt(int64(*next))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		fill(t, v.Index(0), next)
		fill(t, v.Index(1), next)
	default:
		t.Fatalf("a field of kind %s is new here", v.Kind())
	}
}

func filled[T any](t *testing.T) T {
	t.Helper()
	var full T
	next := 0
	fill(t, reflect.ValueOf(&full).Elem(), &next)
	return full
}

func mustBeSame(t *testing.T, got, want any) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestEveryFieldCrosses(t *testing.T) {
	job := filled[slurm.Job](t)
	job.Array = job.ID // as of any that stands for several tasks
	for _, job.State = range []slurm.State{slurm.Pending, slurm.Running, slurm.Finished} {
		got, err := jobIn(jobOut(&job))
		if err != nil {
			t.Fatal(err)
		}
		mustBeSame(t, *got, job)
	}
	node := filled[slurm.Node](t)
	node.Total, node.Allocated = node.Allocated, node.Total // more than there is cannot be held
	node.Total.GPUs, node.Allocated.GPUs = len(node.Devices), len(node.Devices)
	for i := range node.Types {
		node.Types[i].Total, node.Types[i].Allocated = 1, i
	}
	got, err := nodeIn(nodeOut(&node))
	if err != nil {
		t.Fatal(err)
	}
	mustBeSame(t, got, node)
	reservation := filled[slurm.Reservation](t)
	reservations, err := reservationsIn([]*slurmpb.Reservation{reservationOut(&reservation)})
	if err != nil {
		t.Fatal(err)
	}
	mustBeSame(t, reservations, []slurm.Reservation{reservation})
	update := filled[slurm.Update](t)
	mustBeSame(t, updateIn(updateOut(&update)), update)
	words := filled[leader.Words](t)
	mustBeSame(t, wordsIn(wordsOut(words)), words)
	ticket := filled[leader.Ticket](t)
	tickets, err := ticketsIn([]*slurmpb.Ticket{ticketOut(&ticket)})
	if err != nil {
		t.Fatal(err)
	}
	mustBeSame(t, tickets, []leader.Ticket{ticket})
	c := filled[struct { // Configuration has bytes and a float
		Partition        string
		Concurrent, Rate int
		Every            time.Duration
	}](t)
	configuration := Configuration{[]byte("any"), c.Partition, c.Concurrent, float64(c.Rate), c.Every}
	mustBeSame(t, configurationIn(configuration.out()), configuration)
}

func TestNoTimeIsNoTimeOnBothSides(t *testing.T) {
	if !timeIn(timeOut(time.Time{})).IsZero() {
		t.Error("no time became one")
	}
	now := time.Now()
	if got := timeIn(timeOut(now)); !got.Equal(now) || got.String() != now.Round(0).String() {
		t.Errorf("%s became %s", now, got)
	}
}

func TestANodeThatDiffersInAnythingIsNotTheSame(t *testing.T) {
	node := filled[slurm.Node](t)
	if other := filled[slurm.Node](t); !sameNode(node, other) {
		t.Error("equal nodes differ")
	}
	for i := range reflect.TypeFor[slurm.Node]().NumField() {
		other := node
		field := reflect.ValueOf(&other).Elem().Field(i)
		field.SetZero()
		if sameNode(node, other) {
			t.Errorf("a node with another %s is the same", reflect.TypeFor[slurm.Node]().Field(i).Name)
		}
	}
}

func TestWhatARoundBranchesOnCrossesAndNothingElseDoes(t *testing.T) {
	sentinels := []error{slurm.ErrNotPending, slurm.ErrNotRunning, slurm.ErrHeld, slurm.ErrGone, slurm.ErrDenied,
		slurm.ErrUnreachable, slurm.ErrRefused}
	others := []error{errors.New("job is held"), slurm.ErrNotLeader, leader.ErrLost}
	for _, err := range slices.Concat(sentinels, others, []error{errors.Join(slurm.ErrGone, slurm.ErrRefused)}) {
		sent := fmt.Errorf("update job 7:\n\x1b[2J %w", err)
		got := failureIn(failureOut(sent))
		for _, sentinel := range append(sentinels, slurm.ErrNotLeader) {
			want := errors.Is(err, sentinel) && sentinel != slurm.ErrNotLeader
			if errors.Is(got, sentinel) != want {
				t.Errorf("%v: is %v: %v, want %v", err, sentinel, !want, want)
			}
		}
		if want := "slurm plugin: update job 7: [2J " + oneLine(err.Error()); got.Error() != want {
			t.Errorf("says %q, want %q", got, want)
		}
	}
	if failureIn(failureOut(nil)) != nil {
		t.Error("nothing became something")
	}
	for _, patience := range []error{context.Canceled, context.DeadlineExceeded} {
		if got := failureIn(failureOut(patience)); !errors.Is(got, slurm.ErrUnreachable) || errors.Is(got, patience) {
			t.Errorf("the plugin's own %v became %v", patience, got)
		}
	}
	if got := failureIn(&slurmpb.Failure{Kinds: []slurmpb.Kind{99}}); got == nil || wordFor(got) != "other" {
		t.Errorf("a kind that is new became %v", got)
	}
}

func TestTextsOfAnyBytesCross(t *testing.T) {
	job := slurm.Job{ID: 1, State: slurm.Pending, Name: "\xff\xfe", Features: []string{"a", "\xff", "b", "\xfe"}}
	got, err := jobIn(jobOut(&job))
	if err != nil || got.Name != "\uFFFD" || !slices.Equal(got.Features, []string{"a", "\uFFFD", "b", "\uFFFD"}) ||
		job.Features[1] != "\xff" {
		t.Errorf("%v: got %+v of %+v", err, got, job)
	}
}

func TestATargetCrossesAndOneThatIsNotKnownIsRefused(t *testing.T) {
	for _, to := range []slurm.Target{slurm.Script, slurm.Steps} {
		if got, err := targetIn(targetOut(to)); got != to || err != nil {
			t.Errorf("%q came over as %q, %v", to, got, err)
		}
	}
	if _, err := targetIn(7); !errors.Is(err, slurm.ErrRefused) {
		t.Errorf("target 7: %v, want it refused: whom would it reach?", err)
	}
}
