// Package node tests what runs on compute nodes without a Slurm: the SPANK plugin, built with sanitizers against an
// interface of its own, and the shell scripts that do the same where there is no compiler. The live suite has both on a
// Slurm.
package node

import (
	"bufio"
	"bytes"
	"debug/elf"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unicode"

	"pgregory.net/rapid"

	"github.com/synergy-slurmd/synergy-slurmd/bridge/directive"
	"github.com/synergy-slurmd/synergy-slurmd/share"
	onnode "github.com/synergy-slurmd/synergy-slurmd/share/node"
)

// Way is one of the two ways in which a node serves its jobs: it keeps a note of a run, drops it, and makes of a task's
// environment what it should be.
type Way struct {
	name  string
	notes string // the folder of the notes
	// measurer is where the site puts the program that measures a task.
	measurer string
	// broker is where the scripts look for the program of jobs that share a GPU; the plugin leaves these to them.
	broker string
	turns  string // the folder of stamps and sockets
	logger string // where the prolog looks for the program of the system's log
	run    func(verb string, env []string) ([]byte, error)
	// task is the environment that a task has whose environment was env.
	task func(output []byte, env map[string]string) map[string]string
}

const job = "4711"

// bothWays builds the plugin, and copies the scripts, each with a folder of notes of its own.
func bothWays(t testing.TB) []Way {
	t.Helper()
	return []Way{plugin(t), scripts(t)}
}

func plugin(t testing.TB) Way {
	t.Helper()
	dir := t.TempDir()
	notes := filepath.Join(dir, "notes")
	program := compile(t, filepath.Join(dir, "plugin"), notes)
	measurer := filepath.Join(dir, "measure")
	return Way{name: "plugin", notes: notes, measurer: measurer,
		run: func(verb string, env []string) ([]byte, error) {
			argv := []string{verb}
			if verb == "task" {
				argv = append(argv, job, "measure=relative", "measure="+measurer)
			}
			return output(exec.Command(program, argv...), env)
		},
		task: func(output []byte, _ map[string]string) map[string]string {
			return asMap(strings.Split(strings.TrimSuffix(string(output), "\x00"), "\x00"))
		}}
}

func compile(t testing.TB, program, notes string) string {
	t.Helper()
	cc := exec.Command("gcc", "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-g", "-fsanitize=address,undefined",
		"-fno-sanitize-recover=all",
		fmt.Sprintf("-DNOTES=%q", notes), fmt.Sprintf("-DNOTES_OWNER=%d", os.Getuid()), "-Itestdata", "-o", program,
		"testdata/plugin.c", "../../spank/synergy.c", "../../spank/words.c")
	if out, err := cc.CombinedOutput(); err != nil {
		t.Fatalf("build the plugin: %v\n%s", err, out)
	}
	return program
}

func scripts(t testing.TB) Way {
	t.Helper()
	dir := t.TempDir()
	notes := filepath.Join(dir, "notes")
	turns, err := os.MkdirTemp("", "turn") // a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(turns) })
	// for a * in a comment to find
	if err := os.WriteFile(filepath.Join(dir, "synergy-env=off"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"prolog", "epilog", "task_prolog"} {
		text, err := os.ReadFile("../../etc/node/" + name + ".sh")
		if err != nil {
			t.Fatal(err)
		}
		text = bytes.ReplaceAll(text, []byte("/run/synergy-jobs"), []byte(notes))
		text = bytes.ReplaceAll(text, []byte("/usr/lib/synergy/node"), []byte(dir))
		text = bytes.ReplaceAll(text, []byte(onnode.Folder), []byte(turns))
		text = bytes.ReplaceAll(text, []byte("timeout 2 logger "), []byte("timeout 2 "+dir+"/logger "))
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return Way{name: "scripts", notes: notes, measurer: filepath.Join(dir, "measure"),
		broker: filepath.Join(dir, "synergy-broker"), turns: turns, logger: filepath.Join(dir, "logger"),
		run: func(verb string, env []string) ([]byte, error) {
			script := map[string]string{"prolog": "prolog", "epilog": "epilog", "task": "task_prolog"}[verb]
			cmd := exec.Command("/bin/sh", filepath.Join(dir, script))
			cmd.Dir = dir
			return output(cmd, env)
		},
		task: applied}
}

func output(cmd *exec.Cmd, env []string) ([]byte, error) {
	var stderr bytes.Buffer
	cmd.Env, cmd.Stderr = append([]string{}, env...), &stderr
	out, err := cmd.Output()
	if err == nil && stderr.Len() > 0 {
		err = fmt.Errorf("on standard error: %s", &stderr)
	} else if err != nil {
		err = fmt.Errorf("%w: %s", err, &stderr)
	}
	return out, err
}

// applied is what Slurm makes of a TaskProlog's output.
func applied(output []byte, env map[string]string) map[string]string {
	env = maps.Clone(env)
	for line := range strings.Lines(string(output)) {
		verb, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		name, value, _ := strings.Cut(rest, "=")
		switch verb {
		case "export":
			env[name] = value
		case "unset":
			delete(env, name)
		default:
			env["a line that is neither export nor unset"] = line
		}
	}
	return env
}

func asMap(env []string) map[string]string {
	byName := map[string]string{}
	for _, variable := range env {
		name, value, _ := strings.Cut(variable, "=")
		byName[name] = value
	}
	return byName
}

func asList(env map[string]string) []string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(env)) {
		list = append(list, name+"="+env[name])
	}
	return list
}

// note is what the way keeps of a run that begins with this environment of the prolog; "" is nothing.
func (w Way) note(t testing.TB, env ...string) string {
	t.Helper()
	if out, err := w.run("prolog", append(env, "PATH=/usr/bin:/bin")); err != nil || len(out) > 0 {
		t.Fatalf("%s: the prolog says %q, %v", w.name, out, err)
	}
	text, err := os.ReadFile(filepath.Join(w.notes, job))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return string(text)
}

// environment is what a task has whose environment would be env, where the node keeps such a note; with none, the job
// is not managed.
func (w Way) environment(t testing.TB, note string, env map[string]string) map[string]string {
	t.Helper()
	if err := os.MkdirAll(w.notes, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(w.notes, job), []byte(note), 0o644); err != nil {
		t.Fatal(err)
	}
	if note == "" {
		_ = os.Remove(filepath.Join(w.notes, job))
	}
	out, err := w.run("task", asList(env))
	if err != nil {
		t.Fatalf("%s: %v", w.name, err)
	}
	return w.task(out, env)
}

const (
	comment    = "SLURM_JOB_COMMENT=mine, synergy-profile=res18.json synergy-checkpoint"
	annotation = `SLURM_JOB_EXTRA={"v":1,"lua":0,"job":4711,"round":42,"begin":0,"why":"its turn"}`
	id         = "SLURM_JOB_ID=" + job
)

func TestANodeKeepsTwoNumbersOfAManagedRunAndNothingOfOthers(t *testing.T) {
	extra := func(text string) string { return "SLURM_JOB_EXTRA=" + text }
	says := func(text string) string { return "SLURM_JOB_COMMENT=" + text }
	for _, w := range bothWays(t) {
		for _, c := range []struct {
			name, want string
			env        []string
		}{
			{"started by the daemon", "restarts=0\nround=42\n", []string{id, comment, annotation}},
			{"restarted", "restarts=3\nround=42\n", []string{id, comment, annotation, "SLURM_JOB_RESTART_COUNT=3"}},
			{"seen by the gate only", "restarts=0\n", []string{id, comment, extra(`{"v":1,"lua":1,"begin":0}`)}},
			{"seen by the gate, with what was asked for", "restarts=0\n",
				[]string{id, comment, extra(`{"v":1,"lua":1,"begin":0,"mem":1,"steps":1}`)}},
			{"in the first round", "restarts=0\nround=0\n", []string{id, comment,
				extra(`{"v":1,"lua":0,"job":4711,"round":0,"begin":0}`)}},
			{"to be measured", "restarts=0\nround=42\nmeasure=1\n",
				[]string{id, comment, extra(`{"v":1,"lua":0,"job":4711,"round":42,"begin":0,"measure":1}`)}},
			{"to be measured, and more", "restarts=0\nround=42\nmeasure=1\n",
				[]string{id, comment, extra(`{"v":1,"lua":0,"job":4711,"round":42,"measure":1,"found":{}}`)}},
			{"not to be measured", "restarts=0\nround=42\n", []string{id, comment,
				extra(`{"v":1,"lua":0,"job":4711,"round":42,"why":",\"measure\":1","measure":10}`)}},
			{"to be measured by the gate's word", "restarts=0\n",
				[]string{id, comment, extra(`{"v":1,"lua":1,"begin":0,"measure":1}`)}},
			{"words between commas", "restarts=0\nround=42\n",
				[]string{id, says("a,synergy-profile=a.json,b"), annotation}},
			{"between tabs and line ends", "restarts=0\nround=42\n",
				[]string{id, says("a\tsynergy-profile=a.json\nb"), annotation}},
			{"hostile words beside ours", "restarts=0\nround=42\n",
				[]string{id, says("$(touch owned) `id` * ;rm -rf / synergy-profile=a.json \x1b[31m"), annotation}},
			{"no annotation", "", []string{id, comment}},
			{"no comment", "", []string{id, annotation}},
			{"no job", "", []string{comment, annotation}},
			{"a job that is a path", "", []string{"SLURM_JOB_ID=../../../tmp/x", comment, annotation}},
			{"to be told", "restarts=0\nround=42\nenv=1\n",
				[]string{id, says("synergy-env=on synergy-profile=a.json"), annotation}},
			{"to be told and measured", "restarts=0\nround=42\nenv=1\nmeasure=1\n",
				[]string{id, says("synergy-profile=auto,synergy-env=on"),
					extra(`{"v":1,"lua":0,"job":4711,"round":42,"begin":0,"measure":1}`)}},
			{"switched on and off", "",
				[]string{id, says("synergy-profile=a.json synergy-env=off synergy-env=on"), annotation}},
			{"switched off", "", []string{id, says("synergy-profile=a.json synergy-env=off"), annotation}},
			{"a word that is shorter", "restarts=0\nround=42\n",
				[]string{id, says("synergy-profile=a.json synergy-env=o"), annotation}},
			{"a pattern that a shell would fill in", "restarts=0\nround=42\n",
				[]string{id, says("* synergy-profile=a.json"), annotation}},
			{"another word that begins so", "restarts=0\nround=42\n",
				[]string{id, says("synergy-profile=a.json synergy-env=offers"), annotation}},
			{"not our directive", "", []string{id, says("not-synergy-profile=a.json synergy-profile"), annotation}},
			{"the annotation of another job", "", []string{id, comment,
				extra(`{"v":1,"lua":0,"job":47110,"round":42,"begin":0}`)}},
			{"of another version", "", []string{id, comment, extra(`{"v":2,"lua":0,"job":4711,"round":42,"begin":0}`)}},
			{"the user's own words", "", []string{id, comment, extra("run 3 of 5")}},
			{"a round that is none", "", []string{id, comment,
				extra(`{"v":1,"lua":0,"job":4711,"round":-1,"begin":0}`)}},
			{"a round in octal", "", []string{id, comment, extra(`{"v":1,"lua":0,"job":4711,"round":042,"begin":0}`)}},
			{"a round without end", "", []string{id, comment, extra(`{"v":1,"lua":0,"job":4711,"round":42`)}},
			{"a round of many digits", "", []string{id, comment,
				extra(`{"v":1,"lua":0,"job":4711,"round":` + strings.Repeat("9", 4000) + `,`)}},
			{"a round that a shell would run", "", []string{id, comment,
				extra(`{"v":1,"lua":0,"job":4711,"round":$(touch owned),"`)}},
			{"restarts that are none", "restarts=0\nround=42\n",
				[]string{id, comment, annotation, "SLURM_JOB_RESTART_COUNT=$(id)"}},
			{"restarts of ten digits", "restarts=0\nround=42\n",
				[]string{id, comment, annotation, "SLURM_JOB_RESTART_COUNT=1234567890"}},
			{"a comment of 60 kB", "restarts=0\nround=42\n",
				[]string{id, says(strings.Repeat("x", 60_000) + " synergy-profile=a.json"), annotation}},
		} {
			if got := w.note(t, c.env...); got != c.want {
				t.Errorf("%s: %s: keeps %q, want %q", w.name, c.name, got, c.want)
			}
			if left, _ := filepath.Glob(w.notes + "/.*"); len(left) > 0 {
				t.Errorf("%s: %s: leaves %v", w.name, c.name, left)
			}
		}
	}
}

// TestTheNumberOfAJobMayHaveTenDigits: in a federation its highest bits say which cluster's it is.
func TestTheNumberOfAJobMayHaveTenDigits(t *testing.T) {
	for _, w := range bothWays(t) {
		for id, kept := range map[string]bool{"1": true, "999999999": true, "1000000000": true, "4294967295": true,
			"0": false, "01": false, "0123456789": false, "+1": false, "-1": false, "1 ": false, "1a": false,
			"12345678901": false} {
			extra := strings.Replace(annotation, "4711", id, 1)
			w.note(t, "SLURM_JOB_ID="+id, comment+" synergy-env=on", extra) // of the job 4711 there is none
			text, _ := os.ReadFile(filepath.Join(w.notes, id))
			if (string(text) == "restarts=0\nround=42\nenv=1\n") != kept {
				t.Errorf("%s: of job %q: keeps %q", w.name, id, text)
			}
			env := granted("SLURM_JOB_ID=" + id)
			out, err := w.run("task", asList(env))
			if w.name == "scripts" && (w.task(out, env)["SYNERGY_CPUS"] == "9") != kept {
				t.Errorf("%s: a task of job %q is told %q, %v", w.name, id, out, err)
			}
			if _, err := w.run("epilog", []string{"SLURM_JOB_ID=" + id, "PATH=/usr/bin:/bin"}); err != nil {
				t.Errorf("%s: the epilog of job %q: %v", w.name, id, err)
			}
			if left, _ := filepath.Glob(filepath.Join(w.notes, "*")); len(left) > 0 {
				t.Errorf("%s: of job %q is left %q", w.name, id, left)
			}
		}
	}
}

func TestTheNoteOfARunIsGoneAfterItAndBeforeTheNext(t *testing.T) {
	for _, w := range bothWays(t) {
		w.note(t, id, comment, annotation)
		if _, err := w.run("epilog", []string{id, "PATH=/usr/bin:/bin"}); err != nil {
			t.Error(w.name, err)
		}
		if _, err := os.Stat(filepath.Join(w.notes, job)); err == nil {
			t.Errorf("%s: the note outlives the epilog", w.name)
		}
		w.note(t, id, comment, annotation)
		if left := w.note(t, id, "SLURM_JOB_COMMENT=synergy-profile=a.json synergy-env=off", annotation); left != "" {
			t.Errorf("%s: a run without an epilog leaves %q to the next", w.name, left)
		}
	}
}

func TestTasksCanReadANoteWhateverTheUmask(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0o077))
	for _, w := range bothWays(t) {
		w.note(t, id, comment, annotation)
		for path, want := range map[string]os.FileMode{w.notes: 0o755, filepath.Join(w.notes, job): 0o644} {
			if about, err := os.Stat(path); err != nil || about.Mode().Perm() != want {
				t.Errorf("%s: %v, %v: want mode %o", w.name, about, err, want)
			}
		}
	}
}

func TestAPrologThatCanKeepNoNoteEndsWell(t *testing.T) {
	for _, w := range bothWays(t) {
		if err := os.WriteFile(w.notes, nil, 0o644); err != nil {
			t.Fatal(err)
		}
		for _, verb := range []string{"prolog", "epilog"} {
			cmd, err := w.run(verb, []string{id, comment, annotation, "PATH=/usr/bin:/bin"})
			if err != nil && strings.Contains(err.Error(), "exit status") {
				t.Errorf("%s: %s ends badly where no note can be kept: %s %v", w.name, verb, cmd, err)
			}
		}
	}
}

// granted is the environment of a batch script of one task that holds 9 cores, 187500 MB and one GPU.
func granted(more ...string) map[string]string {
	env := map[string]string{"SLURM_JOB_ID": job, "SLURM_CPUS_ON_NODE": "9", "SLURM_CPUS_PER_TASK": "9",
		"SLURM_TASKS_PER_NODE": "1",
		"SLURM_MEM_PER_NODE":   "187500", "SLURM_GPUS_ON_NODE": "1", "HOME": "/home/alice"}
	maps.Copy(env, asMap(more))
	maps.DeleteFunc(env, func(_, value string) bool { return value == "-" })
	return env
}

func TestTasksOfAManagedJobAreToldWhatTheyHold(t *testing.T) {
	const note = "restarts=1\nround=42\nenv=1\n"
	ours := func(cores string) string {
		return fmt.Sprintf("SYNERGY_SET=OMP_NUM_THREADS=%[1]s MKL_NUM_THREADS=%[1]s SRUN_CPUS_PER_TASK=%[1]s", cores)
	}
	threads := func(cores string) []string {
		return []string{"OMP_NUM_THREADS=" + cores, "MKL_NUM_THREADS=" + cores, "SRUN_CPUS_PER_TASK=" + cores,
			ours(cores)}
	}
	held := []string{"SYNERGY_CPUS=9", "SYNERGY_MEMORY_MB=187500", "SYNERGY_GPUS=1", "SYNERGY_ROUND=42",
		"SYNERGY_RESTARTS=1"}
	for _, w := range bothWays(t) {
		for _, c := range []struct {
			name, note string
			env        map[string]string
			want       []string // beyond env; -: not there
		}{
			{"a batch script", note, granted(), append(threads("9"), held...)},
			{"only the gate has seen it", "restarts=0\nenv=1\n", granted(),
				append(threads("9"), append(held, "SYNERGY_ROUND=-", "SYNERGY_RESTARTS=0")...)},
			{"four tasks of two cores", note, granted("SLURM_CPUS_ON_NODE=8", "SLURM_CPUS_PER_TASK=2",
				"SLURM_TASKS_PER_NODE=4"),
				append(threads("2"), append(held, "SYNERGY_CPUS=8")...)},
			{"without -c", note, granted("SLURM_CPUS_PER_TASK=-", "SLURM_TASKS_PER_NODE=4(x2)"),
				append(threads("2"), held...)},
			{"a step of three tasks without -c", note, granted("SLURM_CPUS_PER_TASK=-",
				"SLURM_STEP_TASKS_PER_NODE=3,1"), append(threads("3"), held...)},
			{"a step on very many nodes", note, granted("SLURM_CPUS_PER_TASK=-",
				"SLURM_STEP_TASKS_PER_NODE=3"+strings.Repeat(",2,3", 1000)), append(threads("3"), held...)},
			{"more tasks than cores", note, granted("SLURM_CPUS_PER_TASK=-", "SLURM_TASKS_PER_NODE=100"),
				append(threads("1"), held...)},
			{"memory for each core", note, granted("SLURM_MEM_PER_NODE=-", "SLURM_MEM_PER_CPU=1000"),
				append(threads("9"), append(held, "SYNERGY_MEMORY_MB=9000")...)},
			{"memory beyond all bounds", note, granted("SLURM_MEM_PER_NODE=-", "SLURM_MEM_PER_CPU=999999999"),
				append(threads("9"), append(held, "SYNERGY_MEMORY_MB=-")...)},
			{"memory that nobody names", note, granted("SLURM_MEM_PER_NODE=-", "SYNERGY_MEMORY_MB=7"),
				append(threads("9"), append(held, "SYNERGY_MEMORY_MB=-")...)},
			{"no GPU in this step", note, granted("SLURM_GPUS_ON_NODE=-"),
				append(threads("9"), append(held, "SYNERGY_GPUS=0")...)},
			{"a GPU that it shares", note, granted("SLURM_GPUS_ON_NODE=-", "SLURM_SHARDS_ON_NODE=1"),
				append(threads("9"), held...)},
			{"no part of a GPU", note, granted("SLURM_GPUS_ON_NODE=-", "SLURM_SHARDS_ON_NODE=0"),
				append(threads("9"), append(held, "SYNERGY_GPUS=0")...)},
			{"parts that are none", note, granted("SLURM_GPUS_ON_NODE=-", "SLURM_SHARDS_ON_NODE=$(id)"),
				append(threads("9"), append(held, "SYNERGY_GPUS=0")...)},
			{"whole GPUs and parts", note, granted("SLURM_GPUS_ON_NODE=0", "SLURM_SHARDS_ON_NODE=4"),
				append(threads("9"), append(held, "SYNERGY_GPUS=0")...)},
			{"the user's own threads", note, granted("OMP_NUM_THREADS=4,2"),
				append([]string{"OMP_NUM_THREADS=4,2", "MKL_NUM_THREADS=9", "SRUN_CPUS_PER_TASK=9",
					"SYNERGY_SET=MKL_NUM_THREADS=9 SRUN_CPUS_PER_TASK=9"}, held...)},
			{"all of them the user's own", note, granted("OMP_NUM_THREADS=", "MKL_NUM_THREADS=9",
				"SRUN_CPUS_PER_TASK=1"), append([]string{"SYNERGY_SET=-"}, held...)},
			{"as many as a buffer does not hold", note, granted("OMP_NUM_THREADS=" + strings.Repeat("1,", 4000)),
				append([]string{"MKL_NUM_THREADS=9", "SRUN_CPUS_PER_TASK=9",
					"SYNERGY_SET=MKL_NUM_THREADS=9 SRUN_CPUS_PER_TASK=9"}, held...)},
			{"a step of fewer cores", note,
				granted(append(threads("9"), "SLURM_CPUS_PER_TASK=2", "SLURM_CPUS_ON_NODE=4")...),
				append(threads("2"), append(held, "SYNERGY_CPUS=4")...)},
			{"a step whose script has set its own", note,
				granted(append(threads("9"), "OMP_NUM_THREADS=3", "SLURM_CPUS_PER_TASK=2")...),
				append([]string{"MKL_NUM_THREADS=2", "SRUN_CPUS_PER_TASK=2",
					"SYNERGY_SET=MKL_NUM_THREADS=2 SRUN_CPUS_PER_TASK=2"}, held...)},
			{"what it says that it has, it does not", note, granted("SLURM_CPUS_PER_TASK=999"),
				append(threads("9"), held...)},
			{"hostile numbers", note, granted("SLURM_CPUS_PER_TASK=$(touch owned)", "SLURM_MEM_PER_NODE=`id`",
				"SLURM_GPUS_ON_NODE=1;id", "SLURM_TASKS_PER_NODE=a[$(id)]"),
				append(threads("9"), append(held, "SYNERGY_MEMORY_MB=-", "SYNERGY_GPUS=0")...)},
			{"a hostile list of what is ours", note, granted("OMP_NUM_THREADS=$(id)",
				"SYNERGY_SET=OMP_NUM_THREADS=$(id)"),
				append([]string{"MKL_NUM_THREADS=9", "SRUN_CPUS_PER_TASK=9",
					"SYNERGY_SET=MKL_NUM_THREADS=9 SRUN_CPUS_PER_TASK=9"}, held...)},
			{"a list of what is ours that begins alike", note,
				granted("OMP_NUM_THREADS=9", "SYNERGY_SET=OMP_NUM_THREADS=99"),
				append([]string{"MKL_NUM_THREADS=9", "SRUN_CPUS_PER_TASK=9",
					"SYNERGY_SET=MKL_NUM_THREADS=9 SRUN_CPUS_PER_TASK=9"}, held...)},
			{"cores of ten digits", note, granted("SLURM_CPUS_ON_NODE=1234567890"), nil},
			{"cores in octal", note, granted("SLURM_CPUS_ON_NODE=011"), nil},
			{"no cores", note, granted("SLURM_CPUS_ON_NODE=0"), nil},
			{"cores that are none", note, granted("SLURM_CPUS_ON_NODE=-"), nil},
			{"a job that is not managed", "", granted("SYNERGY_CPUS=7", "OMP_NUM_THREADS=2"), nil},
			{"a managed job that has not asked to be told", "restarts=1\nround=42\n", granted(), nil},
			{"a job that is not managed, from inside of one that is told", "",
				granted(append(append(threads("9"), held...), "OMP_NUM_THREADS=3")...),
				[]string{"MKL_NUM_THREADS=-", "SRUN_CPUS_PER_TASK=-", "SYNERGY_SET=-", "SYNERGY_CPUS=-",
					"SYNERGY_MEMORY_MB=-", "SYNERGY_GPUS=-", "SYNERGY_ROUND=-", "SYNERGY_RESTARTS=-"}},
			{"a managed job that has not asked, from inside of one that is told", "restarts=1\nround=42\n",
				granted(append(threads("9"), held...)...),
				[]string{"OMP_NUM_THREADS=-", "MKL_NUM_THREADS=-", "SRUN_CPUS_PER_TASK=-", "SYNERGY_SET=-",
					"SYNERGY_CPUS=-",
					"SYNERGY_MEMORY_MB=-", "SYNERGY_GPUS=-", "SYNERGY_ROUND=-", "SYNERGY_RESTARTS=-"}},
			{"a note that is garbage", "round=42", granted(), nil},
			{"a note with a line too many", note + "gpus=1\n", granted(), nil},
			{"a note that a shell would run", "restarts=$(touch owned)\n", granted(), nil},
			{"a note that is cut", "restarts=1\nround=", granted(), nil},
		} {
			want := maps.Clone(c.env)
			maps.Copy(want, asMap(c.want))
			maps.DeleteFunc(want, func(_, value string) bool { return value == "-" })
			if got := w.environment(t, c.note, c.env); !maps.Equal(got, want) {
				t.Errorf("%s: %s:\n got %q\nwant %q", w.name, c.name, asList(got), asList(want))
			}
		}
		if _, err := os.Stat("owned"); err == nil {
			t.Errorf("%s: a shell has read what a user wrote", w.name)
		}
	}
}

func TestWhatIsNoOrdinaryFileIsNoNote(t *testing.T) {
	for _, w := range bothWays(t) {
		path := filepath.Join(w.notes, job)
		for kind, make := range map[string]func() error{
			"a folder":         func() error { return os.MkdirAll(path, 0o755) },
			"a pipe":           func() error { return exec.Command("mkfifo", path).Run() },
			"a link to naught": func() error { return os.Symlink("/nowhere", path) },
			"a pipe with something in it": func() error {
				if err := exec.Command("mkfifo", path).Run(); err != nil {
					return err
				}
				pipe, err := os.OpenFile(path, os.O_RDWR, 0)
				if err != nil {
					return err
				}
				t.Cleanup(func() { pipe.Close() })
				_, err = pipe.WriteString("restarts=1\nround=42\n")
				return err
			},
		} {
			w.environment(t, "", granted())
			if err := make(); err != nil {
				t.Fatal(err)
			}
			out, err := w.run("task", asList(granted()))
			if got := w.task(out, granted()); err != nil || !maps.Equal(got, granted()) {
				t.Errorf("%s: %s: %v, %q", w.name, kind, err, asList(got))
			}
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestThePluginKeepsNothingInAFolderThatOthersCanWriteTo(t *testing.T) {
	w := plugin(t)
	if err := os.Mkdir(w.notes, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(w.notes, 0o777); err != nil {
		t.Fatal(err)
	}
	if got := w.note(t, id, comment, annotation); got != "" {
		t.Errorf("keeps %q", got)
	}
}

// Pieces of what users and Slurm write, right and wrong, of which the property draws.
var (
	pieces = []string{
		"synergy-profile=a.json",
		"synergy-profile=",
		"synergy-env=off",
		"synergy-env=on",
		"synergy-env=o",
		"synergy-env=offset",
		"xsynergy-profile=a",
		" ",
		",",
		"\t",
		"\n",
		"\v",
		"\f",
		"\r",
		"\u00a0",
		"*",
		"mine",
		"$(id)",
		"`id`",
		"\x1b[31m",
		"'",
		"\"",
		"\\",
	}
	starts = []string{`{"v":1,"lua":0,"job":4711,"round":`, `{"v":1,"lua":1,`, `{"v":1,"lua":1}`,
		`{"v":1,"lua":0,"job":471,"round":`, `{"v":1,"lua":0,"job":4711`, ` {"v":1,"lua":1,`, ""}
	numbers = []string{"0", "1", "2", "9", "24", "187500", "999999999", "1000000000", "01", "-1", "+1", " 1", "1 ",
		"1e3", "0x9", "", "9,2", "4(x2)", "3,1", "$(id)", "9\n", "٣", "unset"}
)

// TestBothWaysMakeTheSameOfEverything: whatever stands in the comment, the annotation and a task's environment, plugin
// and scripts make the same of it.
func TestBothWaysMakeTheSameOfEverything(t *testing.T) {
	ways := bothWays(t)
	number := rapid.SampledFrom(numbers)
	rapid.Check(t, func(r *rapid.T) {
		words := strings.Join(rapid.SliceOfN(rapid.SampledFrom(pieces), 0, 6).Draw(r, "comment"), "")
		extra := rapid.SampledFrom(starts).Draw(r, "annotation") + number.Draw(r,
			"round") + rapid.SampledFrom([]string{",", `,"begin":0}`, `,"measure":1}`, `,"measure":1,`,
			`"measure":1}`, "}", ""}).Draw(r, "rest")
		prolog := []string{id, "SLURM_JOB_COMMENT=" + words, "SLURM_JOB_EXTRA=" + extra,
			"SLURM_JOB_RESTART_COUNT=" + number.Draw(r, "restarts")}
		env := map[string]string{"SLURM_JOB_ID": job}
		for _, name := range []string{"SLURM_CPUS_ON_NODE", "SLURM_CPUS_PER_TASK", "SLURM_TASKS_PER_NODE",
			"SLURM_STEP_TASKS_PER_NODE", "SLURM_MEM_PER_NODE",
			"SLURM_MEM_PER_CPU", "SLURM_GPUS_ON_NODE", "SLURM_SHARDS_ON_NODE", "OMP_NUM_THREADS", "MKL_NUM_THREADS"} {
			if rapid.Bool().Draw(r, name+" is there") {
				env[name] = number.Draw(r, name)
			}
		}
		env["SYNERGY_SET"] = "OMP_NUM_THREADS=" + number.Draw(r, "ours") + " MKL_NUM_THREADS=" + number.Draw(r,
			"ours too")
		a, b := ways[0], ways[1]
		if one, other := a.note(t, prolog...), b.note(t, prolog...); one != other {
			r.Errorf("the %s keeps %q, the %s %q", a.name, one, b.name, other)
		}
		note := "restarts=1\nround=42\n" + rapid.SampledFrom([]string{"env=1\n", "env=1\n", "", "env=2\n",
			"env=1\nmeasure=1\n", "measure=1\n"}).Draw(r, "note")
		if one, other := a.environment(t, note, env), b.environment(t, note, env); !maps.Equal(one, other) {
			r.Errorf("the %s gives %q\nthe %s %q", a.name, asList(one), b.name, asList(other))
		} else if both := b.environment(t, note, one); !maps.Equal(one, both) {
			r.Errorf("the %s alone gives %q\nthe %s behind it %q", a.name, asList(one), b.name, asList(both))
		}
	})
}

// checker asks the plugin whether it would take options.
type checker struct {
	sync.Mutex
	ask    io.Writer
	answer *bufio.Reader
}

func startChecker(t testing.TB) *checker {
	t.Helper()
	cmd := exec.Command(compile(t, filepath.Join(t.TempDir(), "plugin"), "/nowhere"), "words")
	cmd.Env = []string{id} // jobs submit jobs
	ask, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	answer, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = ask.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("the plugin ended: %v", err)
		}
	})
	return &checker{ask: ask, answer: bufio.NewReader(answer)}
}

// complaint is what the plugin says against --NAME=VALUE, "" when it takes it.
func (c *checker) complaint(t testing.TB, name, value string) string {
	t.Helper()
	c.Lock()
	defer c.Unlock()
	if _, err := fmt.Fprintf(c.ask, "%s\x00%s\x00", name, value); err != nil {
		t.Fatalf("--%s=%q: the plugin is gone: %v", name, value, err)
	}
	line, err := c.answer.ReadString('\n')
	if err != nil {
		t.Fatalf("--%s=%q: the plugin is gone: %v", name, value, err)
	}
	if line == "right\n" {
		return ""
	}
	return line
}

// isWord says whether the daemon would take the word NAME=VALUE as one word.
func isWord(name, value string) bool {
	if name == "synergy-share" {
		return isShare(value)
	}
	if strings.ContainsAny(value, ", \t\n\v\f\r") || strings.ContainsFunc(value, unicode.IsControl) {
		return false
	}
	words := name + "=" + value
	if name != "synergy-profile" {
		words += " synergy-profile=a.json"
	}
	says := directive.Parse(words)
	return says.Err() == nil
}

// isShare says whether all of the value is what a job says of a shared GPU: it has commas.
func isShare(value string) bool {
	request, err := share.ParseRequest(value)
	if err != nil {
		return false
	}
	says := directive.Parse("synergy-profile=a.json,synergy-share=" + value)
	return says.Err() == nil && says.Share != nil && *says.Share == request
}

var optionNames = []string{"synergy-profile", "synergy-checkpoint", "synergy-length", "synergy-env", "synergy-cores",
	"synergy-memory", "synergy-share"}

func FuzzAnOptionIsTakenWhereItsWordIs(f *testing.F) {
	c := startChecker(f)
	for _, value := range []string{"res18.json", "../res18.json", "a..b.json", ".json", "x.json\n",
		strings.Repeat("x", 107) + ".json", strings.Repeat("x", 108) + ".json",
		"USR1", "USR1@60", "USR1@", "USR1@060", "TERM@3600", "TERM@3601", "KILL",
		"USR1@60/steps", "USR2/steps", "HUP@3601/steps", "INT@/steps", "/steps", "@60/steps", "USR1/",
		"USR1/Steps", "USR1/steps@60", "USR1/steps/steps", "USR1@60/", "USR1@60/steps ",
		"USR1@99999999/steps", "2.5h", "0s", "0.0s", "00.1m", "3650d", "3650.0d", "3650.1d", "3651d", "87600h",
		"87600.000000001h", "1234567890s", ".5h", "1e3s", "5", "off", "on", "OFF", "keep", "give", "Keep", "keep ",
		"kee", "é.json", "٣s", "high", "low", "low,", "high,mem=6", "low,slo=50,mem=0.5", "high,mem=6,mem=6",
		"low,slo", "high,mem=1024", "high,mem=1024.000", "high,mem=1024.001", "high,mem=1023.999",
		"low,mem=0.000", "low,mem=000.001", "low,mem=0000001", "low,mem=1.0000", "low,mem=1.", "low,mem=.5",
		"low,mem=", "low,mem=1,,slo=1", "low,slo=600000", "low,slo=600001", "low,slo=01", "low,slo=9999999999",
		"low, mem=6", "low,,mem=6", "low,Mem=6", "low,SLO=50", "low,memory=6", "low,gpu_mem=6", "low,level=1",
		"low,mem=6 slo=50", "low,mem=6,Slo=50",
		"low,mine", "high mem=6", "highest", "lo,mem=1", "low,slo=1,slo=2"} {
		for k := range optionNames {
			f.Add(k, value)
		}
	}
	f.Add(0, "auto")
	f.Add(0, "auto.json")
	f.Add(0, "Auto")
	f.Fuzz(func(t *testing.T, k int, value string) {
		if k < 0 || k >= len(optionNames) || value == "" || strings.ContainsRune(value, 0) {
			return // no option
		}
		name := optionNames[k]
		complaint := c.complaint(t, name, value)
		if taken, right := complaint == "", isWord(name, value); taken != right {
			t.Errorf("--%s=%q: taken %t, while its word is right: %t. %s", name, value, taken, right, complaint)
		}
		if strings.ContainsFunc(strings.TrimSuffix(complaint, "\n"), unicode.IsControl) {
			t.Errorf("--%s=%q: the complaint has a control character: %q", name, value, complaint)
		}
	})
}

func TestAnOptionIsRefusedByNameWithARemedy(t *testing.T) {
	c := startChecker(t)
	for name, remedy := range map[string]string{"synergy-profile": "such as res18.json",
		"synergy-checkpoint": "such as USR1@60", "synergy-length": "such as 2.5h",
		"synergy-env": "on", "synergy-progress": "no value", "synergy-cores": "keep", "synergy-memory": "give",
		"synergy-share": "such as high,mem=6,slo=50"} {
		complaint := c.complaint(t, name, "nonsense!")
		if !strings.HasPrefix(complaint, "synergy: --"+name+" is not right") || !strings.Contains(complaint, remedy) {
			t.Errorf("--%s: %q", name, complaint)
		}
	}
	for _, name := range []string{"synergy-checkpoint", "synergy-progress"} {
		if complaint := c.complaint(t, name, ""); complaint != "" {
			t.Errorf("--%s alone: %s", name, complaint)
		}
	}
}

func TestAStepTakesNoOptionOfAJob(t *testing.T) {
	program := compile(t, filepath.Join(t.TempDir(), "plugin"), "/nowhere")
	out, _ := output(exec.Command(program, "step-option", "synergy-profile", "a.json"), []string{id})
	if !strings.Contains(string(out), "give it to sbatch") {
		t.Errorf("says %q", out)
	}
	if out, err := output(exec.Command(program, "step-option", "synergy-profile", "a.json"), nil); err != nil {
		t.Errorf("of an interactive job it is the gate's to say: %s %v", out, err)
	}
}

func TestThePluginLinksNothingButTheCLibraryAndShowsSlurmOnlyWhatItLooksFor(t *testing.T) {
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	so := filepath.Join(t.TempDir(), "synergy.so")
	if out, err := exec.Command("make", "-C", "../../spank", "HEADERS="+here+"/testdata",
		"OUT="+so).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	file, err := elf.Open(so)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if needed, err := file.ImportedLibraries(); err != nil || !slices.Equal(needed, []string{"libc.so.6"}) {
		t.Errorf("links %v, %v", needed, err)
	}
	symbols, err := file.DynamicSymbols()
	if err != nil {
		t.Fatal(err)
	}
	var shown []string
	for _, s := range symbols {
		if s.Section != elf.SHN_UNDEF {
			shown = append(shown, s.Name)
		}
	}
	slices.Sort(shown)
	want := []string{"plugin_name", "slurm_spank_init", "slurm_spank_job_epilog", "slurm_spank_job_prolog",
		"slurm_spank_task_init"}
	if !slices.Equal(shown, want) {
		t.Errorf("shows %v, want %v", shown, want)
	}
}

// TestATaskThatIsToBeMeasuredIsAndNoOther: the program is started once, with the process that becomes the task, holds
// nothing of it open, and a node without that program runs the task all the same.
func TestATaskThatIsToBeMeasuredIsAndNoOther(t *testing.T) {
	const asked, quiet = "restarts=0\nround=42\nmeasure=1\n", "restarts=0\nround=42\n"
	for _, w := range bothWays(t) {
		env := granted("PATH=/usr/bin:/bin")
		with := w.environment(t, quiet, env)
		if got := w.environment(t, asked, env); !maps.Equal(got, with) {
			t.Errorf("%s: without the program the task has %q, want %q", w.name, asList(got), asList(with))
		}
		said := w.measures(t)
		for name, note := range map[string]string{"not-asked": quiet, "not-managed": "", "one-of-two": asked} {
			tasks := map[string]string{"one-of-two": "2"}[name]
			w.environment(t, note, granted("PATH=/usr/bin:/bin", "HOME="+name, "SLURM_STEP_NUM_TASKS="+tasks))
		}
		if got := w.environment(t, asked, env); !maps.Equal(got, with) {
			t.Errorf("%s: a task that is measured has %q, want %q", w.name, asList(got), asList(with))
		}
		want := `^measure --pid [0-9]+ job 4711 of /home/alice open /dev/null /dev/null /dev/null\n$`
		if text := w.measured(t, said); !regexp.MustCompile(want).MatchString(text) {
			t.Errorf("%s: the program says %q, want %s", w.name, text, want)
		}
	}
}

// measures puts a program where the site would, and returns the file in which it says what it was told and what it has
// open.
func (w Way) measures(t testing.TB) string {
	t.Helper()
	said := w.measurer + ".said"
	script := "#!/bin/sh\nopen=$(readlink /proc/$$/fd/0 /proc/$$/fd/1 /proc/$$/fd/2)\n" +
		"echo $* job $SLURM_JOB_ID of $HOME open $open >>" + said + "\n"
	if err := os.WriteFile(w.measurer, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	return said
}

// measured waits until the task of alice is measured, and returns all that was started until then.
func (w Way) measured(t testing.TB, said string) string {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if text, err := os.ReadFile(said); err == nil && strings.Contains(string(text), "alice") {
			return string(text)
		}
	}
	t.Fatalf("%s: the task is not measured", w.name)
	return ""
}
