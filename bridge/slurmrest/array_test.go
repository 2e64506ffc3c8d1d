package slurmrest

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurmrest/internal/wire"
)

func TestTheTasksOfAnArrayAreReadAsSlurmListsThem(t *testing.T) {
	for _, c := range []struct {
		text string
		want []int // nil: refused
	}{
		{"7", []int{7}},
		{"0-3", []int{0, 1, 2, 3}},
		{"2-4%1", []int{2, 3, 4}},
		{"1,3,5-7", []int{1, 3, 5, 6, 7}},
		{"10-20:5%4", []int{10, 15, 20}},
		{"1,3,5,...", []int{1, 3, 5}},
		{"1,3,...%2", []int{1, 3}},
		{"", nil}, {"...", nil}, {"5,...", nil}, {"a", nil}, {"3-1", nil}, {"1,1", nil}, {"5,2", nil}, {"1-", nil},
		{"-1", nil}, {"1-4:0", nil}, {"4:2", nil},
		{"99999999999999999999", nil},
	} {
		got, err := parseTasks(c.text)
		if !slices.Equal(got, c.want) || (err == nil) != (c.want != nil) {
			t.Errorf("%q: %v, %v, want %v", c.text, got, err, c.want)
		}
	}
	if got, err := parseTasks("0-4000000"); err != nil || len(got) != mostTasks {
		t.Errorf("of four million tasks %d are told: %v", len(got), err)
	}
}

func FuzzTasks(f *testing.F) {
	for _, seed := range []string{"1-3%2", "1,3,...", "0-100:7", "4294967295", "1-4294967295:4294967295"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		tasks, err := parseTasks(text)
		if err == nil && (len(tasks) == 0 || len(tasks) > mostTasks || !slices.IsSorted(tasks)) {
			t.Errorf("%q: %v", text, tasks)
		}
	})
}

func TestAnArrayTellsOfItsTasksAndATaskOfItsArray(t *testing.T) {
	client := startFake(t).open(t, Options{})
	seen, err := client.Observe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var told []string
	for _, j := range seen.Jobs {
		if j.Array != 0 {
			told = append(told, fmt.Sprintf("%d: task %d of %d, stands for %v, %d at once", j.ID, j.Task, j.Array,
				j.Tasks, j.AtOnce))
		}
	}
	equal(t, "arrays", told, []string{"83: task 0 of 83, stands for [2 3 4], 1 at once",
		"91: task 1 of 83, stands for [], 1 at once"})
}

// TestTheLastTaskOfAnArrayIsNotTakenForAllOfThem: it has the array's number, by which Slurm would signal and requeue
// every task.
func TestTheLastTaskOfAnArrayIsNotTakenForAllOfThem(t *testing.T) {
	argv, log := fakeScontrol(t, "exit 0")
	fake, client, _ := watched(t, Options{Scontrol: argv})
	id := fake.jobNamed(t, "running")
	fake.set(id, "array_job_id", map[string]any{"set": true, "number": id})
	fake.set(id, "array_task_id", map[string]any{"set": true, "number": 0})
	if err := client.Requeue(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	equal(t, "arguments", lines(t, log), []string{"requeue", "Incomplete", fmt.Sprintf("%d_0", id)})
	if err := client.Signal(t.Context(), id, slurm.Signal{Name: "USR1"}); err != nil {
		t.Fatal(err)
	}
	if saw := fake.saw(); !strings.Contains(saw[len(saw)-1], fmt.Sprintf("/job/%d_0", id)) {
		t.Errorf("signalled by %s", saw[len(saw)-1])
	}
}

func TestTasksGetJobsOfTheirOwnByOneUpdateThatSaysNothingNew(t *testing.T) {
	for _, c := range []struct {
		tasks []int
		want  string // empty: nothing is said
	}{
		{[]int{2, 3}, "JobId=83_[2,3]"},
		{[]int{2, 3, 4}, "JobId=83_[2,3]"}, // the last one keeps the array's job
		{[]int{1, 3, 9}, "JobId=83_[3]"},   // one has a job of its own, one there is not
		{[]int{1}, ""},
	} {
		argv, log := fakeScontrol(t, "exit 0")
		fake, client, _ := watched(t, Options{Scontrol: argv})
		fake.set(83, "extra", `{"v":1,"lua":1,"begin":0}`)
		if err := client.Split(t.Context(), 83, c.tasks); err != nil {
			t.Fatal(err)
		}
		if c.want == "" {
			if _, err := os.Stat(log); err == nil {
				t.Errorf("%v: scontrol was called", c.tasks)
			}
			continue
		}
		equal(t, "arguments", lines(t, log), []string{"update", c.want, `Extra={"v":1,"lua":1,"begin":0}`})
	}
}

func TestAnArrayThatIsHeldGoneOrRefusedIsNotSplit(t *testing.T) {
	argv, _ := fakeScontrol(t, "echo Invalid job id specified; exit 1")
	fake, client, _ := watched(t, Options{Scontrol: argv})
	if err := client.Split(t.Context(), 83, []int{2}); !errors.Is(err, slurm.ErrRefused) ||
		!strings.Contains(err.Error(), "Invalid job id") {
		t.Errorf("refused: %v", err)
	}
	if err := client.Split(t.Context(), 999999, []int{2}); !errors.Is(err, slurm.ErrGone) {
		t.Errorf("gone: %v", err)
	}
	fake.set(83, "state_reason", "JobHeldUser")
	if err := client.Split(t.Context(), 83, []int{2}); !errors.Is(err, slurm.ErrHeld) {
		t.Errorf("held: %v", err)
	}
}

func TestATaskThatIsCancelledMeanwhileIsNoRefusalOfTheOthers(t *testing.T) {
	argv, _ := fakeScontrol(t, "exit 1")
	fake, client, _ := watched(t, Options{Scontrol: argv})
	reads := 0
	fake.answers("GET", "/job/83", func(w http.ResponseWriter, _ *http.Request) {
		if reads++; reads == 2 {
			fake.set(83, "array_task_string", "4")
		}
		fake.one(w, 83)
	})
	if err := client.Split(t.Context(), 83, []int{2, 3}); err != nil {
		t.Errorf("the others were split off: %v", err)
	}
}

func TestAnArrayIsReadAgainWhenItsTasksHaveBecomeFewer(t *testing.T) {
	entries := func(tasks ...int) (list []wire.State) {
		for _, task := range tasks {
			list = append(list, wire.State{Job: fmt.Sprintf("83_%d", task), Words: []string{"PENDING"}})
		}
		return list
	}
	m := &jobCache{jobs: map[int]*knownJob{83: {parsedJob: parsedJob{stateText: "PENDING",
		Job: slurm.Job{ID: 83, State: slurm.Pending, Reason: "Resources"}}}},
		touched: map[int]bool{}, tasks: map[int]string{}}
	look := func(list []wire.State) []int {
		states, err := foldStates(list, nil)
		if err != nil {
			t.Fatal(err)
		}
		doubtful := m.doubtful(states, time.Unix(1800000000, 0))
		m.count(states)
		return doubtful
	}
	for _, c := range []struct {
		when string
		left []wire.State
		want int
	}{
		{"at first", entries(2, 3, 4), 1}, {"as before", entries(2, 3, 4), 0}, {"after scancel 83_3", entries(2, 4), 1},
		{"as before", entries(2, 4), 0},
	} {
		if got := look(c.left); len(got) != c.want {
			t.Errorf("%s: %v are read", c.when, got)
		}
	}
}

func TestBeingWatchedTakesSlurmrestdATenthOfItsTimeAtMost(t *testing.T) {
	fake, client, clock := watched(t, Options{})
	states := fake.states()
	fake.answers("GET", "/jobs/state/", func(w http.ResponseWriter, _ *http.Request) {
		clock.at = clock.at.Add(300 * time.Millisecond)
		say(w, 200, states)
	})
	sweeps := 0
	for range 60 {
		if quiet, err := client.Quiet(t.Context()); err != nil || !quiet {
			t.Fatal(quiet, err)
		}
		sweeps += len(fake.saw())
		clock.at = clock.at.Add(time.Second)
	}
	if sweeps < 10 || sweeps > 20 {
		t.Errorf("%d sweeps of 0.3 s each in 60 s", sweeps)
	}
	clock.at = clock.at.Add(-time.Hour) // Slurm's clock is set
	if quiet, err := client.Quiet(t.Context()); err != nil || quiet {
		t.Errorf("all is taken to be quiet after the clock was set: %v", err)
	}
}
