package broker

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/synergy-slurmd/synergy-slurmd/share"
	"github.com/synergy-slurmd/synergy-slurmd/share/wire"
)

// pretended is a process of a pretended machine.
type pretended struct {
	pid, parent      int
	uid              string // one number, or four
	cgroup           string
	environ, cmdline string
	program          string
	hidden           bool // its environment cannot be read
}

// machine pretends one, on which what is root's is owner's.
func machine(t testing.TB, owner int, all ...pretended) Proc {
	t.Helper()
	p := Proc{Root: t.TempDir(), Cgroups: t.TempDir(), Owner: owner}
	for _, c := range all {
		p.add(t, c)
	}
	return p
}

func (p Proc) add(t testing.TB, c pretended) {
	t.Helper()
	dir := filepath.Join(p.Root, strconv.Itoa(c.pid))
	if !strings.Contains(c.uid, "\t") {
		c.uid = strings.Repeat("\t"+c.uid, 4)
	}
	err := os.MkdirAll(dir, 0o755)
	for name, text := range map[string]string{
		"status":  fmt.Sprintf("Name:\tx\nPPid:\t%d\nUid:%s\nGid:\t0\t0\t0\t0\n", c.parent, c.uid),
		"cgroup":  c.cgroup,
		"environ": c.environ,
		"cmdline": c.cmdline,
		"stat":    fmt.Sprintf("%d (a) b (c) S %d%s 4711 0\n", c.pid, c.parent, strings.Repeat(" 0", 17)),
	} {
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644)
		}
	}
	if environ := filepath.Join(dir, "environ"); err == nil && c.hidden {
		if err = os.Remove(environ); err == nil {
			err = os.Mkdir(environ, 0o755)
		}
	}
	if err == nil && c.program != "" {
		err = os.Symlink(c.program, filepath.Join(dir, "exe"))
	}
	if err != nil {
		t.Fatal(err)
	}
}

const env7 = "A=1\x00SLURM_JOB_ID=7\x00"

// stepd7 is the slurmstepd of job 7, as root runs it.
var stepd7 = pretended{pid: 10, parent: 1, uid: "0", cmdline: "slurmstepd: [7.batch]\x00",
	program: "/usr/sbin/slurmstepd"}

func TestWhoseAProcessIsSaysNobodyButRoot(t *testing.T) {
	shell := pretended{pid: 11, parent: 10, uid: "4101", environ: env7}
	with := func(change func(*pretended)) pretended { // a slurmstepd that is none
		c := stepd7
		change(&c)
		return c
	}
	for what, c := range map[string]struct {
		all  []pretended // the last is asked about
		want string      // a job, or a part of the refusal
	}{
		"cgroup v2": {[]pretended{{pid: 20, parent: 1, uid: "4101",
			cgroup: "0::/system.slice/slurmstepd.scope/job_7/step_batch/user/task_0\n"}}, "7"},
		"cgroup v2 of one of several slurmds": {[]pretended{{pid: 20, parent: 1, uid: "4101",
			cgroup: "0::/system.slice/n1_slurmstepd.scope/job_7/step_0/user/task_0\n"}}, "7"},
		"cgroup v1": {[]pretended{{pid: 20, parent: 1, uid: "4101",
			cgroup: "5:devices:/slurm/uid_4101/job_7/step_0\n" +
				"4:freezer:/slurm_n1/uid_4101/job_7/step_0/task_0\n0::/\n"}}, "7"},
		"a cgroup that the user made in his session": {[]pretended{{pid: 20, parent: 1, uid: "4101",
			cgroup: "0::/user.slice/user-4101.slice/user@4101.service/slurmstepd.scope/job_7\n"}}, "is in no job"},
		"a cgroup that he made in his job": {[]pretended{{pid: 20, parent: 1, uid: "4101",
			cgroup: "0::/system.slice/slurmstepd.scope/job_8/step_0/user/slurmstepd.scope/job_7\n"}}, "8"},
		"a cgroup that only looks so": {[]pretended{{pid: 20, parent: 1, uid: "4101",
			cgroup: "0::/system.slice/job_7/job_7x/xjob_7/job_\n"}}, "is in no job"},
		"cgroups that do not agree": {[]pretended{{pid: 20, parent: 1, uid: "4101",
			cgroup: "5:devices:/slurm/uid_4101/job_7/step_0\n" +
				"4:freezer:/slurm/uid_4101/job_8/step_0\n"}}, "is in no job"},
		"below its slurmstepd": {[]pretended{stepd7, shell}, "7"},
		"far below it": {[]pretended{stepd7, shell, {pid: 12, parent: 11, uid: "4101"},
			{pid: 13, parent: 12, uid: "4101", environ: env7}}, "7"},
		"with an environment and nothing else": {[]pretended{{pid: 11, parent: 1, uid: "4101", environ: env7}},
			"no slurmstepd of that is above it"},
		"without an environment":       {[]pretended{stepd7, {pid: 11, parent: 10, uid: "4101"}}, "is in no job"},
		"with one that cannot be read": {[]pretended{stepd7, {pid: 11, parent: 10, uid: "4101", hidden: true}}, "7"},
		"with that, and below nothing": {[]pretended{{pid: 11, parent: 1, uid: "4101", hidden: true}},
			"is in no job"},
		"below the slurmstepd of Debian": {[]pretended{with(func(c *pretended) { c.program += "-wlm" }), shell}, "7"},
		"with another job's": {[]pretended{stepd7, {pid: 11, parent: 10, uid: "4101", environ: "SLURM_JOB_ID=8\x00"}},
			"says that it is of job 8, and is of job 7"},
		"with a job that is no number": {[]pretended{stepd7, {pid: 11, parent: 10, uid: "4101",
			environ: "SLURM_JOB_ID=7x\x00"}}, "is in no job"},
		"with a negative job": {[]pretended{stepd7, {pid: 11, parent: 10, uid: "4101",
			environ: "SLURM_JOB_ID=-7\x00"}}, "is in no job"},
		"below what calls itself slurmstepd": {[]pretended{with(func(c *pretended) { c.uid = "4101" }), shell},
			"no slurmstepd of that is above it"},
		"below a setuid program that is called so": {[]pretended{
			with(func(c *pretended) { c.uid = "\t4101\t0\t0\t0" }), shell},
			"no slurmstepd of that is above it"},
		"below a program of root that is called so": {[]pretended{
			with(func(c *pretended) { c.program = "/usr/bin/sudo" }), shell},
			"no slurmstepd of that is above it"},
		"below one that was upgraded meanwhile": {[]pretended{
			with(func(c *pretended) { c.program += " (deleted)" }), shell}, "7"},
		"of another user": {[]pretended{stepd7, {pid: 11, parent: 10, uid: "4102", environ: env7}},
			"is of user 4102 by now"},
		"in a circle": {[]pretended{
			{pid: 12, parent: 13, uid: "4101"}, {pid: 13, parent: 12, uid: "4101", environ: env7}},
			"no slurmstepd of that is above it"},
	} {
		asked := c.all[len(c.all)-1].pid
		job, err := machine(t, 0, c.all...).Job(asked, 4101)
		said := strconv.Itoa(job)
		if err != nil {
			said = err.Error()
		}
		if err == nil && said != c.want || !strings.Contains(said, c.want) {
			t.Errorf("%s: job %d, %v, want %s", what, job, err, c.want)
		}
	}
	if _, err := machine(t, 0).Job(99, 4101); err == nil || !strings.Contains(err.Error(), "is gone") {
		t.Errorf("of a process that there is not: %v", err)
	}
}

func TestACgroupThatAUserOwnsSaysNothing(t *testing.T) {
	path := "/system.slice/slurmstepd.scope/job_7"
	c := pretended{pid: 20, parent: 1, uid: "4101", cgroup: "0::" + path + "/step_0\n"}
	p := machine(t, os.Getuid(), c)
	if err := os.MkdirAll(filepath.Join(p.Cgroups, path), 0o755); err != nil {
		t.Fatal(err)
	}
	if job, err := p.Job(20, 4101); err != nil || job != 7 {
		t.Errorf("one of root: job %d, %v", job, err)
	}
	p.Owner++
	if job, err := p.Job(20, 4101); err == nil {
		t.Errorf("one of another: job %d", job)
	}
}

// inCgroup pretends a cgroup of either version, with processes.
func inCgroup(t *testing.T, p Proc, dir, file string, pids ...int) string {
	t.Helper()
	full := filepath.Join(p.Cgroups, dir)
	procs := ""
	for _, pid := range pids {
		procs += strconv.Itoa(pid) + "\n"
	}
	err := os.MkdirAll(full, 0o755)
	for name, text := range map[string]string{file: "", "cgroup.procs": procs} {
		if err == nil {
			err = os.WriteFile(filepath.Join(full, name), []byte(text), 0o644)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(full, file)
}

func TestAJobIsFrozenByItsCgroupsAndSlurmsOwnGoOn(t *testing.T) {
	for _, c := range []struct{ entry, at, file, frozen, thawed string }{
		{"0::", "", "cgroup.freeze", "1", "0"},
		{"4:freezer:", "freezer", "freezer.state", "FROZEN", "THAWED"},
	} {
		uid := strconv.Itoa(os.Getuid())
		job, number := "/system.slice/slurmstepd.scope/job_7/step_0", os.Getuid()
		if c.at != "" {
			job = "/slurm/uid_" + uid + "/job_7/step_0"
		}
		p := machine(t, number)
		p.add(t, pretended{pid: 10, parent: 1, uid: uid, cgroup: c.entry + job + "/slurm\n",
			program: "/sbin/slurmstepd", cmdline: "slurmstepd: [7.0]\x00"})
		for _, pid := range []int{11, 12} {
			p.add(t, pretended{pid: pid, parent: 10, uid: uid, cgroup: c.entry + job + "/user/task_0\n"})
		}
		p.add(t, pretended{pid: 13, parent: 10, uid: "4109", cgroup: c.entry + job + "/mixed\n"})
		eighth := strings.Replace(job, "job_7", "job_8", 1)
		p.add(t, pretended{pid: 20, parent: 1, uid: uid, cgroup: c.entry + eighth + "\n"})
		slurms := inCgroup(t, p, c.at+job+"/slurm", c.file, 10)
		tasks := inCgroup(t, p, c.at+job+"/user/task_0", c.file, 11, 12)
		mixed := inCgroup(t, p, c.at+job+"/mixed", c.file, 13)
		other := inCgroup(t, p, c.at+eighth, c.file, 20)
		f := &freezer{proc: p, dir: t.TempDir()}
		has := func(when, path, want string) {
			t.Helper()
			if text, err := os.ReadFile(path); err != nil || string(text) != want {
				t.Errorf("%s %s has %q, %v, want %q", when, path, text, err, want)
			}
		}
		if err := f.freeze(t.Context(), 7, number); err != nil {
			t.Fatal(err)
		}
		has("frozen:", tasks, c.frozen)
		if text, err := os.ReadFile(f.path(7)); err != nil || !strings.Contains(string(text), `"processes":null`) {
			t.Errorf("signals were sent besides: %s, %v", text, err)
		}
		for _, alone := range []string{slurms, mixed, other} {
			has("frozen:", alone, "")
		}
		if err := os.Truncate(tasks, 0); err != nil {
			t.Fatal(err)
		}
		jobs, err := f.thawAll()
		if err != nil || len(jobs) != 1 || jobs[0] != 7 {
			t.Errorf("thawed %v, %v", jobs, err)
		}
		has("thawed:", tasks, c.thawed)
		if entries, err := os.ReadDir(f.dir); err != nil || len(entries) != 0 {
			t.Errorf("left behind: %v, %v", entries, err)
		}
	}
}

func TestWhatIsThawedIsOnlyWhatWasFrozen(t *testing.T) {
	dir := t.TempDir()
	outside := filepath.Join(dir, "outside")
	if err := os.MkdirAll(outside, 0o755); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(outside, "cgroup.freeze")
	write := func(path, text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write(file, "keep")
	p := machine(t, os.Getuid(), pretended{pid: 11, parent: 1, uid: "1"})
	f := &freezer{proc: p, dir: filepath.Join(dir, "frozen")}
	if err := f.writeRecord(freezeRecord{V: 1, Job: 7, Cgroups: []string{outside, p.Cgroups + "/../outside"},
		Processes: []process{{PID: os.Getpid(), Start: 1}}}); err != nil {
		t.Fatal(err)
	}
	if _, err := f.thawAll(); err != nil {
		t.Error(err)
	}
	if text, err := os.ReadFile(file); err != nil || string(text) != "keep" {
		t.Errorf("%q was written outside of the cgroups, %v", text, err)
	}
	for _, text := range []string{"", "{", `{"v":2}`, "[]"} {
		write(f.path(8), text)
		if jobs, err := f.thawAll(); err == nil {
			t.Errorf("%q: thawed %v", text, jobs)
		}
	}
}

// FuzzWhose: whatever the kernel's files of a process have in them, which for its environment the user writes, who has
// no slurmstepd above him is of no job that his cgroup does not say.
func FuzzWhose(f *testing.F) {
	f.Add("0::/system.slice/slurmstepd.scope/job_7/step_0\n", env7, "slurmstepd: [7.0]\x00", "11 (a) S 1")
	f.Add("5:devices:/slurm/uid_1/job_7/step_0\n", "SLURM_JOB_ID=99999999999999999999\x00", "x", "")
	f.Add(":::\n\n0::job_7", "=\x00\x00", "slurmstepd: [", ") ) )")
	f.Fuzz(func(t *testing.T, cgroup, environ, cmdline, stat string) {
		p := machine(t, 0, pretended{pid: 11, parent: 12, uid: "4101", cgroup: cgroup, environ: environ},
			pretended{pid: 12, parent: 1, uid: "4101", cmdline: cmdline, program: "/usr/sbin/slurmstepd"})
		job, err := p.Job(11, 4101)
		if err == nil && !strings.Contains(cgroup, fmt.Sprintf("job_%d", job)) {
			t.Errorf("job %d by %q, %q, %q", job, cgroup, environ, cmdline)
		}
		_, _, _ = parseStat([]byte(stat))
	})
}

// FuzzStamp: what is believed of a stamp's text is within its bounds.
func FuzzStamp(f *testing.F) {
	f.Add([]byte(`{"v":1,"job":7,"uid":1000,"gpu":0,"class":"low","gpu_memory_mib":1024,"slo_ms":50}`))
	f.Add([]byte(`{"v":1,"job":-7}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		s, err := parseStamp(text)
		if err == nil && s.Check() != nil {
			t.Errorf("believed %+v", s)
		}
		if was, err := parseRecord(text); err == nil && was.V != 1 {
			t.Errorf("believed %+v", was)
		}
	})
}

func TestADeadlineIsNoShorterThanTheDaemonSaid(t *testing.T) {
	for _, c := range []struct{ slo, said, want time.Duration }{
		{0, time.Millisecond, 0},
		{50, 0, 50 * time.Millisecond},
		{50, time.Millisecond, 50 * time.Millisecond},
		{50, 80 * time.Millisecond, 80 * time.Millisecond},
	} {
		client := client{stamp: share.Stamp{SLO: int64(c.slo)}}
		if got := client.stepLimit(wire.Message{Deadline: c.said.Microseconds()}); got != c.want {
			t.Errorf("of %d ms by the daemon and %v by the client: %v, want %v", c.slo, c.said, got, c.want)
		}
	}
}

// TestOfAJobOfManyProcessesEachCgroupIsLookedAtOnce in a pass, and not once for each process.
func TestOfAJobOfManyProcessesEachCgroupIsLookedAtOnce(t *testing.T) {
	const step, processes = "/system.slice/slurmstepd.scope/job_7/step_0/user/task_0", 60
	p := machine(t, os.Getuid())
	var pids []int
	for pid := 100; pid < 100+processes; pid++ {
		p.add(t, pretended{pid: pid, parent: 1, uid: strconv.Itoa(os.Getuid()), cgroup: "0::" + step + "\n"})
		pids = append(pids, pid)
	}
	freeze := inCgroup(t, p, step, "cgroup.freeze", pids...)
	looks := opens(t, filepath.Join(filepath.Dir(freeze), "cgroup.procs"))
	f := &freezer{proc: p, dir: t.TempDir()}
	if err := f.freeze(t.Context(), 7, os.Getuid()); err != nil {
		t.Error(err)
	}
	if n := looks(); n != 2 {
		t.Errorf("the list of %d processes was read %d times in two passes", processes, n)
	}
	if text, err := os.ReadFile(freeze); err != nil || string(text) != "1" {
		t.Errorf("its cgroup has %q, %v", text, err)
	}
}

// opens says how often a file is read from now on.
func opens(t *testing.T, path string) func() int {
	t.Helper()
	fd, err := unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	// the end of each, too: two events that are the same are told as one
	if _, err := unix.InotifyAddWatch(fd, path, unix.IN_OPEN|unix.IN_CLOSE); err != nil {
		t.Fatal(err)
	}
	return func() int {
		text := make([]byte, 1<<20)
		n, err := unix.Read(fd, text)
		if err != nil {
			t.Fatal(err)
		}
		return n / unix.SizeofInotifyEvent / 2 // of a file no event has a name
	}
}

// TestWhatSlurmHasSuspendedIsNotLetGoOn, by whichever freezer or by a signal, and what a broker before has stopped is.
func TestWhatSlurmHasSuspendedIsNotLetGoOn(t *testing.T) {
	for _, c := range []struct{ entry, at, file, says string }{
		{"0::", "", "cgroup.freeze", "cgroup.freeze"},
		{"4:freezer:", "freezer", "freezer.state", "freezer.self_freezing"},
	} {
		uid := strconv.Itoa(os.Getuid())
		step := "/slurm/uid_" + uid + "/job_7/step_0"
		if c.at == "" {
			step = "/system.slice/slurmstepd.scope/job_7/step_0/user"
		}
		p := machine(t, os.Getuid(), pretended{pid: 11, parent: 1, uid: uid, cgroup: c.entry + step + "\n"},
			pretended{pid: 12, parent: 1, uid: uid, cgroup: c.entry + step + "_1\n"})
		path := inCgroup(t, p, c.at+step, c.file, 11)
		other := inCgroup(t, p, c.at+step+"_1", c.file, 12)
		says := filepath.Join(filepath.Dir(path), c.says)
		suspend := func() {
			t.Helper()
			if err := os.WriteFile(says, []byte("1\n"), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		suspend()
		was, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		f := &freezer{proc: p, dir: t.TempDir()}
		freeze := func() {
			t.Helper()
			if err := f.freeze(t.Context(), 7, os.Getuid()); err != nil {
				t.Fatal(err)
			}
			if _, err := f.thawAll(); err != nil {
				t.Error(err)
			}
		}
		freeze()
		if text, err := os.ReadFile(path); err != nil || string(text) != string(was) {
			t.Errorf("%s has %q, %v: want %q, as it was", path, text, err, was)
		}
		if text, err := os.ReadFile(other); err != nil || len(text) == 0 {
			t.Errorf("the job's other cgroup was not stopped: %v", err)
		}
		if err := f.writeRecord(freezeRecord{V: 1, Job: 7, Cgroups: []string{filepath.Dir(path)}}); err != nil {
			t.Fatal(err)
		}
		suspend() // this time by a broker that died
		freeze()
		if text, err := os.ReadFile(path); err != nil || string(text) == string(was) {
			t.Errorf("%s has %q, %v: want that it goes on", path, text, err)
		}
	}
}

// TestWhatWasStoppedBeforeStaysWrittenDown until it goes on, though the job does not run there any more when it is
// stopped again.
func TestWhatWasStoppedBeforeStaysWrittenDown(t *testing.T) {
	uid := strconv.Itoa(os.Getuid())
	const step = "/system.slice/slurmstepd.scope/job_7/step_0/user/task_0"
	p := machine(t, os.Getuid(), pretended{pid: 11, parent: 1, uid: uid, cgroup: "0::" + step + "\n"})
	now := inCgroup(t, p, step, "cgroup.freeze", 11)
	earlier := inCgroup(t, p, step+"_1", "cgroup.freeze")
	f := &freezer{proc: p, dir: t.TempDir()}
	if err := f.writeRecord(freezeRecord{V: 1, Job: 7, Cgroups: []string{filepath.Dir(earlier)}}); err != nil {
		t.Fatal(err)
	}
	if err := f.freeze(t.Context(), 7, os.Getuid()); err != nil {
		t.Fatal(err)
	}
	if _, err := f.thawAll(); err != nil {
		t.Error(err)
	}
	for _, path := range []string{now, earlier} {
		if text, err := os.ReadFile(path); err != nil || !strings.HasSuffix(string(text), "0") {
			t.Errorf("%s has %q, %v: want it to go on", path, text, err)
		}
	}
}

// TestWhereProcIsNotListedNoJobCountsAsStopped: what runs is unknown then, and a job that is believed to stand would
// run beside the next.
func TestWhereProcIsNotListedNoJobCountsAsStopped(t *testing.T) {
	f := &freezer{proc: Proc{Root: filepath.Join(t.TempDir(), "away"), Cgroups: t.TempDir()}, dir: t.TempDir()}
	if err := f.freeze(t.Context(), 7, os.Getuid()); err == nil || !strings.Contains(err.Error(), "freeze job 7") {
		t.Errorf("%v, want an error", err)
	}
}
