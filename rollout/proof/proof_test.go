package proof_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/rollout"
	"github.com/synergy-slurmd/synergy-slurmd/rollout/proof"
)

var epoch = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

// site is Slurm, a daemon and a clock in memory: one job, and leases of five minutes that the daemon renews.
type site struct {
	now       time.Time
	submitted time.Time
	job       proof.Job
	running   bool // the daemon
	said      []string
	interrupt func(s *site) bool // ctx ends
	ctx       context.Context
	cancel    context.CancelFunc

	// what may go wrong
	unmanaged, deaf, full, resized, handsBack, revives, firstStart bool
	stopFails, startFails                                          error
}

func newSite() *site {
	s := &site{now: epoch, running: true}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s
}

const lease = 5 * time.Minute

func (s *site) Now() time.Time { return s.now }

func (s *site) Sleep(ctx context.Context, d time.Duration) error {
	s.now = s.now.Add(d)
	if s.interrupt != nil && s.interrupt(s) {
		s.cancel()
	}
	s.live()
	return ctx.Err()
}

// live is what daemon and Slurm do in a second.
func (s *site) live() {
	if s.submitted.IsZero() || s.job.State != "PENDING" {
		return
	}
	if s.running && !s.unmanaged && s.now.Sub(s.submitted) >= 3*time.Second {
		s.job.Leased, s.job.Own = true, s.submitted.Add(time.Minute)
		if s.job.Begin.Sub(s.now) < lease/2 && s.now.Sub(s.submitted) >= 30*time.Second { // it is told first
			s.job.Begin = s.now.Add(lease)
		}
	}
	if s.revives && !s.running && s.now.After(s.job.Begin.Add(-time.Minute)) {
		s.running = true
	}
	s.job.Reason = "BeginTime"
	if !s.now.Before(s.job.Begin) {
		s.job.Reason = "Resources"
		if !s.full {
			s.job.State, s.job.Started = "RUNNING", s.now
		}
	}
}

func (s *site) Submit(context.Context) (int, error) {
	s.submitted = s.now
	s.job = proof.Job{State: "PENDING", Begin: s.now.Add(time.Minute),
		Asks: map[string]string{"NumCPUs": "1", "ReqTRES": "cpu=1"}}
	if s.firstStart {
		s.job.State = "RUNNING"
	}
	return 17, nil
}

func (s *site) Look(_ context.Context, job int) (proof.Job, error) {
	if job != 17 {
		return proof.Job{}, fmt.Errorf("job %d is somebody else's", job)
	}
	seen := s.job
	if seen.Asks = maps.Clone(seen.Asks); s.resized && seen.State == "RUNNING" {
		seen.Asks["NumCPUs"] = "9"
	}
	return seen, nil
}

func (s *site) Cancel(_ context.Context, job int) error {
	s.said = append(s.said, fmt.Sprintf("cancel %d", job))
	return nil
}

func (s *site) Stop(context.Context) error {
	s.said = append(s.said, "stop")
	s.running = s.deaf
	if s.handsBack {
		s.job.Begin = s.job.Own
	}
	return s.stopFails
}

func (s *site) Start(ctx context.Context) error {
	s.said = append(s.said, "start")
	if ctx.Err() != nil {
		return ctx.Err()
	}
	s.running = s.startFails == nil
	return s.startFails
}

func (s *site) Answers(context.Context) bool { return s.running }

func (s *site) prove() (rollout.Proof, error) {
	trial := proof.Trial{Slurm: s, Daemon: s, Clock: s, Patience: 2 * time.Minute, Say: func(string, ...any) {}}
	return trial.Run(s.ctx, rollout.Proof{Version: "v1"})
}

func TestTheJobStartsWhenItsLeaseIsOverAndTheDaemonIsStartedAgain(t *testing.T) {
	s := newSite()
	seen, err := s.prove()
	if err != nil || seen.Passed() != nil || !seen.Lapsed() || seen.Job != 17 || seen.Version != "v1" {
		t.Fatalf("%v: %+v", err, seen)
	}
	if after := seen.Started.Sub(seen.Lease); after != 0 || seen.Lease.Sub(seen.Stopped) < lease-time.Minute {
		t.Errorf("%s after the lease, which was over %s after the stop", after, seen.Lease.Sub(seen.Stopped))
	}
	if !s.running || seen.Back == 0 || !slices.Equal(s.said, []string{"stop", "start", "cancel 17"}) {
		t.Errorf("the daemon runs: %t; %v; %+v", s.running, s.said, seen)
	}
}

func TestADaemonThatHandsBackWhenItIsStoppedIsToldApart(t *testing.T) {
	s := newSite()
	s.handsBack = true
	seen, err := s.prove()
	if err != nil || seen.Lapsed() || !strings.Contains(seen.Sentence(), "was handed back and started 30s after") {
		t.Errorf("%v: %s: %+v", err, seen.Sentence(), seen)
	}
}

// Whatever goes wrong, a daemon that was stopped is started again, and the job is cancelled, and no other.
func TestWhateverGoesWrongTheDaemonIsStartedAgainAndTheJobCancelled(t *testing.T) {
	broken := errors.New("it broke")
	for name, c := range map[string]struct {
		wrong func(s *site)
		says  string
		order string
	}{
		"nobody leases it":       {func(s *site) { s.unmanaged = true }, "does not wait any more", "cancel 17"},
		"it starts at once":      {func(s *site) { s.firstStart = true }, "is RUNNING", "cancel 17"},
		"the stop fails":         {func(s *site) { s.stopFails = broken }, "it broke", "stop start cancel 17"},
		"the daemon is deaf":     {func(s *site) { s.deaf = true }, "still answers", "stop start cancel 17"},
		"the daemon comes back":  {func(s *site) { s.revives = true }, "went on answering", "stop start cancel 17"},
		"there is no room":       {func(s *site) { s.full = true }, "for Resources", "stop start cancel 17"},
		"it has another size":    {func(s *site) { s.resized = true }, "NumCPUs=9, asked 1", "stop start cancel 17"},
		"the start fails":        {func(s *site) { s.startFails = broken }, "by hand: it", "stop start cancel 17"},
		"an interrupt before":    {interrupted(2 * time.Second), "canceled", "cancel 17"},
		"an interrupt meanwhile": {interrupted(90 * time.Second), "canceled", "stop start cancel 17"},
	} {
		s := newSite()
		c.wrong(s)
		_, err := s.prove()
		if err == nil || !strings.Contains(err.Error(), c.says) || strings.Join(s.said, " ") != c.order {
			t.Errorf("%s: %v, %v; want %q, %s", name, err, s.said, c.says, c.order)
		}
		if s.running != (s.startFails == nil) {
			t.Errorf("%s: the daemon runs: %t", name, s.running)
		}
	}
}

func interrupted(after time.Duration) func(*site) {
	return func(s *site) { s.interrupt = func(s *site) bool { return s.now.Sub(epoch) >= after } }
}

func TestWithoutADaemonNothingIsDone(t *testing.T) {
	s := newSite()
	s.running = false
	if _, err := s.prove(); err == nil || len(s.said) > 0 || !s.submitted.IsZero() {
		t.Errorf("%v, %v", err, s.said)
	}
}

const shown = `JobId=17 JobName=synergy-proof UserId=ann(1001) JobState=%s Reason=BeginTime Restarts=0 ` +
	`TimeLimit=00:01:00 EligibleTime=1795435200 StartTime=1795435200 EndTime=1795435260 Partition=gpu NumNodes=1 ` +
	`NumCPUs=1 NumTasks=1 CPUs/Task=1 ReqTRES=cpu=1,mem=64M,node=1,billing=1,gres/gpu=1 MinCPUsNode=1 ` +
	`MinMemoryNode=64M ReqNodeList=(null) Comment=synergy-profile=auto TresPerNode=gres/gpu:1 Extra=%s WorkDir=/` + "\n"

func TestWhatScontrolShowsIsReadAndALeaseIsTheDaemonsOwnWord(t *testing.T) {
	own := `{"v":1,"lua":0,"job":17,"begin":1795435100,"why":"own begin EligibleTime=5 JobState=COMPLETED"}`
	j, err := proof.ParseJob(fmt.Sprintf(shown, "PENDING", own), 17)
	if err != nil || !j.Leased || j.Own.Unix() != 1795435100 || j.Begin.Unix() != 1795435200 || !j.Started.IsZero() ||
		j.State != "PENDING" || j.Reason != "BeginTime" ||
		j.Asks["ReqTRES"] != "cpu=1,mem=64M,node=1,billing=1,gres/gpu=1" ||
		j.Asks["TresPerNode"] != "gres/gpu:1" || len(j.Asks) != 9 {
		t.Errorf("%v: %+v", err, j)
	}
	if j, err = proof.ParseJob(fmt.Sprintf(shown, "COMPLETED", own), 17); err != nil || j.Started.Unix() != 1795435200 {
		t.Errorf("%v: %+v", err, j)
	}
	if j, err = proof.ParseJob(fmt.Sprintf(shown, "CANCELLED", own), 17); err != nil || !j.Started.IsZero() {
		t.Errorf("a job that was cancelled has not started: %v: %+v", err, j)
	}
	for _, extra := range []string{"", "(null)", `{"v":1,"lua":1,"begin":5}`, `{"v":1,"job":18}`, `{"v":2,"job":17}`,
		"{"} {
		if j, err := proof.ParseJob(fmt.Sprintf(shown, "PENDING", extra), 17); err != nil || j.Leased {
			t.Errorf("extra %q: %v, leased %t", extra, err, j.Leased)
		}
	}
	for _, text := range []string{"", "JobId=18 JobState=PENDING", "JobId=17"} {
		if _, err := proof.ParseJob(text, 17); err == nil {
			t.Errorf("%q was taken", text)
		}
	}
}

func FuzzParseJob(f *testing.F) {
	f.Add(fmt.Sprintf(shown, "PENDING", `{"v":1,"job":17}`))
	f.Fuzz(func(t *testing.T, text string) {
		j, err := proof.ParseJob(text, 17)
		if err == nil && (j.State == "" || strings.ContainsAny(j.State+j.Reason, "\n\x1b")) {
			t.Errorf("%q: %+v", text, j)
		}
	})
}

// systemctl is a program of that name that notes what it is told.
func systemctl(t *testing.T, fails string) (log string) {
	t.Helper()
	dir := t.TempDir()
	log = filepath.Join(dir, "log")
	text := "#!/bin/sh\necho \"$*\" >>" + log + "\ncase \"$1\" in " + fails + ") echo no such unit >&2; exit 1;; esac\n"
	if err := os.WriteFile(filepath.Join(dir, "systemctl"), []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	return log
}

func TestAUnitIsKilledAndKeptFromComingBackUntilItIsStarted(t *testing.T) {
	log, folder := systemctl(t, "reset-failed"), t.TempDir()
	u := proof.Unit{Name: "synergy-slurmd.service", Folder: folder}
	if err := u.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(u.DropIn())
	if err != nil || string(text) != "[Service]\nRestart=no\n" {
		t.Errorf("%v: %s", err, text)
	}
	for range 2 { // said twice it does no harm
		if err := u.Start(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if _, err := os.Stat(u.DropIn()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("what keeps systemd from starting it stays: %v", err)
	}
	said, err := os.ReadFile(log)
	start := "daemon-reload\nreset-failed synergy-slurmd.service\nstart synergy-slurmd.service\n"
	want := "daemon-reload\nkill --kill-whom=main --signal=KILL synergy-slurmd.service\n" + start + start
	if err != nil || string(said) != want {
		t.Errorf("%v: %s, want %s", err, said, want)
	}
}

func TestAUnitThatCannotBeStartedIsToldInSystemdsWords(t *testing.T) {
	systemctl(t, "start")
	u := proof.Unit{Name: "synergy-slurmd.service", Folder: t.TempDir()}
	if err := u.Start(t.Context()); err == nil || !strings.Contains(err.Error(), "no such unit") {
		t.Errorf("%v", err)
	}
}

// TestAProgramOfSlurmThatIsInterruptedIsNotSaidToHaveBeenKilled: it is, by this program, which is no news to anybody.
func TestAProgramOfSlurmThatIsInterruptedIsNotSaidToHaveBeenKilled(t *testing.T) {
	folder := t.TempDir()
	script := "#!/bin/sh\ntouch " + filepath.Join(folder, "asked") + "\nexec sleep 60\n"
	if err := os.WriteFile(filepath.Join(folder, "scontrol"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", folder+string(os.PathListSeparator)+os.Getenv("PATH"))
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		for ctx.Err() == nil {
			if _, err := os.Stat(filepath.Join(folder, "asked")); err == nil {
				cancel()
			}
			time.Sleep(10 * time.Millisecond)
		}
	}()
	_, err := proof.Programs{}.Look(ctx, 17)
	if want := "look at job 17: scontrol: context canceled"; err == nil || err.Error() != want {
		t.Errorf("%v, want %q", err, want)
	}
}
