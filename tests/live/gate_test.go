//go:build live

package live

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"
)

// asks is the annotation of a job whose user asked for so much in so many words.
func asks(keys ...string) string {
	annotation := `{"v":1,"lua":1,"begin":0`
	for _, key := range keys {
		annotation += `,"` + key + `":1`
	}
	return annotation + "}"
}

func TestWhatAUserAsksForInSoManyWordsStandsInTheAnnotation(t *testing.T) {
	c := OpenCluster(t)
	for options, keys := range map[string][]string{
		"":                  nil,
		"-n 2":              nil,
		"--mem=4000":        {"mem"},
		"--mem-per-cpu=800": {"mem"},
		"--mem-per-gpu=4G":  {"mem"},
		"-c 1":              {"cpus"},
		"-c 3":              {"cpus"},
		"--cpus-per-gpu=3":  {"cpus"},
		"--mincpus=3":       {"cpus"},
		"--time=30":         {"time"},
		"--time=UNLIMITED":  nil,
		"-c 3 --mem=4000 --time=1-0 --comment=synergy-profile=a.json,synergy-memory=give": {"mem", "cpus", "time"},
	} {
		id := c.MustSbatch("alice", sleeper, append([]string{"--gres=gpu:1", profile}, strings.Fields(options)...)...)
		if got := c.ShowJob(id)["Extra"]; got != asks(keys...) {
			t.Errorf("%q: the annotation is %s, want %s", options, got, asks(keys...))
		}
	}
	id := c.MustSbatch("alice", "#SBATCH --mem=4000\nsrun -c 2 true", "--gres=gpu:1", profile)
	if got := c.ShowJob(id)["Extra"]; got != asks("mem", "steps") {
		t.Errorf("in the script: the annotation is %s", got)
	}
}

// sized says whether the gate takes this script's steps for sized in numbers.
func sized(t *testing.T, c *Cluster, script string, options ...string) bool {
	t.Helper()
	id := c.MustSbatch("alice", script, append(options, "--gres=gpu:1", profile)...)
	return strings.Contains(c.ShowJob(id)["Extra"], `"steps":1`)
}

func TestAScriptWhoseStepsHaveASizeInNumbersIsKnown(t *testing.T) {
	c := OpenCluster(t)
	for _, script := range []string{
		"srun -c 4 ./a", "srun -c4 ./a", "srun --cpus-per-task=4 ./a", "srun --cpus-per-task 4 ./a", `srun -c "4" ./a`,
		"/usr/bin/srun -c 4 ./a",
		"srun --mem=32G ./a", "srun --mem-per-cpu 4000 ./a", "srun --mem-per-gpu=10G ./a", "srun --cpus-per-gpu=8 ./a",
		"srun -n 4 ./a", "srun -n4 -c3 ./a", "srun --ntasks=4 ./a", "srun --ntasks-per-node 4 ./a",
		"srun -u -l -N 1 -w n1,n2 --exclusive --export ALL -o out.%j -c 4 ./a", "srun \\\n  -N 1 \\\n  -c 4 ./a",
		"if true; then srun -c 4 ./a; fi", "time srun -c 4 ./a & wait", "host=$(srun -c 4 hostname)",
		"host=`srun -c 4 hostname`",
		`srun -c ${CORES} --mem=32G ./a`, "srun -c $(nproc) --mem=32G ./a",
		`echo "a # b"; srun -c 4 ./a`, "it=\"'\"\nsrun -c 4 ./a", "bash -c 'srun -c 4 ./a'",
		"bash <<EOF\nsrun -c 4 ./a\nEOF",
	} {
		if !sized(t, c, script) {
			t.Errorf("not seen: %s", script)
		}
	}
	for _, script := range []string{
		"srun ./a", "srun", "srun -c", "srun -c $SLURM_CPUS_PER_TASK ./a", `srun -c "${SLURM_CPUS_PER_TASK}" ./a`,
		"srun -c $((CORES/2)) ./a",
		"srun -c 1 ./a", "srun -n 1 ./a", "srun -n1 -N1 ./a", "srun --mem=0 ./a", "srun --gres=gpu:1 -t 10 ./a",
		"srun python train.py -c 4 -n 100 --mem=8", "srun -l -u --exact python train.py --ntasks=4",
		"srun -o out.%j ./a -c 4",
		"# srun -c 4 ./a", "./a # srun -c 4", "  # srun -c 4", "mysrun -c 4 ./a", "./srun.sh -c 4", "mpirun -n 4 ./a",
		"#SBATCH --job-name=srun",
	} {
		if sized(t, c, script) {
			t.Errorf("taken for sized: %s", script)
		}
	}
	if sized(t, c, "srun -n 4 ./a", "-n", "4") {
		t.Error("as many tasks as the job has are no size")
	}
}

// A script is the user's, and slurmctld stands still while the gate reads it.
func TestAHostileScriptCostsTheGateNoTime(t *testing.T) {
	c := OpenCluster(t)
	plain := func(script string) time.Duration {
		began := time.Now()
		c.MustSbatch("alice", script, "--gres=gpu:1", profile, "--hold")
		return time.Since(began)
	}
	usual := plain("srun ./a")
	for name, script := range map[string]string{
		"parentheses that are not closed": strings.Repeat("srun "+strings.Repeat("$(", 500)+"\n", 3000),
		"quotes that are not closed":      strings.Repeat("srun '\"`\n", 300_000),
		"one line":                        strings.Repeat("srun -c $x ", 270_000),
		"lines that go on":                "srun " + strings.Repeat("\\\n", 1_400_000),
		"comments":                        strings.Repeat("# srun -c 4 '\n", 200_000),
		"options without end":             "srun " + strings.Repeat("-c ", 900_000),
	} {
		if took := plain(script); took > usual+2*time.Second {
			t.Errorf("%s: %s, an ordinary one %s", name, took, usual)
		}
	}
}

func TestAMisspeltWordIsRefusedWithTheRightOne(t *testing.T) {
	c := OpenCluster(t)
	for comment, right := range map[string]string{
		"synergy_profile=res18.json":                             "it should be synergy-profile=res18.json",
		"Synergy-Profile=res18.json":                             "it should be synergy-profile=res18.json",
		"SYNERGY_PROFILE=res18.json":                             "it should be synergy-profile=res18.json",
		"synergyprofile=res18.json":                              "it should be synergy-profile=res18.json",
		"synergy\u2013profile=res18.json":                        "it should be synergy-profile=res18.json",
		"synergy_profile:res18.json":                             "it should be synergy-profile=res18.json",
		"synergy-profile=res18.json synergy_checkpoint=USR1@60":  "it should be synergy-checkpoint=USR1@60",
		"mine,synergy-profile=res18.json,synergy_memory=keep,me": "it should be synergy-memory=keep",
		"synergy-profile:res18.json":                             "is not a word that I know",
	} {
		_, err := c.Sbatch("alice", sleeper, "--gres=gpu:1", "--comment="+comment)
		wantRefusal(t, err, right)
	}
	for _, comment := range []string{"synergy", "synergy=profile", "synergyish", "my-synergy_profile=x"} {
		c.MustSbatch("alice", sleeper, "--gres=gpu:1", "--hold", "--comment="+comment)
	}
	c.MustSbatch("alice", sleeper, "-p", "plain", "--hold", "--comment=synergy_profile=res18.json")
}

func TestAWordAboutCoresOrMemoryIsKeepOrGive(t *testing.T) {
	c := OpenCluster(t)
	for _, words := range []string{"synergy-cores=keep", "synergy-cores=give synergy-memory=keep",
		"synergy-memory=give"} {
		c.MustSbatch("alice", sleeper, "--gres=gpu:1", "--comment=synergy-profile=res18.json "+words)
	}
	for words, sentence := range map[string]string{
		"synergy-cores":                         "synergy-cores=keep, not to run with less than you ask for",
		"synergy-cores=4":                       "synergy-cores=keep, not to run with less than you ask for",
		"synergy-memory=no":                     "or synergy-memory=give, to leave that to the profile",
		"synergy-memory=give synergy-memory=no": "another synergy-memory; give it once",
	} {
		_, err := c.Sbatch("alice", sleeper, "--gres=gpu:1", "--comment=synergy-profile=res18.json "+words)
		wantRefusal(t, err, sentence)
	}
}

// TestWhatTheDaemonWouldLeaveAloneIsNotParked: each of these was accepted once, and waited for a whole lease for
// nobody.
func TestWhatTheDaemonWouldLeaveAloneIsNotParked(t *testing.T) {
	c := OpenCluster(t)
	for shape, sentence := range map[string]string{
		"--gres=gpu:1 -w n1,n2 -N 1":                      "as many nodes named by -w",
		"--gres=gpu:1 -w n[1-2] -N 1":                     "as many nodes named by -w",
		"--gres=gpu:1 -w n1 -N 2":                         "as many nodes named by -w",
		"--gpus-per-task=1 -N 2 -n 3 --ntasks-per-node=2": "ask for 2 times --ntasks-per-node tasks",
		"--gpus-per-task=1 -n 3 --ntasks-per-node=2":      "ask for 2 times --ntasks-per-node tasks",
		"--gpus=3 -n 4 --ntasks-per-node=2":               "cannot tell how --gpus is split",
	} {
		c.mustPass(shape, sentence)
	}
	for _, shape := range []string{
		"--gres=gpu:1 -w n1,n2", "--gres=gpu:1 -w n[1-2]", "--gres=gpu:1 -w n[1-2] -N 2", "--gres=gpu:1 -w n1 -N 1",
		"--gres=gpu:1 -w n1 -n 4", "--gres=gpu:1 -x n1,n2",
		"--gpus-per-task=1 -N 2 -n 4 --ntasks-per-node=2", "--gpus-per-task=1 -n 4 --ntasks-per-node=2",
		"--gres=gpu:1 -n 3 -N 2", "--gres=gpu:1 -n 2 --tres-per-task=cpu=2",
	} {
		if _, err := c.Sbatch("alice", sleeper, append(strings.Fields(shape), profile)...); err != nil {
			t.Errorf("%s: %v", shape, err)
		}
	}
}

// mustPass submits a shape that the daemon does not size: the gate says so, and Slurm may start it at once.
func (c *Cluster) mustPass(shape, sentence string) {
	c.t.Helper()
	argv := append(
		[]string{"sh", "-c", `cd && exec sbatch --parsable --output=/dev/null --wrap true "$@" 2>&1`, "sh", profile},
		strings.Fields(shape)...)
	said, err := c.Exec("login", "alice", argv...)
	lines := strings.Split(strings.TrimSpace(said), "\n")
	id, wrong := strconv.Atoi(lines[len(lines)-1])
	if err != nil || wrong != nil || !strings.Contains(said, sentence) {
		c.t.Errorf("%s: sbatch says %q, %v; want the job's number and %q", shape, said, err, sentence)
		return
	}
	c.CancelAtEnd(JobID(id))
	if job := c.ShowJob(JobID(id)); job["Reason"] == "BeginTime" || strings.Contains(job["Extra"], `"lua"`) {
		c.t.Errorf(
			"%s: it waits for %s, begins at %s, and has %q",
			shape,
			job["Reason"],
			job["StartTime"],
			job["Extra"],
		)
	}
}

// nameProfiles tells the gate of a list of profiles, which put replaces.
func (c *Cluster) nameProfiles() (put func(command string)) {
	c.t.Helper()
	c.MustExec("login", "root", "sh", "-c",
		"rm -rf /shared/heartbeat; install -d -o synergy -g synergy -m 0755 /shared/heartbeat")
	c.settings(`profiles_file = "/shared/heartbeat/profiles", heartbeat_seconds = 30,`)
	c.t.Cleanup(func() { c.settings("") })
	return func(command string) {
		c.t.Helper()
		c.MustExec("login", "synergy", "bash", "-c", "cd /shared/heartbeat; rm -rf profiles; "+command)
	}
}

func TestAProfileThatThereIsNotIsRefusedWithTheNearest(t *testing.T) {
	c := OpenCluster(t)
	put := c.nameProfiles()
	submit := func(name string) error {
		_, err := c.Sbatch("alice", sleeper, "--gres=gpu:1", "--begin=now+1hour",
			"--comment=mine, synergy-profile="+name+" synergy-checkpoint")
		return err
	}
	put(`(date +%s; printf '%s\n' alexnet.json gnmt.json res18.json res50.json transformer.json) > profiles`)
	for name, sentence := range map[string]string{
		"res81.json":                       "there is no profile res81.json; did you mean res18.json",
		"resnet18.json":                    "did you mean res18.json",
		"Res18.json":                       "did you mean res18.json",
		"tranformer.json":                  "did you mean transformer.json?",
		"llama3-70b-hf8.json":              "there are 5, such as alexnet.json",
		"re.18.json":                       "did you mean res18.json",
		"a.json":                           "there is no profile a.json",
		strings.Repeat("a", 107) + ".json": "there are 5, such as alexnet.json",
	} {
		wantRefusal(t, submit(name), sentence)
	}
	if err := submit("res18.json"); err != nil {
		t.Errorf("one that there is: %v", err)
	}
	put("date +%s > profiles")
	wantRefusal(t, submit("res18.json"), "nor any other; ask your administrator")
	put(`(date +%s; for k in $(seq 9000); do echo res$k.json; done) > profiles`)
	began := time.Now()
	wantRefusal(t, submit("ras18.json"), "did you mean")
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("among 9,000 names it took %s", took)
	}
}

// What the gate does not know it refuses nobody for.
func TestAListOfProfilesThatIsNoneOrOldRefusesNobody(t *testing.T) {
	c := OpenCluster(t)
	put := c.nameProfiles()
	for what, command := range map[string]string{
		"missing": "true", "empty": ": > profiles", "old": "(date -d -40sec +%s; echo gnmt.json) > profiles",
		"from the future": "(date -d +1hour +%s; echo gnmt.json) > profiles",
		"without a time":  "echo gnmt.json > profiles",
		"binary":          "head -c 400000 /dev/urandom > profiles", "huge": "truncate -s 8G profiles",
		"a folder":       "mkdir profiles",
		"too long":       "(date +%s; yes gnmt.json | head -c 300000) > profiles",
		"not to be read": "(date +%s; echo gnmt.json) > profiles; chmod 0 profiles",
	} {
		put(command)
		if _, err := c.Sbatch("alice", sleeper, "--gres=gpu:1", "--begin=now+1hour",
			"--comment=synergy-profile=res18.json"); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// hears is what sbatch says beside the number of the job.
func hears(t *testing.T, c *Cluster, comment string) string {
	t.Helper()
	out := c.MustExec("login", "alice", "sh", "-c",
		fmt.Sprintf("cd; sbatch --hold --gres=gpu:1 --comment='%s' --wrap 'sleep 1' 2>&1", comment))
	words := strings.Fields(out)
	c.CancelAtEnd(JobID(amount(words[len(words)-1])))
	return out
}

func TestWhoDeclaresNoCheckpointIsToldWhatItCostsUnlessTheSiteSaysNot(t *testing.T) {
	c := OpenCluster(t)
	const hint = "synergy: without synergy-checkpoint"
	if got := hears(t, c, "synergy-profile=res18.json"); strings.Count(got, hint) != 1 ||
		strings.Count(got, "\n") != 1 {
		t.Errorf("sbatch says %q", got)
	}
	if got := hears(t, c, "synergy-profile=res18.json synergy-checkpoint"); strings.Contains(got, "synergy:") {
		t.Errorf("with the word sbatch says %q", got)
	}
	if got := hears(t, c, "mine"); strings.Contains(got, "synergy:") {
		t.Errorf("without ours sbatch says %q", got)
	}
	c.settings("hints = false,")
	t.Cleanup(func() { c.settings("") })
	if got := hears(t, c, "synergy-profile=res18.json"); strings.Contains(got, "synergy:") {
		t.Errorf("where it is switched off sbatch says %q", got)
	}
}

func TestTheGateKnowsTheProfilesOfTheDaemonThatRuns(t *testing.T) {
	c, d := SetUp(t, "fifo", "tune", "profiles_file: /shared/heartbeat/profiles")
	put := c.nameProfiles()
	put("true")
	// nobody knows yet
	c.MustSbatch("alice", sleeper, "--gres=gpu:1", "--begin=now+1hour", "--comment=synergy-profile=res81.json")
	d.Start()
	c.WaitFor("a round has ended well", func() bool {
		_, err := c.Exec("login", "synergy", "test", "-e", "/shared/heartbeat/profiles")
		return err == nil
	})
	_, err := c.Sbatch("alice", sleeper, "--gres=gpu:1", "--comment=synergy-profile=res81.json")
	wantRefusal(t, err, "there is no profile res81.json; did you mean res18.json")
	c.MustExec("login", "synergy", "sh", "-c", `cp "$1/res18.json" "$1/res81.json"`, "sh", d.dir+"/profiles")
	c.WaitFor("a profile that was added is known after a round", func() bool {
		_, err := c.Sbatch("alice", sleeper, "--gres=gpu:1", "--begin=now+1hour",
			"--comment=synergy-profile=res81.json")
		return err == nil
	})
}
