//go:build live

package live

import (
	"fmt"
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// requestForms are shapes: the combinations of the ways to ask for GPUs, cores, memory and tasks, and some more. Each
// says on how many nodes it runs where it has several tasks: Slurm spreads others as there is room.
func requestForms() (shapes []string) {
	gpus := []string{"--gres=gpu:1", "--gpus=2 -N1", "--gpus-per-node=1", "-N1 -n2 --gpus-per-task=1"}
	cores := []string{"", "-c 3", "--cpus-per-gpu=2"}
	memory := []string{"", "--mem=5000", "--mem-per-cpu=2000", "--mem-per-gpu=4G"}
	for i, g := range gpus {
		for k, c := range cores {
			for l, m := range memory {
				shape := strings.Join(strings.Fields(g+" "+c+" "+m), " ")
				if (i+k+l)%2 == 1 && !strings.Contains(g, "-n2") {
					shape = strings.TrimSuffix("-N1 -n 4 "+strings.Replace(shape, " -N1", "", 1), " ")
				}
				shapes = append(shapes, shape)
			}
		}
	}
	return append(
		shapes,
		"-N1 -n 15 --gres=gpu:2",
		"-N1 --ntasks=4 --gres=gpu:1",
		"--gpus=1 --cpus-per-gpu=6",
		"--gpus=1 --mem-per-gpu=10G -c 4",
		"-N1 -n2 --tres-per-task=cpu:4,gres/gpu:1",
		"-N1 -n2 --tres-per-task=cpu=4,gres/gpu=1",
		"-N1 -n2 --tres-per-task=gres/gpu:1",
		"-N1 -n2 --tres-per-task=cpu:2 --gres=gpu:2",
		"-N2 --gres=gpu:1",
		"-N2 --ntasks-per-node=2 --gres=gpu:1",
		"-N2 --ntasks-per-node=2 -c2 --gres=gpu:1 --mem-per-cpu=1500",
		"--gres=gpu:1 --mincpus=4",
		"--gres=gpu:1 --mincpus=4 --mem-per-cpu=1500",
		"--gpus=1 --ntasks-per-gpu=2",
		"-N1 --ntasks-per-node=3 --gres=gpu:1",
		"-N1 -n4 --gpus-per-task=1 -c3",
		"--gres=gpu:1 --export=NONE",
		"--gres=gpu:1 --distribution=cyclic -N1 -n2 -c2",
		"-w n2 --gres=gpu:1",
		"-x n1 --gres=gpu:1 -c 2",
	)
}

// A shape is submitted in each of these ways.
var submissions = []struct {
	name string
	args []string
}{
	{"plain", []string{"-p", "plain"}},
	{"without", []string{"-p", "synergy"}},
	{"with", []string{"-p", "synergy", "--comment=synergy-profile=res18.json"}},
}

// differing is the script of each of them: the environments of itself, of the first task of a step and of a job that it
// submits, and how its steps and the other job's end. A step that asks for GPUs by what its job has inherited may wait
// for ever, and is not waited for. What they write goes to files of their own, so that no two write at once.
const differing = `me=$OUT.$SLURM_JOB_ID
tell() { { echo "== $1"; env -0 | tr '\n\0' ' \n'; } >> $me; }
tell script
timeout -k 2 30 srun sh -c '[ $SLURM_PROCID != 0 ] || { echo "== task"; env -0 | tr "\n\0" " \n"; } >> '$me >> $me.err 2>&1
echo "== ends
srun=$?" >> $me
if [ -z "$CHILD" ]; then
  CHILD=$me sbatch -p plain -n 1 --comment=mine --output=/dev/null "$0.child" >/dev/null && echo "== submits" >> $me
fi
`

// A variable may differ from one run to the next in what is listed in the docs, and in nothing else.
var listedVariable = regexp.MustCompile("`([A-Z0-9_]+)`")

// TestWhatTheWordChangesInAnEnvironmentIsOnTheList submits each shape in three ways, and compares what a batch script,
// a task and a job that is submitted from inside of it find: variable by variable. What may differ, and why, is said in
// the contract, which is held to what is seen here.
func TestWhatTheWordChangesInAnEnvironmentIsOnTheList(t *testing.T) {
	c, d := SetUp(t, "fifo", "tune")
	d.Round = 2 * time.Second
	d.Start()
	shapes := requestForms()
	if len(shapes) < 60 {
		t.Fatalf("%d shapes", len(shapes))
	}
	listed, seen := differences(t), map[string]bool{}
	unsized := c.compareShapes(t, shapes, listed, seen)
	t.Logf("%d of %d shapes were given other cores", len(shapes)-len(unsized), len(shapes))
	if len(unsized) > len(shapes)*4/5 {
		t.Errorf("%d of %d shapes were given no other cores: nothing is shown of the others", len(unsized), len(shapes))
	}
	unchanged := func(name string) bool { return !seen[name] }
	if slices.ContainsFunc(slices.Collect(maps.Keys(listed.byTheWord)), unchanged) {
		c.compareShapes(t, unsized, listed, seen) // on a machine that is busy they may have found no cores left
	}
	for name := range listed.byTheWord {
		if !seen[name] {
			t.Errorf("the contract lists %s, and nothing has changed it", name)
		}
	}
}

// compareShapes runs every shape in every way and holds what differs to the lists; what the word has changed it notes
// as seen. It returns the shapes to which the word gave no other cores.
func (c *Cluster) compareShapes(t *testing.T, shapes []string, lists lists, seen map[string]bool) []string {
	t.Helper()
	began := time.Now()
	runs := c.submitShapes(t, shapes)
	c.WaitLong("every job and what it has submitted has ended", 4*time.Minute, func() bool {
		left, err := c.Exec("login", "root", "squeue", "--noheader", "--user=alice")
		return err == nil && left == ""
	})
	t.Logf("%d jobs, and as many that they submitted, ended within %s", len(runs), time.Since(began))
	found := c.shapesFound(t)
	var unsized []string
	for k, shape := range shapes {
		plain, without, with := found[runs[3*k]], found[runs[3*k+1]], found[runs[3*k+2]]
		for where, diff := range byPlace(plain, without) {
			for _, name := range diff {
				if !lists.anyway[name] {
					t.Errorf("%s: %s of the managed partition: %s is %q, and %q in the plain one", shape, where, name,
						without[where][name], plain[where][name])
				}
			}
		}
		for where, diff := range byPlace(without, with) {
			if fails(where, without) {
				continue
			}
			for _, name := range diff {
				if seen[name] = true; !lists.anyway[name] && !lists.byTheWord[name] {
					t.Errorf("%s: %s with the word: %s is %q, and %q without", shape, where, name, with[where][name],
						without[where][name])
				}
			}
			for name := range without[where] {
				if _, both := with[where][name]; !both {
					t.Errorf("%s: %s with the word lacks %s", shape, where, name)
				}
			}
		}
		if with["script"]["SLURM_CPUS_ON_NODE"] == without["script"]["SLURM_CPUS_ON_NODE"] {
			unsized = append(unsized, shape)
		}
	}
	return unsized
}

// submitShapes submits every shape in every way, and tells the jobs in that order. There are never more than some
// dozens at a time: what is compared is what they find, and a crowd of them only keeps slurmd busy.
func (c *Cluster) submitShapes(t *testing.T, shapes []string) []JobID {
	t.Helper()
	const folder = "/shared/out/differential"
	var script strings.Builder
	fmt.Fprintf(&script, "rm -rf %[1]s; mkdir -p %[1]s; cd %[1]s; export OUT=%[1]s/env\n", folder)
	fmt.Fprintf(&script, "cat > job <<'END'\n#!/bin/bash\n%sEND\ncp job job.child\n",
		strings.ReplaceAll(differing, `"$0.child"`, folder+"/job.child"))
	for _, shape := range shapes {
		script.WriteString("until n=$(squeue --noheader --me | wc -l) && [ $n -lt 36 ]; do sleep 0.3; done\n")
		for _, way := range submissions {
			fmt.Fprintf(&script, "sbatch --parsable --output=%s/%%j.log", folder)
			for _, arg := range append(strings.Fields(shape), way.args...) {
				fmt.Fprintf(&script, " '%s'", arg)
			}
			script.WriteString(" job || echo 0\n")
		}
	}
	out, err := c.ExecInput("login", "alice", script.String(), "bash")
	if err != nil {
		t.Fatal(err)
	}
	var ids []JobID
	for k, line := range strings.Fields(out) {
		id, err := strconv.Atoi(line)
		if err != nil || id == 0 {
			t.Fatalf(
				"%s, %s: sbatch answers %q",
				shapes[k/len(submissions)],
				submissions[k%len(submissions)].name,
				line,
			)
		}
		ids = append(ids, JobID(id))
	}
	return ids
}

// shapesFound reads what all jobs found, by job and by place; what a job found that another has submitted stands with
// that other.
func (c *Cluster) shapesFound(t *testing.T) map[JobID]map[string]map[string]string {
	t.Helper()
	all := map[JobID]map[string]map[string]string{}
	const read = `cd /shared/out/differential; for f in env.*; do case $f in *.err) continue;; esac; echo "=== $f"; cat $f; [ ! -s $f.err ] || { echo "== says"; sed "s/^/srun=/; s/job [0-9]*/job N/" $f.err | head -n 1; }; done`
	for text := range strings.SplitSeq(c.MustExec("login", "alice", "bash", "-c", read), "=== ") {
		name, rest, _ := strings.Cut(text, "\n")
		id, err := strconv.Atoi(strings.TrimPrefix(name, "env."))
		if err != nil {
			continue
		}
		found, of := told(rest), JobID(id)
		if parent := path.Base(found["script"]["CHILD"]); parent != "." {
			n, _ := strconv.Atoi(strings.TrimPrefix(parent, "env."))
			of = JobID(n)
			found = prefixed(inherited, found)
		}
		if all[of] == nil {
			all[of] = map[string]map[string]string{}
		}
		maps.Copy(all[of], found)
	}
	return all
}

func prefixed(prefix string, found map[string]map[string]string) map[string]map[string]string {
	all := map[string]map[string]string{}
	for where, env := range found {
		all[prefix+where] = env
	}
	return all
}

// inherited is the prefix of what a job found that another has submitted.
const inherited = "the job's own job: "

// fails says that a step of a job which another has submitted does not run without the word. One that inherits cpu:4 is
// told two different numbers by Slurm, and one that inherits cpu=4 is not: with the word it may run, or say something
// else.
func fails(where string, without map[string]map[string]string) bool {
	return strings.HasPrefix(where, inherited) && where != inherited+"script" &&
		without[inherited+"ends"]["srun"] != "0"
}

// byPlace names, by place, the variables in which two runs differ.
func byPlace(a, b map[string]map[string]string) map[string][]string {
	all := map[string][]string{}
	for _, where := range slices.Sorted(maps.Keys(union(a, b))) {
		for _, name := range slices.Sorted(maps.Keys(union(a[where], b[where]))) {
			one, here := a[where][name]
			other, there := b[where][name]
			if here != there || one != other {
				all[where] = append(all[where], name)
			}
		}
	}
	return all
}

func union[V any](a, b map[string]V) map[string]V {
	all := maps.Clone(a)
	if all == nil {
		all = map[string]V{}
	}
	maps.Copy(all, b)
	return all
}

// lists are the variables that the contract lists.
type lists struct {
	anyway    map[string]bool // that differ between any two jobs
	byTheWord map[string]bool
}

// differences reads the list in the contract.
func differences(t *testing.T) lists {
	t.Helper()
	text, err := os.ReadFile("../../docs/job-contract.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(text), "\n## What is different in its environment\n")
	if !found {
		t.Fatal("the contract does not list what is different in an environment")
	}
	section, _, _ = strings.Cut(section, "\n## ")
	all := lists{map[string]bool{}, map[string]bool{}}
	for line := range strings.Lines(section) {
		cells := strings.Split(line, "|")
		if len(cells) < 4 {
			continue
		}
		for _, name := range listedVariable.FindAllStringSubmatch(cells[1], -1) {
			switch when := strings.TrimSpace(cells[2]); when {
			case "always":
				all.anyway[name[1]] = true
			case "with directives":
				all.byTheWord[name[1]] = true
			default:
				t.Errorf(
					"the contract lists %s as different %q: want always or with directives",
					name[1],
					when,
				)
			}
		}
	}
	return all
}

// TestStepsOfAPartOfTheJobRunSideBySide: each of four steps asks for a quarter of the job, so that all run at once, as
// without the word; whatever the job was given.
func TestStepsOfAPartOfTheJobRunSideBySide(t *testing.T) {
	c, d := SetUp(t, "fifo", "tune")
	d.Start()
	const script = `for i in 0 1 2 3; do srun -N1 -n1 --exclusive sh -c 'date +"%s begins"; sleep 5; date +"%s ends"' & done; wait`
	ids := map[string]JobID{}
	for name, args := range map[string][]string{"memory by default": {"-c3"}, "no cores": {},
		"memory by the core": {"-c3", "--mem-per-cpu=1500"}} {
		ids[name] = c.MustSbatch("alice", script, append([]string{"-N1", "-n4", "--gpus-per-task=1", output,
			"--comment=synergy-profile=res18.json"}, args...)...)
	}
	for name, id := range ids {
		c.WaitForState(id, "COMPLETED")
		last, first := 0, 1<<62
		for line := range strings.Lines(c.Output(id)) {
			at, what, _ := strings.Cut(strings.TrimSpace(line), " ")
			second, err := strconv.Atoi(at)
			switch {
			case err != nil:
				t.Errorf("%s: a step says %q", name, line)
			case what == "begins":
				last = max(last, second)
			case what == "ends":
				first = min(first, second)
			}
		}
		if last == 0 || last > first {
			t.Errorf(
				"%s: the last step began at %d and the first had ended at %d:\n%s",
				name,
				last,
				first,
				c.Output(id),
			)
		}
	}
}
