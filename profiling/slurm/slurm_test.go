package slurm

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
)

func TestOptionsAreCutAsAShellWouldCutThem(t *testing.T) {
	for text, want := range map[string][]string{
		"":                                    nil,
		"--account=ml":                        {"--account=ml"},
		"  --account=ml\t-x n1,n2 ":           {"--account=ml", "-x", "n1,n2"},
		`--constraint="a b" --qos='x y'`:      {"--constraint=a b", "--qos=x y"},
		`--comment='it is $HOME; rm -rf \ "'`: {`--comment=it is $HOME; rm -rf \ "`},
		`--account=m\ l --qos="a\"b"`:         {"--account=m l", `--qos=a"b`},
		`-A ml -w n1 --exclusive`:             {"-A", "ml", "-w", "n1", "--exclusive"},
		`--qos=`:                              {"--qos="},
		`--mem-bind=local --nodelist=n1`:      {"--mem-bind=local", "--nodelist=n1"},
		`--time-min=5 --gres-flags=disable-binding --comment=hello`: {"--time-min=5", "--gres-flags=disable-binding",
			"--comment=hello"},
	} {
		got, err := Options([]string{text})
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %q, %v, want %q", text, got, err, want)
		}
	}
}

func TestOptionsThatChangeWhatIsMeasuredAreRefusedHoweverTheyAreWritten(t *testing.T) {
	for text, want := range map[string]string{
		"--array=1-3": "one job", "-a1-3": "one job", "-a 1-3": "one job", "--arr=1": "one job",
		"--cpus-per-task=4": "--cores", "-c4": "--cores",
		"--cpus=4": "--cores", "--mem=4G": "--memory", "--gres=gpu:2": "--gpus", "--gpus-per-no=2": "--gpus",
		"-G 2": "--gpus", "--nodes=2": "one task",
		"-N2": "one task", "-n 4": "one task", "--wrap=hostname": "behind --", "--output=/etc/x": "as it sets",
		"--time=1":  "--budget",
		"--requeue": "--budget", "--wait": "by itself", "--test-only": "by itself", "-p gpu": "--partition",
		"-M other":   "SLURM_CLUSTERS",
		"account=ml": "options of sbatch", "--exclusive other.sh": "options of sbatch",
		"--account ml": "options of sbatch", "-H other.sh": "options of sbatch",
		"--qos=a : --qos=b": "options of sbatch", "--": "options of sbatch", "-": "options of sbatch",
		"--qos='a": "not closed", `a\`: "backslash",
		"--qos=a\n--wrap=b": "one line", "--comment=synergy-profile=a.json": "not one for synergy-slurmd",
		`--comment="x Synergy-Checkpoint"`: "not one for synergy-slurmd",
		"--synergy-profile=a.json":         "not one for synergy-slurmd",
	} {
		if got, err := Options([]string{"--qos=x", text}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %q, %v, want …%s…", text, got, err, want)
		}
	}
}

func FuzzOptions(f *testing.F) {
	for _, text := range []string{`--account=ml -x n1`, `--constraint="a b"`, `-a 1`,
		`--comment=synergy-profile=a.json`, `\`, `' '`, "--gpu", "--exclusive :"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		words, err := Options([]string{text})
		if err != nil {
			return
		}
		for i, word := range words {
			value := i > 0 && takesNext(words[i-1])
			switch {
			case strings.ContainsAny(word, "\x00\n\r"):
				t.Errorf("%q: a word %q of several lines", text, word)
			case !value && !strings.HasPrefix(word, "-"):
				t.Errorf("%q: sbatch takes %q for the script", text, word)
			case !value && (strings.HasPrefix(word, "--array") || strings.HasPrefix(word, "--wrap") ||
				strings.HasPrefix(word, "-a")):
				t.Errorf("%q: %q passes", text, word)
			}
		}
	})
}

// record is a job's as scontrol prints it; the comment is its owner's.
const record = `JobId=17 JobName=synergy-profile-res50 UserId=alice(1001) GroupId=alice(1001) Priority=4294901757 Account=ml QOS=normal ` +
	`JobState=PENDING Reason=Resources Dependency=(null) Requeue=0 Restarts=0 BatchFlag=1 Reboot=0 ExitCode=0:0 RunTime=00:00:00 ` +
	`ReqNodeList=(null) ExcNodeList=(null) NodeList=(null) NumNodes=1 NumCPUs=12 Comment=x JobState=RUNNING NodeList=evil` + "\n"

func TestAStatusIsWhatSlurmSaysAndNotWhatTheCommentSays(t *testing.T) {
	s, err := parseStatus("17", record)
	want := Status{State: "PENDING", Reason: "Resources", Exit: "0:0", Comment: "x"}
	if err != nil || s != want || !s.Waits() || s.Ended() {
		t.Errorf("%+v, %v", s, err)
	}
	if _, err := parseStatus("18", record); err == nil {
		t.Error("the record of another job is believed")
	}
	if _, err := parseStatus("17", ""); err == nil {
		t.Error("an empty record is believed")
	}
}

func TestEveryStateOfSlurmsWaitsRunsOrHasEnded(t *testing.T) {
	for text, want := range map[string]string{
		"PENDING CONFIGURING REQUEUED REQUEUE_HOLD SPECIAL_EXIT":                                                              "waits",
		"RUNNING COMPLETING SUSPENDED STOPPED SIGNALING STAGE_OUT RESIZING":                                                   "runs",
		"COMPLETED CANCELLED FAILED TIMEOUT NODE_FAIL PREEMPTED BOOT_FAIL DEADLINE OUT_OF_MEMORY REVOKED LAUNCH_FAILED OTHER": "ended",
	} {
		for state := range strings.FieldsSeq(text) {
			s := Status{State: state, Reason: "Why", Node: "n1", Exit: "1:0"}
			got := "runs"
			switch {
			case s.Waits():
				got = "waits"
			case s.Ended():
				got = "ended"
			}
			if got != want {
				t.Errorf("%s %s, want %s", state, got, want)
			}
			if s.Ended() && !strings.Contains(s.Ending(), " on n1") {
				t.Errorf("%s: %q does not say where", state, s.Ending())
			}
		}
	}
	if said := (Status{State: "FAILED", Reason: "NonZeroExitCode", Node: "n1",
		Exit: "127:0"}).Ending(); said != "ended on n1 as FAILED (NonZeroExitCode, exit code 127:0)" {
		t.Error(said)
	}
}

func TestWhatAJobWaitsForIsSaidWithSlurmsOwnWord(t *testing.T) {
	for reason, want := range map[string]string{
		"Resources":      "waits for room on a node (Resources)",
		"AssocGrpGRES":   "waits for other jobs of its account: their limit is reached (AssocGrpGRES)",
		"JobHeldAdmin":   "waits because it is held: scontrol release lets it go (JobHeldAdmin)",
		"NewInSlurm99":   "waits (NewInSlurm99)",
		"":               "waits for Slurm to look at it",
		"BadConstraints": "waits in vain: no node can ever have what it asks for (BadConstraints)",
	} {
		if got := (Status{State: "PENDING", Reason: reason}).Waiting(); got != want {
			t.Errorf("%s: %q, want %q", reason, got, want)
		}
	}
}

func FuzzParseStatus(f *testing.F) {
	f.Add(record)
	f.Add("JobId=17 JobState=\x1b[2J Reason=\x00")
	f.Fuzz(func(t *testing.T, line string) {
		s, err := parseStatus("17", line)
		for _, text := range []string{s.State, s.Reason, s.Node, s.Exit} {
			if err == nil && strings.ContainsAny(text, "\x1b\x00\n\r") {
				t.Errorf("%q would be obeyed by a terminal", text)
			}
		}
	})
}

const (
	plainNode = "NodeName=n1 Arch=x86_64 CPUAlloc=0 CPUEfctv=24 CPUTot=24 Gres=gpu:8,shard:32 RealMemory=500000 " +
		"AllocMem=0 State=IDLE Partitions=synergy,plain \n"
	typedNode = "NodeName=n2 CPUEfctv=60 CPUTot=64 Gres=gpu:h100:4(S:0-1) RealMemory=1000000 MemSpecLimit=20000 " +
		"State=DOWN Partitions=gpu\n"
)

func TestANodeIsWhatJobsCanHaveOfIt(t *testing.T) {
	n, err := parseNode(plainNode)
	want := Node{"n1", gres.Vector{GPUs: 8, CPUs: 24, Memory: 500000}, "", []string{"synergy", "plain"}}
	if err != nil || !reflect.DeepEqual(n, want) {
		t.Errorf("%+v, %v", n, err)
	}
	n, err = parseNode(typedNode)
	want = Node{"n2", gres.Vector{GPUs: 4, CPUs: 60, Memory: 980000}, "h100", []string{"gpu"}}
	if err != nil || !reflect.DeepEqual(n, want) {
		t.Errorf("%+v, %v: cores and memory of the system are no job's", n, err)
	}
	for _, wrong := range []string{"NodeName=n3 Gres=gpu:8 RealMemory=5",
		"NodeName=n3 CPUTot=8 Gres=gpu:8 RealMemory=-5", "NodeName=n3 Gres=gpu:x:y:z:w"} {
		if n, err := parseNode(wrong); err == nil {
			t.Errorf("%s: %+v", wrong, n)
		}
	}
}

func FuzzParseNode(f *testing.F) {
	f.Add(plainNode)
	f.Add(typedNode)
	f.Fuzz(func(t *testing.T, line string) {
		n, err := parseNode(line)
		if err == nil && (n.Total.GPUs < 0 || n.Total.GPUs > 0 && (n.Total.CPUs < 1 || n.Total.Memory < 1)) {
			t.Errorf("%+v", n)
		}
	})
}

func TestShapesAreOfNodesThatCanHaveTheJobTheMostFrequentFirst(t *testing.T) {
	big, small := gres.Vector{GPUs: 8, CPUs: 64, Memory: 1000}, gres.Vector{GPUs: 4, CPUs: 32, Memory: 500}
	nodes := []Node{
		{"a", small, "v100", []string{"x"}}, {"b", big, "h100", []string{"x", "y"}}, {"c", big, "h100",
			[]string{"y"}}, {"d", big, "", []string{"z"}},
	}
	for _, c := range []struct {
		partitions, gpuType string
		gpus                int
		want                string
	}{
		{"", "", 1, "b,c a d"}, {"x", "", 1, "a b"}, {"x,y", "", 8, "b,c"}, {"y", "h100", 1, "b,c"}, {"z", "h100", 1,
			"d"}, {"x", "a100", 1, ""}, {"", "", 9, ""},
	} {
		var got []string
		for _, s := range Shapes(nodes, c.partitions, c.gpuType, c.gpus) {
			got = append(got, strings.Join(s.Names, ","))
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("partition %q, type %q, %d GPUs: %q, want %q", c.partitions, c.gpuType, c.gpus, got, c.want)
		}
	}
}

// programs are scripts in place of Slurm's, in PATH.
func programs(t *testing.T, scripts map[string]string) string {
	t.Helper()
	folder := t.TempDir()
	for name, script := range scripts {
		if err := os.WriteFile(filepath.Join(folder, name), []byte("#!/bin/sh\n"+script+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", folder+string(filepath.ListSeparator)+os.Getenv("PATH"))
	return folder
}

func TestAJobIsSubmittedWithoutWhatMakesAnotherOfIt(t *testing.T) {
	folder := programs(t,
		map[string]string{"sbatch": `printf '%s\n' "$@" > "${0%/*}/asked"; env > "${0%/*}/env"; echo '17;ours'`})
	for _, name := range []string{"SBATCH_ARRAY_INX", "SLURM_CPUS_PER_TASK", "SLURM_JOB_ID", "SBATCH_WAIT",
		"SBATCH_GPUS", "SBATCH_CLUSTERS"} {
		t.Setenv(name, "lost")
	}
	t.Setenv("SBATCH_COMMENT", "synergy-profile=lost.json")
	t.Setenv("SBATCH_ACCOUNT", "kept")
	id, err := Submit(t.Context(), Job{
		Name: "p", Size: gres.Vector{GPUs: 2, CPUs: 12,
			Memory: 62500}, GPUType: "h100", Partition: "gpu", Limit: 61 * time.Second, Folder: "/a b",
		Output: "/a b/out", Script: "/a b/job.sh", Options: []string{"--qos=x;rm -rf /"},
	})
	if err != nil || id != "17" {
		t.Fatal(id, err)
	}
	asked, _ := os.ReadFile(filepath.Join(folder, "asked"))
	want := "--parsable\n--job-name=p\n--nodes=1\n--ntasks=1\n--cpus-per-task=12\n--gres=gpu:h100:2\n--mem=62500M\n--time=2\n--no-requeue\n--chdir=/a b\n" +
		"--output=/a b/out\n--open-mode=truncate\n--partition=gpu\n--qos=x;rm -rf /\n/a b/job.sh\n"
	if string(asked) != want {
		t.Errorf("%s\nwant\n%s", asked, want)
	}
	env, _ := os.ReadFile(filepath.Join(folder, "env"))
	if strings.Contains(string(env), "lost") || !strings.Contains(string(env), "SBATCH_ACCOUNT=kept") {
		t.Errorf("%s", env)
	}
}

func TestWhatSlurmRefusesIsSaidInItsOwnWords(t *testing.T) {
	programs(t, map[string]string{
		"sbatch":   "printf 'sbatch: error: first\\nsbatch: error: \\033[2Jsecond\\n' >&2; exit 1",
		"scancel":  "echo 'scancel: error: Kill job error on job id 17: Access/permission denied' >&2; exit 1",
		"scontrol": "echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1",
	})
	_, err := Submit(t.Context(), Job{})
	var refusal *Refusal
	if !errors.As(err, &refusal) || err.Error() != "sbatch refuses the job: first; [2Jsecond" {
		t.Errorf("%v", err)
	}
	if err := Cancel(t.Context(), "17"); err == nil ||
		err.Error() != "scancel 17: Kill job error on job id 17: Access/permission denied" {
		t.Error(err)
	}
	if _, err := Look(t.Context(), "17"); !errors.Is(err, ErrForgotten) {
		t.Error(err)
	}
	programs(t, map[string]string{"sbatch": "echo hello",
		"scontrol": "echo 'Unable to contact slurm controller (connect failure)' >&2; exit 1"})
	if id, err := Submit(t.Context(), Job{}); err == nil {
		t.Errorf("%q is taken for a job", id)
	}
	if _, err := Look(t.Context(), "17"); err == nil || errors.Is(err, ErrForgotten) || !strings.Contains(err.Error(),
		"connect failure") {
		t.Error(err)
	}
}

func TestAMachineWithoutSlurmIsToldApart(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	if _, err := Submit(t.Context(), Job{}); !errors.Is(err, ErrNone) {
		t.Error(err)
	}
	if _, err := Nodes(t.Context()); !errors.Is(err, ErrNone) {
		t.Error(err)
	}
}
