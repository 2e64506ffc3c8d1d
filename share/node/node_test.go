package node

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/share"
)

const extra = `{"v":1,"lua":0,"job":4711,"round":42,"begin":0,"why":"its turn",` +
	`"share":{"class":"high","gpu_memory_mib":6144,"slo_ms":50,"device":"g1"}}`

// prolog is the environment of a Prolog, changed by NAME=VALUE; NAME alone takes the variable away.
func prolog(changes ...string) []string {
	env := map[string]string{"SLURM_JOB_ID": "4711", "SLURM_JOB_UID": "1000", "SLURM_JOB_GPUS": "1",
		"SLURM_JOB_EXTRA": extra}
	for _, change := range changes {
		name, value, set := strings.Cut(change, "=")
		env[name] = value
		if !set {
			delete(env, name)
		}
	}
	var list []string
	for _, name := range slices.Sorted(maps.Keys(env)) {
		list = append(list, name+"="+env[name])
	}
	return list
}

func TestAStampSaysWhatTheDaemonSaidAndWhatSlurmKnows(t *testing.T) {
	want := share.Stamp{V: 1, Job: 4711, UID: 1000, GPU: 1, Class: share.High, Memory: 6144, SLO: 50}
	if got, err := StampOf(prolog()); err != nil || got != want {
		t.Errorf("%+v, %v; want %+v", got, err, want)
	}
	// a job without a bound on its steps, on GPU 0, of root
	low := prolog("SLURM_JOB_GPUS=0", "SLURM_JOB_UID=0",
		`SLURM_JOB_EXTRA={"v":1,"lua":0,"job":4711,"round":0,"share":{"class":"low","gpu_memory_mib":1}}`)
	want = share.Stamp{V: 1, Job: 4711, Class: share.Low, Memory: 1}
	if got, err := StampOf(low); err != nil || got != want {
		t.Errorf("%+v, %v; want %+v", got, err, want)
	}
}

// TestUsersAndJobsMayHaveTenDigits: a domain's users have, by the id mapping of SSSD, and the jobs of a federation.
func TestUsersAndJobsMayHaveTenDigits(t *testing.T) {
	most := map[string]int{"JOB_ID": 4294967295, "JOB_UID": 4294967294, "JOB_GPUS": 999999999}
	for name, most := range most {
		for _, n := range []int{999999999, 1000000000, 4294967294, 4294967295, 4294967296} {
			text := strconv.Itoa(n)
			env := []string{"SLURM_" + name + "=" + text}
			if name == "JOB_ID" {
				env = append(env, "SLURM_JOB_EXTRA="+strings.Replace(extra, "4711", text, 1))
			}
			stamp, err := StampOf(prolog(env...))
			got := map[string]int{"JOB_ID": stamp.Job, "JOB_UID": stamp.UID, "JOB_GPUS": stamp.GPU}[name]
			if n <= most && (err != nil || got != n) {
				t.Errorf("SLURM_%s=%d: %+v, %v", name, n, stamp, err)
			}
			want := fmt.Sprintf("SLURM_%s=%q: want one whole number, 0 to %d", name, text, most)
			if n > most && (err == nil || !strings.Contains(err.Error(), want)) {
				t.Errorf("SLURM_%s=%d: %+v, %v; want %q", name, n, stamp, err, want)
			}
		}
		for _, text := range []string{"-1", "-0", "+1", "01", "0000000001", "00", " 1", "1 ", "1\n", "1_0", "0x1",
			"1e3", "", "\u0661", "18446744073709551617"} {
			if stamp, err := StampOf(prolog("SLURM_" + name + "=" + text)); err == nil {
				t.Errorf("SLURM_%s=%q: %+v", name, text, stamp)
			}
		}
	}
}

// TestAStampOfTheLastUserIsKeptReadAndRemoved, under the number of the last job.
func TestAStampOfTheLastUserIsKeptReadAndRemoved(t *testing.T) {
	const job, uid = 4294967295, 4294967294
	dir := t.TempDir()
	env := prolog("SLURM_JOB_ID=4294967295", "SLURM_JOB_UID=4294967294",
		"SLURM_JOB_EXTRA="+strings.Replace(extra, "4711", "4294967295", 1))
	if err := Stamp(env, dir); err != nil {
		t.Fatal(err)
	}
	if stamp, err := ReadStamp(dir, job); err != nil || stamp.UID != uid {
		t.Errorf("%+v, %v", stamp, err)
	}
	if all, err := Stamps(dir); err != nil || len(all) != 1 || all[0].Job != job {
		t.Errorf("%+v, %v", all, err)
	}
	if err := Unstamp(env, dir); err != nil {
		t.Error(err)
	}
	if _, err := ReadStamp(dir, job); !isMissing(err) {
		t.Errorf("after the epilog: %v", err)
	}
}

func TestWhatIsNotTheDaemonsWordOfThisJobStampsNothing(t *testing.T) {
	says := func(text string) string { return "SLURM_JOB_EXTRA=" + text }
	shares := func(text string) string {
		return says(`{"v":1,"lua":0,"job":4711,"round":42,"share":` + text + `}`)
	}
	for change, want := range map[string]string{
		"SLURM_JOB_EXTRA": ErrNotShared.Error(),
		says("run 3"):     ErrNotShared.Error(),
		says(`{"v":1,"lua":0,"job":4711,"round":42,"begin":0}`): ErrNotShared.Error(),
		shares("null"): ErrNotShared.Error(),
		says(`{"v":1,"lua":1,"share":{"class":"high","gpu_memory_mib":1}}`): ErrNotShared.Error(),
		says(strings.Replace(extra, "4711", "47110", 1)):                    ErrNotShared.Error(),
		says(strings.Replace(extra, "4711", "471", 1)):                      ErrNotShared.Error(),
		says(strings.Replace(extra, `"v":1`, `"v":2`, 1)):                   ErrNotShared.Error(),
		says(" " + extra): ErrNotShared.Error(),
		says(extra + strings.Repeat(" ", maxAnnotation)):           ErrNotShared.Error(),
		says(strings.TrimSuffix(extra, "}")):                       "is none",
		says(extra + "x"):                                          "is none",
		says(strings.Replace(extra, ":42", ":-1", 1)):              "is none",
		says(strings.Replace(extra, "6144", "1e999", 1)):           "is none",
		says(strings.Replace(extra, `"begin":0`, `"job":4712`, 1)): "two jobs",
		says(strings.Replace(extra, `"begin":0`, `"lua":1`, 1)):    "two jobs",
		shares(`{"class":"High","gpu_memory_mib":1}`):              "want high or low",
		shares(`{"gpu_memory_mib":1}`):                             "want high or low",
		shares(`{"class":"low"}`):                                  "gpu_memory_mib: want more than 0",
		shares(`{"class":"low","gpu_memory_mib":-6144}`):           "gpu_memory_mib: want more than 0",
		shares(`{"class":"low","gpu_memory_mib":1,"slo_ms":-1}`):   "slo_ms = -1",
		"SLURM_JOB_ID":                  "SLURM_JOB_ID=",
		"SLURM_JOB_ID=../../etc/passwd": "SLURM_JOB_ID=",
		"SLURM_JOB_UID":                 "SLURM_JOB_UID=",
		"SLURM_JOB_UID=-1":              "SLURM_JOB_UID=",
		"SLURM_JOB_GPUS":                "SLURM_JOB_GPUS=",
		"SLURM_JOB_GPUS=0,1":            "SLURM_JOB_GPUS=",
		"SLURM_JOB_GPUS=0-1":            "SLURM_JOB_GPUS=",
		"SLURM_JOB_GPUS=01":             "SLURM_JOB_GPUS=",
		"SLURM_JOB_GPUS=1\n2":           "SLURM_JOB_GPUS=",
		"SLURM_JOB_GPUS=$(touch owned)": "SLURM_JOB_GPUS=",
		"SLURM_JOB_GPUS=99999999999999": "SLURM_JOB_GPUS=",
	} {
		if got, err := StampOf(prolog(change)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.100q: %+v, %v; want a sentence with %q", change, got, err, want)
		}
	}
}

func TestAStampIsThereFromPrologToEpilogForAllToReadAndNobodyElseToWrite(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0o077))
	dir := filepath.Join(t.TempDir(), "synergy")
	if err := Stamp(prolog(), dir); err != nil {
		t.Fatal(err)
	}
	path := StampPath(dir, 4711)
	for name, want := range map[string]os.FileMode{dir: 0o755, filepath.Dir(path): 0o755, path: 0o644} {
		if about, err := os.Stat(name); err != nil || about.Mode().Perm() != want {
			t.Errorf("%v, %v: want mode %o", about, err, want)
		}
	}
	if got, err := ReadStamp(dir, 4711); err != nil || got.UID != 1000 || got.Class != share.High {
		t.Errorf("%+v, %v", got, err)
	}
	if err := Unstamp(prolog(), dir); err != nil {
		t.Error(err)
	}
	if _, err := ReadStamp(dir, 4711); !isMissing(err) {
		t.Errorf("after the epilog: %v", err)
	}
	if err := Unstamp(prolog(), dir); err != nil {
		t.Errorf("the epilog of a job without a stamp: %v", err)
	}
	if left, _ := os.ReadDir(filepath.Dir(path)); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// TestTheStampOfARunBeforeIsGone: its Epilog may not have come about, and the daemon may have put the job elsewhere.
func TestTheStampOfARunBeforeIsGone(t *testing.T) {
	for _, change := range []string{"SLURM_JOB_EXTRA", "SLURM_JOB_GPUS=0,1"} {
		dir := t.TempDir()
		if err := Stamp(prolog(), dir); err != nil {
			t.Fatal(err)
		}
		if err := Stamp(prolog(change), dir); (err == nil) != (change == "SLURM_JOB_EXTRA") {
			t.Errorf("%s: %v", change, err)
		}
		if stamp, err := ReadStamp(dir, 4711); !isMissing(err) {
			t.Errorf("%s: %+v, %v", change, stamp, err)
		}
	}
}

func TestAJobThatSharesNothingLeavesNoTrace(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "synergy")
	if err := Stamp(prolog("SLURM_JOB_EXTRA"), dir); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(dir); !isMissing(err) {
		t.Errorf("a folder was made for it: %v", err)
	}
}

func TestNoStampIsKeptWhereOthersCanPutOne(t *testing.T) {
	dir := t.TempDir()
	jobs := filepath.Join(dir, "jobs")
	if err := errors.Join(os.Mkdir(jobs, 0o755), os.Chmod(jobs, 0o777)); err != nil {
		t.Fatal(err)
	}
	if err := Stamp(prolog(), dir); err == nil || !strings.Contains(err.Error(), "nobody else can write") {
		t.Errorf("in a folder that all can write to: %v", err)
	}
	if err := os.Remove(jobs); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(t.TempDir(), jobs); err != nil {
		t.Fatal(err)
	}
	if err := Stamp(prolog(), dir); err == nil || !strings.Contains(err.Error(), "want a folder") {
		t.Errorf("behind a link: %v", err)
	}
}

func TestAFileThatIsNoStampIsNoneAndNothingWaitsForIt(t *testing.T) {
	dir := t.TempDir()
	path := StampPath(dir, 4711)
	if err := os.Mkdir(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	text := func(s string) func() error { return func() error { return os.WriteFile(path, []byte(s), 0o644) } }
	for name, make := range map[string]func() error{
		"a pipe":                func() error { return syscall.Mkfifo(path, 0o644) },
		"a folder":              func() error { return os.Mkdir(path, 0o755) },
		"a link":                func() error { return os.Symlink("/etc/hostname", path) },
		"half of one":           text(`{"v":1,"job":4711`),
		"that of another job":   text(`{"v":1,"job":4712,"uid":0,"gpu":0,"class":"high","gpu_memory_mib":1}`),
		"one of a later format": text(`{"v":2,"job":4711,"uid":0,"gpu":0,"class":"high","gpu_memory_mib":1}`),
		"a large one": text(`{"v":1,"job":4711,"uid":0,"gpu":0,"class":"high","gpu_memory_mib":1}` +
			strings.Repeat(" ", maxFile)),
	} {
		if err := make(); err != nil {
			t.Fatal(err)
		}
		if stamp, err := ReadStamp(dir, 4711); err == nil || isMissing(err) {
			t.Errorf("%s: %+v, %v", name, stamp, err)
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
}

// served is a folder in which job 4711 of this user shares GPU 1, and a broker listens.
func served(t *testing.T, fill *Fill) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "turn") // a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	stamp := share.Stamp{V: 1, Job: 4711, UID: os.Getuid(), GPU: 1, Class: share.High, Memory: 6144}
	if err := writeFile(StampPath(dir, 4711), stamp); err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("unix", SocketPath(dir, 1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	if fill != nil {
		about, err := os.Stat(StampPath(dir, 4711))
		if err != nil {
			t.Fatal(err)
		}
		if fill.UID == nil || *fill.UID == stamp.UID {
			fill.Jobs = []Run{{Job: 4711, UID: stamp.UID, Stamped: about.ModTime().UnixNano()}}
		}
		if err := fill.Write(dir); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func mps() *Fill {
	return &Fill{V: FillVersion, GPU: 1,
		High: Settings{Env: map[string]string{"CUDA_MPS_PIPE_DIRECTORY": "/run/synergy/mps 1",
			"CUDA_MPS_CLIENT_PRIORITY": "0"}},
		Low: Settings{Env: map[string]string{"CUDA_MPS_PIPE_DIRECTORY": "/run/synergy/mps-1",
			"CUDA_MPS_CLIENT_PRIORITY": "1", "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "50"}}}
}

// said is what Env prints to a task with this environment.
func said(t *testing.T, dir string, env ...string) string {
	t.Helper()
	var out strings.Builder
	if err := Env(append(env, "SLURM_JOB_ID=4711"), dir, &out); err != nil {
		t.Errorf("%q: %v", env, err)
	}
	return out.String()
}

func TestATaskIsToldWhereTheBrokerOfItsGPUListens(t *testing.T) {
	dir := served(t, nil)
	if got, want := said(t, dir), "export SYNERGY_TURN_SOCK="+dir+"/turn-1.sock\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestATaskOfAFilledGPUHasTheSettingsOfItsClass(t *testing.T) {
	dir := served(t, mps())
	want := "export CUDA_MPS_CLIENT_PRIORITY=0\nexport CUDA_MPS_PIPE_DIRECTORY=/run/synergy/mps 1\n" +
		"export SYNERGY_SHARE_SET=CUDA_MPS_CLIENT_PRIORITY CUDA_MPS_PIPE_DIRECTORY\n" +
		"export SYNERGY_TURN_SOCK=" + dir + "/turn-1.sock\n"
	if got := said(t, dir); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	low := mps()
	low.Jobs = []Run{{Job: 7, UID: 1, Stamped: 3}}
	seat := Slot{Stamp: share.Stamp{Job: 7, UID: 1, Class: share.Low}, Stamped: 3, Socket: "/s", Fill: low}
	lines := EnvOf(nil, &seat)
	if !slices.Contains(lines, "export CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=50") {
		t.Errorf("a job of class low: %q", lines)
	}
}

// TestATaskIsAClientOfMPSOnlyIfItsJobIsOne: a job that began without stays so, and so does another run of one that was.
func TestATaskIsAClientOfMPSOnlyIfItsJobIsOne(t *testing.T) {
	dir := served(t, mps())
	fill, err := ReadFill(dir, 1)
	if err != nil {
		t.Fatal(err)
	}
	for what, change := range map[string]func(*Run){
		"another job":  func(r *Run) { r.Job++ },
		"another run":  func(r *Run) { r.Stamped++ },
		"another user": func(r *Run) { r.UID++ },
	} {
		other := fill
		other.Jobs = slices.Clone(fill.Jobs)
		change(&other.Jobs[0])
		if err := other.Write(dir); err != nil {
			t.Fatal(err)
		}
		if got, want := said(t, dir), "export SYNERGY_TURN_SOCK="+dir+"/turn-1.sock\n"; got != want {
			t.Errorf("%s: %q, want %q", what, got, want)
		}
	}
}

// TestWhatWasWithdrawnIsRememberedForAMinuteAndSaidOnce.
func TestWhatWasWithdrawnIsRememberedForAMinuteAndSaidOnce(t *testing.T) {
	now := time.Now()
	for after, want := range map[time.Duration]bool{time.Second: true, 59 * time.Second: true, 2 * time.Minute: false} {
		dir := served(t, mps())
		was, err := ReadFill(dir, 1)
		if err != nil {
			t.Fatal(err)
		}
		if err := Withdraw(dir); err != nil {
			t.Fatal(err)
		}
		if got, want := said(t, dir), "export SYNERGY_TURN_SOCK="+dir+"/turn-1.sock\n"; got != want {
			t.Errorf("a task is still told %q, want %q", got, want)
		}
		f, err := Withdrawn(dir, 1, now.Add(after))
		if (err == nil) != want || want && !slices.Equal(f.Jobs, was.Jobs) || !want && !isMissing(err) {
			t.Errorf("after %v there is %+v, %v", after, f, err)
		}
		if _, err := Withdrawn(dir, 1, now); !isMissing(err) {
			t.Errorf("it is said again: %v", err)
		}
	}
	dir := served(t, nil)
	if err := os.WriteFile(FillPath(dir, 1), []byte("{"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := Withdraw(dir); err != nil {
		t.Fatal(err)
	}
	if _, err := Withdrawn(dir, 1, now); err == nil || isMissing(err) {
		t.Errorf("of one that is broken: %v", err)
	}
}

func TestAnMPSDaemonOfAnotherUserIsNobodyElses(t *testing.T) {
	fill, other := mps(), os.Getuid()+1
	fill.UID = &other
	dir := served(t, fill)
	if got, want := said(t, dir), "export SYNERGY_TURN_SOCK="+dir+"/turn-1.sock\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestWhereAnythingIsMissingATaskIsToldNothing(t *testing.T) {
	for name, remove := range map[string]func(dir string) error{
		"the folder": os.RemoveAll,
		"the stamp":  func(dir string) error { return os.Remove(StampPath(dir, 4711)) },
		"the socket": func(dir string) error { return os.Remove(SocketPath(dir, 1)) },
		"what listens": func(dir string) error {
			return errors.Join(os.Remove(SocketPath(dir, 1)), os.WriteFile(SocketPath(dir, 1), nil, 0o666))
		},
	} {
		dir := served(t, mps())
		if err := remove(dir); err != nil {
			t.Fatal(err)
		}
		if got := said(t, dir, "CUDA_MPS_PIPE_DIRECTORY=/my/own"); got != "" {
			t.Errorf("without %s: %q", name, got)
		}
	}
}

// TestATaskOfAJobFromInsideOfAnotherForgetsWhatHeldThere: sbatch hands the environment on, and the MPS daemon of
// another GPU would take the job there.
func TestATaskOfAJobFromInsideOfAnotherForgetsWhatHeldThere(t *testing.T) {
	inherited := []string{"SYNERGY_TURN_SOCK=/run/synergy/turn-0.sock", "CUDA_MPS_PIPE_DIRECTORY=/run/synergy/mps-0",
		"CUDA_MPS_LOG_DIRECTORY=/my/own", "SYNERGY_SHARE_SET=CUDA_MPS_PIPE_DIRECTORY HOME LD_PRELOAD"}
	want := "unset SYNERGY_TURN_SOCK\nunset SYNERGY_SHARE_SET\nunset CUDA_MPS_PIPE_DIRECTORY\n"
	if got := said(t, t.TempDir(), inherited...); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	dir := served(t, nil)
	want = "unset SYNERGY_SHARE_SET\nunset CUDA_MPS_PIPE_DIRECTORY\nexport SYNERGY_TURN_SOCK=" + dir + "/turn-1.sock\n"
	if got := said(t, dir, inherited...); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestAStepInASeatAsksForNoGPU, whether anybody listens or not: sbatch --gpus=1 leaves its number to srun in the
// script.
func TestAStepInASeatAsksForNoGPU(t *testing.T) {
	asked := []string{"SLURM_GPUS=1", "SLURM_GPUS_PER_NODE=1", "SLURM_GPUS_ON_NODE=1"}
	dir, want := served(t, nil), "unset SLURM_GPUS\nunset SLURM_GPUS_PER_NODE\n"
	if got := said(t, dir, asked...); !strings.HasPrefix(got, want+"export ") || strings.Contains(got, "ON_NODE") {
		t.Errorf("%q, want %q and where the broker listens", got, want)
	}
	if err := os.Remove(SocketPath(dir, 1)); err != nil {
		t.Fatal(err)
	}
	if got := said(t, dir, asked...); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := said(t, t.TempDir(), asked...); got != "" {
		t.Errorf("of a job that shares nothing: %q", got)
	}
}

func TestTheStampOfAnotherUserIsNotOurs(t *testing.T) {
	dir := served(t, mps())
	stamp := share.Stamp{V: 1, Job: 4711, UID: os.Getuid() + 1, GPU: 1, Class: share.High, Memory: 6144}
	if err := writeFile(StampPath(dir, 4711), stamp); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := Env([]string{"SLURM_JOB_ID=4711"}, dir, &out); err == nil || out.Len() > 0 {
		t.Errorf("%v, %q", err, out.String())
	}
}

// TestABrokenFillCostsNoTurn: the task is told of its broker, and people of the fill.
func TestABrokenFillCostsNoTurn(t *testing.T) {
	dir := served(t, nil)
	for _, text := range []string{"{", `{"v":1,"gpu":1,"high":{"env":{"LD_PRELOAD":"/tmp/x.so"}}}`,
		`{"v":1,"gpu":0,"high":{"env":{}}}`} {
		if err := os.WriteFile(FillPath(dir, 1), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		err := Env([]string{"SLURM_JOB_ID=4711"}, dir, &out)
		if want := "export SYNERGY_TURN_SOCK=" + dir + "/turn-1.sock\n"; err == nil || out.String() != want {
			t.Errorf("%s: %v, %q; want a sentence, and %q", text, err, out.String(), want)
		}
	}
}

func TestAFillSaysNothingButMPSAndNothingThatEndsALine(t *testing.T) {
	for want, change := range map[string]func(*Fill){
		"v = 2":                               func(f *Fill) { f.V = 2 },
		"gpu = -1":                            func(f *Fill) { f.GPU = -1 },
		"uid = -1":                            func(f *Fill) { n := -1; f.UID = &n },
		"jobs: job 0 of user 1: want jobs of": func(f *Fill) { f.Jobs = []Run{{UID: 1}} },
		"job 7 of user 1: want jobs of": func(f *Fill) {
			n := 2
			f.UID, f.Jobs = &n, []Run{{Job: 7, UID: 1}}
		},
		"high: env PATH: want one of":                  func(f *Fill) { f.High.Env["PATH"] = "/tmp" },
		"low: env CUDA_MPS_PIPE_DIRECTORY: want 1 to ": func(f *Fill) { f.Low.Env["CUDA_MPS_PIPE_DIRECTORY"] = "" },
		"low: env CUDA_MPS_CLIENT_PRIORITY: want 1 to ": func(f *Fill) {
			f.Low.Env["CUDA_MPS_CLIENT_PRIORITY"] = "1\nexport LD_PRELOAD=/tmp/x.so"
		},
		"high: env CUDA_MPS_LOG_DIRECTORY: want 1 to ": func(f *Fill) {
			f.High.Env["CUDA_MPS_LOG_DIRECTORY"] = strings.Repeat("x", maxValue+1)
		},
	} {
		f, dir := mps(), t.TempDir()
		change(f)
		if err := f.Write(dir); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want a sentence with %q", err, want)
		}
		if _, err := ReadFill(dir, 1); !isMissing(err) {
			t.Errorf("%s: it was written: %v", want, err)
		}
	}
}

func TestAFillIsReadAsItWasWritten(t *testing.T) {
	dir := t.TempDir()
	if err := mps().Write(dir); err != nil {
		t.Fatal(err)
	}
	one, _ := json.Marshal(mps())
	if f, err := ReadFill(dir, 1); err != nil {
		t.Error(err)
	} else if other, _ := json.Marshal(f); string(one) != string(other) {
		t.Errorf("%s, want %s", other, one)
	}
	if _, err := ReadFill(dir, 0); !isMissing(err) {
		t.Errorf("of a GPU that has none: %v", err)
	}
}

// FuzzStampOf: what is stamped holds the bounds, is of this job, and only by an annotation that begins as the
// daemon's.
func FuzzStampOf(f *testing.F) {
	f.Add(extra, "1000", "1")
	f.Add(`{"v":1,"lua":0,"job":4711,"round":42}`, "0", "0,1")
	f.Add(`{"v":1,"lua":1,"begin":17}`, "", "")
	f.Fuzz(func(t *testing.T, extra, uid, gpus string) {
		stamp, err := StampOf(prolog("SLURM_JOB_EXTRA="+extra, "SLURM_JOB_UID="+uid, "SLURM_JOB_GPUS="+gpus))
		if err != nil {
			if stamp != (share.Stamp{}) || len(err.Error()) > 300 || strings.ContainsAny(err.Error(), "\n\x1b") {
				t.Errorf("%+v, %q", stamp, err)
			}
			return
		}
		if stamp.Check() != nil || stamp.Job != 4711 ||
			!strings.HasPrefix(extra, `{"v":1,"lua":0,"job":4711,"round":`) {
			t.Errorf("%q is stamped %+v", extra, stamp)
		}
	})
}

// FuzzReadFill: whatever stands in the file, a task gets lines of our names, each one line.
func FuzzReadFill(f *testing.F) {
	client := mps()
	client.Jobs = []Run{{Job: 7, UID: 1, Stamped: 3}}
	for _, fill := range []any{mps(), client, Fill{V: 1}, "x"} {
		text, _ := json.Marshal(fill)
		f.Add(text)
	}
	f.Add([]byte(`{"v":1,"gpu":1,"low":{"env":{"CUDA_MPS_PIPE_DIRECTORY":"a\nexport LD_PRELOAD=x"}}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		dir := t.TempDir()
		if err := os.WriteFile(FillPath(dir, 1), text, 0o644); err != nil {
			t.Fatal(err)
		}
		fill, err := ReadFill(dir, 1)
		if err != nil {
			return
		}
		for _, class := range []share.Class{share.High, share.Low} {
			seat := Slot{Stamp: share.Stamp{Job: 7, Class: class}, Socket: "/s", Fill: &fill}
			if len(fill.Jobs) > 0 {
				seat.Stamp.Job, seat.Stamp.UID, seat.Stamped = fill.Jobs[0].Job, fill.Jobs[0].UID, fill.Jobs[0].Stamped
			}
			for _, line := range EnvOf(nil, &seat) {
				name, _, _ := strings.Cut(strings.TrimPrefix(line, "export "), "=")
				if strings.ContainsAny(line, "\n\r\x00") ||
					!slices.Contains(append(slices.Clone(mpsNames), socketName, listName), name) {
					t.Errorf("%q says %q", text, line)
				}
			}
		}
	})
}

func TestATaskThatCannotBeToldIsAnError(t *testing.T) {
	reader, writer := io.Pipe()
	reader.Close()
	if err := Env([]string{"SLURM_JOB_ID=4711"}, served(t, nil), writer); err == nil {
		t.Error("nobody reads, and nothing is said of that")
	}
}
