//go:build live

package live

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

const (
	profile = "--comment=synergy-profile=res18.json"
	sleeper = "sleep 300"

	accessDenied = 2002 // ESLURM_ACCESS_DENIED
	notSupported = 2036 // ESLURM_NOT_SUPPORTED
)

// begins is the job's begin time.
func begins(t *testing.T, c *Cluster, id JobID) time.Time {
	t.Helper()
	text := c.ShowJob(id)["StartTime"]
	begin, err := time.Parse("2006-01-02T15:04:05", text)
	if err != nil {
		t.Fatalf("begin time of job %s: %v", id, err)
	}
	return begin
}

// aboutNow tells whether two times differ by no more than a slow submit.
func aboutNow(got, want time.Time) bool {
	return got.Sub(want).Abs() < 10*time.Second
}

func lease(c *Cluster) time.Duration { return time.Duration(c.Setting("LEASE")) * time.Second }

func wantRefusal(t *testing.T, err error, sentence string) {
	t.Helper()
	if err == nil {
		t.Errorf("accepted; want it refused with %q", sentence)
	} else if !strings.Contains(err.Error(), "synergy: ") || !strings.Contains(err.Error(), sentence) {
		t.Errorf("refused with %q, want %q", err, sentence)
	}
}

func TestAManagedJobWaitsForOneLease(t *testing.T) {
	c := OpenCluster(t)
	id := c.MustSbatch("alice", sleeper, "--gres=gpu:1", profile)
	if got, want := begins(t, c, id), time.Now().UTC().Add(lease(c)); !aboutNow(got, want) {
		t.Errorf("begins %v, want about %v", got, want)
	}
	job := c.ShowJob(id)
	for key, want := range map[string]string{
		"JobState":  "PENDING",
		"Extra":     `{"v":1,"lua":1,"begin":0}`,
		"CPUs/Task": "1",
	} {
		if job[key] != want {
			t.Errorf("%s is %q, want %q", key, job[key], want)
		}
	}
}

func TestALaterBeginTimeOfTheUserIsKept(t *testing.T) {
	c := OpenCluster(t)
	own := time.Now().UTC().Add(lease(c) + time.Hour).Truncate(time.Second)
	id := c.MustSbatch("alice", sleeper, "--gres=gpu:1", profile, "--begin="+own.Format("2006-01-02T15:04:05"))
	if got := begins(t, c, id); !got.Equal(own) {
		t.Errorf("begins %v, want the user's %v", got, own)
	}
	want := fmt.Sprintf(`{"v":1,"lua":1,"begin":%d}`, own.Unix())
	if got := c.ShowJob(id)["Extra"]; got != want {
		t.Errorf("annotation %s, want %s", got, want)
	}
}

func TestAnEarlierBeginTimeOfTheUserGivesWayToTheLease(t *testing.T) {
	c := OpenCluster(t)
	id := c.MustSbatch("alice", sleeper, "--gres=gpu:1", profile, "--begin=now+5")
	if got, want := begins(t, c, id), time.Now().UTC().Add(lease(c)); !aboutNow(got, want) {
		t.Errorf("begins %v, want about %v", got, want)
	}
}

func TestAnAnnotationThatTheUserWroteIsReplaced(t *testing.T) {
	c := OpenCluster(t)
	id := c.MustSbatch("alice", sleeper, "--gres=gpu:1", profile, `--extra={"v":1,"round":7}`)
	if got, want := c.ShowJob(id)["Extra"], `{"v":1,"lua":1,"begin":0}`; got != want {
		t.Errorf("annotation %s, want %s", got, want)
	}
}

func TestAHeldJobStaysHeldAndItsOwnerReleasesIt(t *testing.T) {
	c := OpenCluster(t)
	id := c.MustSbatch("alice", sleeper, "--gres=gpu:1", profile, "--hold")
	if reason := c.ShowJob(id)["Reason"]; reason != "JobHeldUser" {
		t.Errorf("reason %s", reason)
	}
	c.MustExec("login", "alice", "scontrol", "release", id.String())
	c.WaitFor("the release leaves the lease in force", func() bool { return c.ShowJob(id)["Reason"] == "BeginTime" })
}

func TestAJobWithoutOurWordPassesAsItCame(t *testing.T) {
	c := OpenCluster(t)
	id := c.MustSbatch("alice", "true", "--gres=gpu:1", "--extra=mine", "--comment=not-synergy-profile=x synergyish")
	c.WaitForState(id, "COMPLETED")
	if extra := c.ShowJob(id)["Extra"]; extra != "mine" {
		t.Errorf("extra %q", extra)
	}
}

func TestInAnUnmanagedPartitionOurWordIsJustText(t *testing.T) {
	c := OpenCluster(t)
	id := c.MustSbatch("alice", "true", "-p", "plain", "--extra=mine",
		"--comment=synergy-profile=../no synergy-nonsense")
	c.WaitForState(id, "COMPLETED")
	if extra := c.ShowJob(id)["Extra"]; extra != "mine" {
		t.Errorf("extra %q", extra)
	}
}

// TestAResizedJobThatNeverNamedItsCPUsHasThemAll: no variable says so that would not be there without us.
func TestAResizedJobThatNeverNamedItsCPUsHasThemAll(t *testing.T) {
	c := OpenCluster(t)
	file := "/shared/out/cpus-$SLURM_JOB_ID"
	id := c.MustSbatch(
		"alice",
		"echo ${SLURM_CPUS_PER_TASK-unsaid} $(srun sh -c 'echo ${SLURM_CPUS_PER_TASK-unsaid} "+
			"$SLURM_CPUS_ON_NODE') > "+file,
		"--gres=gpu:1",
		profile,
	)
	answer := c.Post(c.Token(), "/job/"+id.String(), map[string]any{
		"begin_time": 1, "tasks": 1, "cpus_per_task": 6, "minimum_cpus": 6, "minimum_cpus_per_node": 6,
		"required_nodes": []string{"n1"},
	})
	if answer.Status != http.StatusOK || answer.Refusal() != 0 {
		t.Fatalf("re-size: %+v", answer)
	}
	c.WaitForState(id, "COMPLETED")
	file = strings.Replace(file, "$SLURM_JOB_ID", id.String(), 1)
	t.Cleanup(func() { c.MustExec("login", "root", "rm", file) })
	if seen := c.MustExec("login", "alice", "cat", file); seen != "unsaid unsaid 6" {
		t.Errorf("SLURM_CPUS_PER_TASK in script and step, and the step's cores: %q, want unsaid unsaid 6", seen)
	}
}

func TestGoodWordsAreAccepted(t *testing.T) {
	c := OpenCluster(t)
	for _, comment := range []string{
		"synergy-profile=a.json",
		"my words, synergy-profile=GPT-2_v1.3.json,others",
		"synergy-profile=a.json synergy-checkpoint",
		"synergy-profile=a.json synergy-checkpoint=HUP",
		"synergy-checkpoint=USR2@3600 synergy-profile=a.json",
		"synergy-profile=a.json synergy-checkpoint=USR1@60/steps",
		"synergy-profile=a.json synergy-checkpoint=USR2/steps",
		"synergy-profile=a.json synergy-length=90s",
		"synergy-length=0.5d,synergy-profile=a.json",
		"synergy-profile=a.json,synergy-share=high,mem=6.5,slo=50,mine",
		"synergy-profile=res18.json synergy-share=low,mem=6",
	} {
		if _, err := c.Sbatch("alice", sleeper, "--gres=gpu:1", "--comment="+comment); err != nil {
			t.Errorf("%q: %v", comment, err)
		}
	}
}

func TestABadWordIsRefusedWithASentenceThatNamesIt(t *testing.T) {
	c := OpenCluster(t)
	long := strings.Repeat("x", 128)
	for _, test := range []struct{ comment, sentence string }{
		{"synergy-profile", "the word synergy-profile is not right"},
		{"synergy-profile=", "the word synergy-profile= is not right"},
		{"synergy-profile=a", "the word synergy-profile=a is not right"},
		{"synergy-profile=.json", "the word synergy-profile=.json is not right"},
		{"synergy-profile=../a.json", "the word synergy-profile=../a.json is not right"},
		{"synergy-profile=a..b.json", "the word synergy-profile=a..b.json is not right"},
		{"synergy-profile=dir/a.json", "without a path"},
		{"synergy-profile=-a.json", "the word synergy-profile=-a.json is not right"},
		{"synergy-profile=%s%d.json", "the word synergy-profile=%s%d.json is not right"},
		{"synergy-profile=" + long + ".json", "no longer than 128 characters"},
		{"synergy-profile=a.json synergy-profile=b.json", "another synergy-profile; give it once"},
		{"synergy-profile=a.json synergy-checkpoint=", "the word synergy-checkpoint= is not right"},
		{"synergy-profile=a.json synergy-checkpoint=KILL", "the word synergy-checkpoint=KILL is not right"},
		{"synergy-profile=a.json synergy-checkpoint=USR1@0", "1 to 3600 whole seconds"},
		{"synergy-profile=a.json synergy-checkpoint=USR1@3601", "1 to 3600 whole seconds"},
		{"synergy-profile=a.json synergy-checkpoint=USR1@1.5", "1 to 3600 whole seconds"},
		{"synergy-profile=a.json synergy-checkpoint=@60", "1 to 3600 whole seconds"},
		{"synergy-profile=a.json synergy-checkpoint=USR1@3601/steps", "1 to 3600 whole seconds"},
		{"synergy-profile=a.json synergy-checkpoint=USR1@/steps", "synergy-checkpoint=USR1@/steps is not right"},
		{"synergy-profile=a.json synergy-checkpoint=/steps", "synergy-checkpoint=/steps is not right"},
		{"synergy-profile=a.json synergy-checkpoint=USR1/script", "and /steps where the tasks of srun"},
		{"synergy-profile=a.json synergy-checkpoint=USR1@60/steps/steps",
			"synergy-checkpoint=USR1@60/steps/steps is not right"},
		{"synergy-profile=a.json synergy-length", "a positive number and its unit"},
		{"synergy-profile=a.json synergy-length=90", "a positive number and its unit"},
		{"synergy-profile=a.json synergy-length=0h", "a positive number and its unit"},
		{"synergy-profile=a.json synergy-length=-1h", "a positive number and its unit"},
		{"synergy-profile=a.json synergy-length=2.h", "a positive number and its unit"},
		{"synergy-profile=a.json synergy-env=yes", "the word synergy-env=yes is not right; it should be " +
			"synergy-env=on or synergy-env=off"},
		{"synergy-profile=a.json synergy-share=low,mem=0", "the word synergy-share=low,mem=0 is not right"},
		{"synergy-profile=a.json synergy-share=low, mem=6", "the word mem=6 reads like an amount of synergy-share"},
		{"synergy-profile=a.json synergy-lenght=2h", "the word synergy-lenght=2h is not a word that I know"},
		{"synergy-checkpoint", "no synergy-profile=NAME.json"},
		{"synergy-profile=a.json " + strings.Repeat("x", 4096), "longer than 4096 bytes"},
		{"synergy-profile=a.json\abell", "control character"},
	} {
		_, err := c.Sbatch("alice", sleeper, "--gres=gpu:1", "--comment="+test.comment)
		wantRefusal(t, err, test.sentence)
	}
}

func TestShapesThatTheDaemonCanDriveAreAccepted(t *testing.T) {
	c := OpenCluster(t)
	for _, shape := range []string{
		"--gres=gpu:2",
		"--gres=gpu",
		"--gpus=2",
		"--gpus=2 -N 1",
		"--gpus-per-node=2 -N 2 --ntasks-per-node=1",
		"--gpus-per-task=1 -n 4",
		"--gpus-per-task=1 -N 2 --ntasks-per-node=2",
		"--gres=gpu:1 -c 3",
		"--gres=gpu:1 --cpus-per-gpu=3",
		"--gres=gpu:1 --mem-per-gpu=4000",
		"--gres=gpu:1 --mem=4000",
		"--gres=gpu:1 -C hopper&nvlink",
		"--gres=gpu:1 -w n1 --no-requeue",
		"--gres=gpu:1 -p synergy",
		"--gres=gpu:1 --gpus=1",
		"--gpus-per-node=1 --gpus-per-task=1 -n1",
		"--gpus-per-task=1 -N4 -n4",
		"--gres=gpu:1 --mem=0",
		"--gres=gpu:1 --exclusive",
		"--gres=gpu:1 -C hopper|nvlink",
		"--gres=gpu:1 -C (hopper|nvlink)&hopper",
	} {
		if _, err := c.Sbatch("alice", sleeper, append(strings.Fields(shape), profile)...); err != nil {
			t.Errorf("%s: %v", shape, err)
		}
	}
}

func TestAShapeThatTheDaemonCannotDriveIsLeftToSlurmWithASentence(t *testing.T) {
	c := OpenCluster(t)
	for _, test := range []struct{ shape, sentence string }{
		{"", "sizes jobs with GPUs only"},
		{"--gres=gpu:0", "sizes jobs with GPUs only"},
		{"--gres=shard:2", "sizes jobs with GPUs only"},
		{"--gpus-per-socket=1 --sockets-per-node=2", "does not know --gpus-per-socket"},
		{"--gpus=4 -N 2", "cannot tell how --gpus is split"},
		{"--gpus-per-task=1 -N 2 -n 4", "add --ntasks-per-node"},
		{"--gres=gpu:1 --exclusive=user", "leave --exclusive=user and =mcs out"},
		{"--gres=gpu:1 --contiguous", "--contiguous cannot be kept"},
		{"--gres=gpu:1 -p plain,synergy", "of managed partitions only, and of yours these are synergy;"},
		{"--gres=gpu:1 -N 1-2", "cannot choose among 1 to 2 nodes; say -N 2 for the most of them"},
		{"--gres=gpu:1 -C hopper*1", "understands a --constraint such as a&b"},
	} {
		c.mustPass(test.shape, test.sentence)
	}
	if _, err := c.Sbatch("alice", sleeper, "--gres=gpu:1", profile, ":", "--gres=gpu:1", profile); err != nil {
		t.Errorf("a heterogeneous job: %v", err)
	}
}

func TestAScrontabJobIsSlurms(t *testing.T) {
	c := OpenCluster(t)
	t.Cleanup(func() { _, _ = c.Exec("login", "bob", "scrontab", "-r") })
	crontab := "#SCRON --gres=gpu:1 " + profile + "\n0 0 1 1 * true\n"
	if out, err := c.ExecInput("login", "bob", crontab, "scrontab", "-"); err != nil {
		t.Errorf("%s: %v", out, err)
	}
}

func TestOwnersCannotChangeWhatTheDaemonDecides(t *testing.T) {
	c := OpenCluster(t)
	id := c.MustSbatch("alice", sleeper, "--gres=gpu:1", "--comment=synergy-profile=a.json synergy-length=2h mine")
	before := c.ShowJob(id)
	for _, test := range []struct{ change, sentence string }{
		{"StartTime=now", "the begin time of a job"},
		{"StartTime=now+10days", "the begin time of a job"},
		{"ReqNodeList=n1", "the required nodes of a job"},
		{"ReqNodeList=", "the required nodes of a job"},
		{"ExcNodeList=n1", "the excluded nodes of a job"},
		{"NumNodes=2", "the number of nodes of a job"},
		{"NumCPUs=4", "the number of CPUs of a job"},
		{"CpusPerTask=4", "the number of CPUs of a job"},
		{"MinCPUsNode=4", "the number of CPUs of a job"},
		{"CpusPerTres=gres/gpu:4", "the number of CPUs of a job"},
		{"NumTasks=2", "the number of tasks of a job"},
		{"TasksPerNode=2", "the number of tasks of a job"},
		{"ReqCores=1", "the CPU layout of a job"},
		{"MinMemoryNode=9000", "the memory of a job"},
		{"MinMemoryCPU=900", "the memory of a job"},
		{"MemPerTres=gres/gpu:900", "the memory of a job"},
		{"Gres=gpu:2", "the GPUs of a job"},
		{"TresPerNode=gres/gpu:2", "the GPUs of a job"},
		{"TresPerJob=gres/gpu:2", "the GPUs of a job"},
		{"TresPerTask=gres/gpu:2", "the GPUs of a job"},
		{"TresBind=gres/gpu:closest", "the GPUs of a job"},
		{"Priority=5", "the priority of a job"},
		{"Partition=plain", "the partition of a job"},
		{"Features=hopper", "the features of a job"},
		{"Prefer=hopper", "the features of a job"},
		{"Reservation=x", "the reservation of a job"},
		{"Contiguous=1", "the sharing of nodes of a job"},
		{"Requeue=0", "the requeue flag of a job"},
		{"Extra=forged", "the extra of a job"},
		{"Comment=", "the synergy words of a comment stay"},
		{"Comment=synergy-profile=a.json", "the synergy words of a comment stay"},
		{"Comment=synergy-profile=b.json synergy-length=2h", "the synergy words of a comment stay"},
		{"Comment=synergy-profile=a.json synergy-length=2h synergy-length=2h", "the synergy words of a comment stay"},
	} {
		wantRefusal(t, c.Update("alice", id, test.change), test.sentence)
	}
	after := c.ShowJob(id)
	for _, key := range []string{"StartTime", "Comment", "Extra", "ReqNodeList", "ExcNodeList", "NumCPUs",
		"TresPerNode", "Partition", "Priority"} {
		if before[key] != after[key] {
			t.Errorf("%s went from %q to %q", key, before[key], after[key])
		}
	}
}

func TestOneVetoedFieldRefusesTheWholeUpdate(t *testing.T) {
	c := OpenCluster(t)
	id := c.MustSbatch("alice", sleeper, "--gres=gpu:1", profile, "--job-name=before")
	wantRefusal(t, c.Update("alice", id, "JobName=after", "StartTime=now"), "the begin time of a job")
	if name := c.ShowJob(id)["JobName"]; name != "before" {
		t.Errorf("name is %q", name)
	}
}

func TestOwnersKeepWhatIsTheirs(t *testing.T) {
	c := OpenCluster(t)
	id := c.MustSbatch("alice", sleeper, "--gres=gpu:1", "--comment=synergy-profile=a.json synergy-length=2h mine")
	for _, change := range []string{
		"JobName=renamed",
		"TimeLimit=30",
		"Dependency=singleton",
		"MailUser=alice",
		"Account=users",
		"QOS=normal",
		"WCKey=w",
		"Nice=5",
		"Comment=other words, synergy-length=2h synergy-profile=a.json",
	} {
		if err := c.Update("alice", id, change); err != nil {
			t.Errorf("%s: %v", change, err)
		}
	}
	for _, verb := range []string{"hold", "release"} {
		if _, err := c.Exec("login", "alice", "scontrol", verb, id.String()); err != nil {
			t.Errorf("%s: %v", verb, err)
		}
	}
}

func TestTheDaemonRootAndSlurmUserMayChangeAManagedJob(t *testing.T) {
	c := OpenCluster(t)
	for _, who := range []struct{ role, user string }{{"login", "synergy"}, {"login", "root"}, {"slurmctld", "slurm"}} {
		id := c.MustSbatch("alice", sleeper, "--gres=gpu:1", profile)
		_, err := c.Exec(who.role, who.user, "scontrol", "update", "jobid="+id.String(), "StartTime=now+2hours",
			"ReqNodeList=n1", "Extra=annotation")
		if err != nil {
			t.Errorf("%s: %v", who.user, err)
		}
	}
}

func TestAJobOptsInOnlyWhenItIsSubmitted(t *testing.T) {
	c := OpenCluster(t)
	const sentence = "opts in when it is submitted"
	id := c.MustSbatch("alice", sleeper, "--gres=gpu:1", "--hold")
	wantRefusal(t, c.Update("alice", id, "Comment=synergy-profile=a.json"), sentence)

	id = c.MustSbatch("alice", sleeper, "--gres=gpu:1", "--hold", "-p", "plain", profile)
	wantRefusal(t, c.Update("alice", id, "Partition=synergy"), sentence)
}

func TestAnUnmanagedJobIsItsOwnersToChange(t *testing.T) {
	c := OpenCluster(t)
	id := c.MustSbatch("alice", sleeper, "--gres=gpu:1", "--hold")
	for _, change := range []string{"StartTime=now+60", "Gres=gpu:2", "ReqNodeList=n1", "Extra=mine", "Comment=mine",
		"Partition=plain"} {
		if err := c.Update("alice", id, change); err != nil {
			t.Errorf("%s: %v", change, err)
		}
	}
}

// submission is what slurmrestd wants of a submit, with a comment of ours.
func submission(comment string) map[string]any {
	return map[string]any{
		"script": "#!/bin/sh\n" + sleeper + "\n",
		"job": map[string]any{
			"name": "by-rest", "comment": comment, "tres_per_node": "gres/gpu:1",
			"environment": []string{"PATH=/usr/bin:/bin"}, "current_working_directory": "/tmp",
		},
	}
}

func TestSlurmrestdPassesTheSameGateAndVeto(t *testing.T) {
	c := OpenCluster(t)
	alice := c.TokenOf("alice")
	if answer := c.Post(alice, "/job/submit", submission("synergy-profile=bad")); answer.Refusal() != notSupported {
		t.Errorf("a bad word by REST: %+v, want error %d", answer, notSupported)
	}
	accepted := c.Post(alice, "/job/submit", submission("synergy-profile=a.json"))
	if accepted.Status != http.StatusOK {
		t.Fatalf("a good word by REST: %+v", accepted)
	}
	c.CancelAtEnd(accepted.JobID)
	if got, want := begins(t, c, accepted.JobID), time.Now().UTC().Add(lease(c)); !aboutNow(got, want) {
		t.Errorf("begins %v, want about %v", got, want)
	}
	path := "/job/" + accepted.JobID.String()
	if answer := c.Post(alice, path, map[string]any{"begin_time": 1}); answer.Refusal() != accessDenied {
		t.Errorf("the owner by REST: %+v, want error %d", answer, accessDenied)
	}
	if answer := c.Post(alice, path, map[string]any{"name": "mine"}); answer.Refusal() != 0 {
		t.Errorf("the owner renames by REST: %+v", answer)
	}
	if answer := c.Post(c.Token(), path, map[string]any{"begin_time": 1}); answer.Refusal() != 0 {
		t.Errorf("the daemon by REST: %+v", answer)
	}
	c.WaitForState(accepted.JobID, "RUNNING")
}

// While the lua is told of a heartbeat, whatever stands under that name either proves that the daemon lives, or lets
// everything pass.
func TestOnlyAFreshHeartbeatGatesAndVetoes(t *testing.T) {
	c := OpenCluster(t)
	c.nameHeartbeat(30)
	put := func(command string) {
		c.MustExec("login", "synergy", "sh", "-c", "cd /shared/heartbeat; rm -rf beat; "+command)
	}
	put("date +%s > beat")
	kept := c.MustSbatch("alice", sleeper, "--gres=gpu:1", profile)
	for _, test := range []struct {
		what, command string
		alive         bool
	}{
		{"fresh", "date +%s > beat", true},
		{"a little ahead", "date -d +20sec +%s > beat", true},
		{"fresh, with more behind", "{ date +%s; seq 1000; } > beat", true},
		{"missing", "true", false},
		{"old", "date -d -40sec +%s > beat", false},
		{"from the future", "date -d +1hour +%s > beat", false},
		{"empty", ": > beat", false},
		{"garbage", "echo soon > beat", false},
		{"negative", "echo -5 > beat", false},
		{"half a line", "printf %s $(date +%s) > beat", false},
		{"binary", "head -c 4096 /dev/urandom > beat", false},
		{"a number without end", "head -c 100000 /dev/zero | tr '\\0' 9 > beat", false},
		{"huge", "truncate -s 8G beat", false},
		{"a folder", "mkdir beat", false},
		{"not to be read", "date +%s > beat; chmod 0 beat", false},
		{"a link to nowhere", "ln -s nowhere beat", false},
	} {
		put(test.command)
		before := time.Now()
		_, err := c.Sbatch("alice", sleeper, "--gres=gpu:1", "--begin=now+1hour", "--comment=synergy-profile=bad")
		took := time.Since(before)
		vetoed := c.Update("alice", kept, "StartTime=now+2hours")
		if (err != nil) != test.alive || (vetoed != nil) != test.alive || took > 5*time.Second {
			t.Errorf("%s: a bad word: %v, an owner's update: %v, after %s", test.what, err, vetoed, took)
		}
	}
	put("true")
	free := c.MustSbatch("alice", sleeper, "--gres=gpu:1", profile, "--begin=now+1hour")
	if extra := c.ShowJob(free)["Extra"]; extra != "" {
		t.Errorf("a job was gated for nobody: %s", extra)
	}
	put("date +%s > beat")
	wantRefusal(t, c.Update("alice", kept, "StartTime=now+3hours"), "the begin time of a job")
}
