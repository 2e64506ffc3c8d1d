//go:build live

package live

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// hostileText is what a user may write where Slurm lets him: markup, a shell's words, a terminal's, another line of a
// log.
const hostileText = "<script>alert(1)</script> $(touch /shared/out/owned) `id`; \x1b]0;owned\x07 \"}{\u202e"

func TestACommentThatIsTooLongIsRefusedByEveryWayIn(t *testing.T) {
	c := OpenCluster(t)
	long := "synergy-profile=res18.json " + strings.Repeat("x", 10<<20)
	answer := c.Post(c.TokenOf("alice"), "/job/submit", submission(long))
	t.Logf("10 MB by REST: HTTP %d, error %d", answer.Status, answer.Refusal())
	if answer.Status == http.StatusOK {
		c.CancelAtEnd(answer.JobID)
		t.Error("10 MB are taken by REST")
	}
	if id, err := c.Sbatch("alice", sleeper, "--gres=gpu:1",
		"--comment=synergy-profile=res18.json "+strings.Repeat("x", 100_000)); err == nil {
		t.Errorf("job %s has a comment of 100 kB", id)
	}
	for name, comment := range map[string]string{"a line break": "synergy-profile=res18.json\nx",
		"an escape": "synergy-profile=res18.json \x1b[31m"} {
		if id, err := c.Sbatch("alice", sleeper, "--gres=gpu:1", "--comment="+comment); err == nil {
			t.Errorf("job %s has %s in its comment", id, name)
		}
	}
}

// TestARunningJobsOwnerChangesItsReportAndNoOtherWord also tries a comment that is too long, one with a line break, and
// somebody else's job.
func TestARunningJobsOwnerChangesItsReportAndNoOtherWord(t *testing.T) {
	c := OpenCluster(t)
	words := "synergy-profile=res18.json synergy-checkpoint=USR1@20"
	id := c.MustSbatch("alice", sleeper, "--gres=gpu:1", "--comment="+words+" synergy-progress")
	_, err := c.Sbatch("alice", sleeper, "--gres=gpu:1", "--comment="+words+" synergy-progress=5@1767268800")
	wantRefusal(t, err, "only while the job runs")
	if answer := c.Post(c.Token(), "/job/"+id.String(),
		map[string]any{"begin_time": 1}); answer.Status != http.StatusOK {
		t.Fatalf("start: %+v", answer)
	}
	c.WaitForState(id, "RUNNING")
	for _, comment := range []string{words + " synergy-progress=1200@1767268800",
		"mine " + words + " synergy-progress=1300@1767268900", words, words + " synergy-progress"} {
		if err := c.Update("alice", id, "comment="+comment); err != nil {
			t.Errorf("%q: %v", comment, err)
		}
	}
	for comment, sentence := range map[string]string{
		"synergy-profile=gnmt.json synergy-checkpoint=USR1@20": "stay as they were submitted",
		"":                                 "stay as they were submitted",
		words + " synergy-length=1s":       "stay as they were submitted",
		words + " synergy-progress=fast@1": "synergy-progress=1200@",
		words + " synergy-progress=1@1 synergy-progress=2@2": "give it once",
		words + " " + strings.Repeat("x", 5000):              "longer than 4096 bytes",
		words + "\nforged":                                   "control character",
	} {
		wantRefusal(t, c.Update("alice", id, "comment="+comment), sentence)
	}
	if err := c.Update("bob", id, "comment="+words+" synergy-progress=1@1767268800"); err == nil {
		t.Error("bob reports for alice's job")
	}
	if got := c.ShowJob(id)["Comment"]; !strings.Contains(got, words) {
		t.Errorf("the comment is %q", got)
	}
}

// TestWhateverOwnersDoToTheirJobsTheRoundsGoOn: they requeue, hold and release, re-time, cancel, copy another's
// annotation and name their jobs as they like, while a job of somebody else is to be started in time and nothing of
// their text reaches the log but as text.
func TestWhateverOwnersDoToTheirJobsTheRoundsGoOn(t *testing.T) {
	c, d := SetUp(t, "fifo", "tune")
	d.Start()
	named := c.MustSbatch("alice", sleeper, word("res18"), "--gres=gpu:1", "--job-name="+hostileText, output)
	c.WaitForState(named, "RUNNING")
	copied := c.ShowJob(named)["Extra"]
	if _, err := c.Sbatch("bob", sleeper, word("res18"), "--gres=gpu:1", "--extra="+copied, output); err == nil {
		t.Error("bob may copy an annotation")
	}
	forged := c.MustSbatch("bob", sleeper, word("res18"), "--gres=gpu:1", "--extra= "+copied, output)
	c.MustExec("login", "alice", "scontrol", "requeue", named.String())
	_ = c.Update("alice", named, "timelimit=60")
	held := c.MustSbatch("alice", sleeper, word("res18"), "--gres=gpu:1", "--hold", output)
	c.MustExec("login", "alice", "scontrol", "release", held.String())
	cancelled := c.MustSbatch("alice", sleeper, word("res18"), "--gres=gpu:1", output)
	c.MustExec("login", "alice", "scancel", cancelled.String())
	began := time.Now()
	other := c.MustSbatch("bob", sleeper, word("gnmt"), "--gres=gpu:1", output)
	for _, id := range []JobID{other, forged, held, named} {
		c.WaitForState(id, "RUNNING")
	}
	t.Logf("all run %s after the last was submitted", time.Since(began).Round(time.Second))
	if extra := c.ShowJob(forged)["Extra"]; !strings.Contains(extra, `"job":`+forged.String()) {
		t.Errorf("the copied annotation stands: %s", extra)
	}
	for _, line := range d.Log() {
		if line["level"] == "error" {
			t.Errorf("log: %v", line)
		}
	}
	if raw := d.Read("log") + d.Get("/round"); strings.ContainsAny(raw, "\x1b\x07\u202e") &&
		strings.Contains(d.Read("log"), "\x1b") {
		t.Error("a terminal's words are in the log")
	}
	if _, err := c.Exec("login", "root", "test", "!", "-e", "/shared/out/owned"); err != nil {
		t.Error("a shell has read the name of a job")
	}
}

// TestAJobThatAlwaysExitsForARequeueIsHeldBack: nobody asks it, it exits with the requeue code at once, again and
// again.
func TestAJobThatAlwaysExitsForARequeueIsHeldBack(t *testing.T) {
	c, d := SetUp(t, "fifo", "tune")
	d.Start()
	id := c.MustSbatch("alice", "exit 98", word("res18"), "--gres=gpu:1", output)
	c.WaitFor("it is told that it is held back", func() bool {
		return strings.Contains(c.ShowJob(id)["Extra"], "without being asked to leave") ||
			strings.Contains(d.Read("log"), "requeue exit code")
	})
	t.Logf("restarts: %s", c.ShowJob(id)["Restarts"])
}

// TestALyingProfileIsFoundOutAndItsJobGetsTheShare: a job trains as ResNet-18, its word claims a hundredfold with 24
// cores. It reports every five seconds. A truthful one beside it keeps what it has.
func TestALyingProfileIsFoundOutAndItsJobGetsTheShare(t *testing.T) {
	c, d := SetUp(t, "fifo", "tune", "audit_window: 10s")
	d.Put(
		"profiles/liar.json",
		`{"version":1,"model":"liar","task":"image","gpu_type":"V100","batch":512,"cores_per_gpu":[3,24],"memory_per_gpu_mib":[62500],`+
			`"throughput_samples_per_s":[[800],[80000]],"checkpoint_s":1,"start_s":0}`,
	)
	d.Start()
	submit := func(profile string) JobID {
		comment := word(profile) + " synergy-progress"
		script := train("res18", 100_000, 1) + ` --report "` + strings.TrimPrefix(word(profile), "--comment=") + `"`
		return c.MustSbatch("alice", script, comment, "--gres=gpu:1", "-w", "n1", output, "--open-mode=append")
	}
	liar := submit("liar")
	c.WaitForState(liar, "RUNNING")
	if _, has := c.Allocation(liar); has["cpu"] != 24 {
		t.Fatalf("alone the liar holds %v, want all 24 cores", has)
	}
	began := time.Now()
	c.WaitFor(
		"the liar is found out",
		func() bool { return strings.Contains(d.Get("/metrics"), "synergy_jobs_contradicting 1") },
	)
	c.WaitFor(
		"the liar has its share",
		func() bool { _, has := c.Allocation(liar); return has["cpu"] == 3 && has["mem"] == 3*20833 },
	)
	t.Logf("back at the share after %s", time.Since(began).Round(time.Second))
	honest := submit("res18")
	c.WaitForState(honest, "RUNNING")
	time.Sleep(45 * time.Second)
	if _, has := c.Allocation(honest); has["cpu"] != 9 {
		t.Errorf("the truthful job holds %v, want its 9 cores", has)
	}
	var round struct {
		Contradicting []struct {
			Job JobID
		}
	}
	if err := json.Unmarshal([]byte(d.Get("/round")), &round); err != nil || len(round.Contradicting) != 1 ||
		round.Contradicting[0].Job != liar {
		t.Errorf("%v: contradicting %+v, want job %s alone", err, round.Contradicting, liar)
	}
}

// TestTheTokenIsNowhere looks for it wherever somebody else could: at level debug, with a hook that tells its
// environment and scontrol by token.
func TestTheTokenIsNowhere(t *testing.T) {
	c, d := SetUp(t, "las", "tune", "checkpoint_hook:", "  before: [/shared/synergy/dump]")
	c.MustExec(
		"login",
		"synergy",
		"sh",
		"-c",
		`printf '#!/bin/sh\nenv >> /shared/synergy/dump.said\n' > /shared/synergy/dump; chmod 700 /shared/synergy/dump; rm -f /shared/synergy/dump.said`,
	)
	d.Start("--log-level", "debug", "--scontrol-by-token")
	deaf := "trap '' USR1; sleep 300"
	for range len(c.nodes()) {
		c.MustSbatch("alice", deaf, "--comment=synergy-profile=gnmt.json synergy-checkpoint=USR1@1", "--gres=gpu:8",
			output)
	}
	c.WaitFor("all run", func() bool {
		return strings.Count(c.MustExec("login", "root", "squeue", "-h", "-t", "R", "-o", "%i"),
			"\n") == len(c.nodes())-1
	})
	time.Sleep(2 * d.Round)
	c.MustSbatch("bob", "sleep 60", "--comment=synergy-profile=gnmt.json", "--gres=gpu:8", output)
	token := c.Token()
	token = token[len(token)-20:]
	var ps string
	for range 40 {
		ps += c.MustExec("login", "root", "ps", "-ef", "-ww")
		time.Sleep(250 * time.Millisecond)
	}
	dump, _ := c.Exec("login", "synergy", "cat", "/shared/synergy/dump.said")
	if !strings.Contains(dump, "SYNERGY_JOB_ID=") {
		t.Errorf("the hook was not run: %q", dump)
	}
	for where, text := range map[string]string{"log": d.Read("log"), "/round": d.Get("/round"),
		"/rounds": d.Get("/rounds"), "/metrics": d.Get("/metrics"),
		"/healthz": d.Get("/healthz"), "ps": ps, "hook": dump} {
		if strings.Contains(text, token) {
			t.Errorf("the token is in %s", where)
		}
	}
	t.Log(fmt.Sprintf("looked through %d bytes of log and %d of ps", len(d.Read("log")), len(ps)))
}
