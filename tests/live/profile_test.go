//go:build live

package live

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
)

// emulated is a trainer that sleeps as long as the model's profile says for the cores that it was told.
const emulated = `#!/bin/sh
exec /opt/synergy/bin/synergy-emujob --profile /opt/synergy/etc/profiles/$MODEL.json --virtual-cpu --gpus 1 --cpus $SYNERGY_CPUS \
    --memory $SYNERGY_MEMORY_MB --duration 10h --start-cost 0.1s --interval 10ms --speedup 100
`

// bound is one whose cores are those that it may use, and which saves in half a second when it is asked.
const bound = `#!/bin/sh
exec /opt/synergy/bin/synergy-emujob --profile /opt/synergy/etc/profiles/alexnet.json --virtual-cpu --gpus 1 --cpus $(env -u OMP_NUM_THREADS nproc) \
    --memory 62500 --duration 10h --start-cost 0.1s --interval 10ms --speedup 100 --checkpoint $PWD/saved --checkpoint-cost 50s --resume-any
`

// measured is what the test reads of a profile.
type measured struct {
	Model      string      `json:"model"`
	Source     string      `json:"source"`
	Cores      []float64   `json:"cores_per_gpu"`
	Memory     []float64   `json:"memory_per_gpu_mib"`
	Rates      [][]float64 `json:"throughput_samples_per_s"`
	Checkpoint float64     `json:"checkpoint_s"`
	Start      float64     `json:"start_s"`
}

// rate is what a profile's column says of so many cores: on the line between its neighbours, and no more than the last.
func (m measured) rate(cores float64, column int) float64 {
	at := slices.IndexFunc(m.Cores, func(c float64) bool { return c >= cores })
	switch {
	case at < 0:
		return m.Rates[len(m.Rates)-1][column]
	case at == 0:
		return m.Rates[0][column] * cores / m.Cores[0]
	}
	low, high := m.Cores[at-1], m.Cores[at]
	return m.Rates[at-1][column] + (m.Rates[at][column]-m.Rates[at-1][column])*(cores-low)/(high-low)
}

// profiled is a call of synergy profile by alice in a folder that the nodes see, with all that it wrote.
func (c *Cluster) profiled(folder, model, trainer, options string) (said string, err error) {
	script := fmt.Sprintf(
		`mkdir -p %[1]s && cd %[1]s && cat > train.sh && export MODEL=%[2]s && exec /opt/synergy/bin/synergy profile %[3]s -o %[2]s.json -- train.sh 2>&1`,
		folder, model, options)
	return c.ExecInput("login", "alice", trainer, "bash", "-c", script)
}

const profiles = "/shared/home/alice/profiles"

func (c *Cluster) profile(folder, model string) (m measured, err error) {
	text, err := c.Exec("login", "alice", "cat", folder+"/"+model+".json")
	if err != nil {
		return m, err
	}
	return m, json.Unmarshal([]byte(text), &m)
}

// together runs tests side by side on one cluster, and names those that fail.
func together(t *testing.T, tests map[string]func() error) {
	t.Helper()
	var all sync.WaitGroup
	for name, run := range tests {
		all.Go(func() {
			if err := run(); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
	all.Wait()
}

// Nobody's daemon runs: the command needs none. All that is measured here is measured at the same time, in jobs that
// wait for each other.
func TestSynergyProfileOnTheCluster(t *testing.T) {
	c := OpenCluster(t)
	c.Clear()
	c.MustExec("login", "alice", "rm", "-rf", profiles)
	t.Cleanup(func() {
		if left := c.MustExec("login", "root", "squeue", "--noheader"); left != "" {
			t.Errorf("jobs are left: %s", left)
		}
		c.Clear()
	})
	t.Run("gives back the curves of the ten models", givesBackTheCurves)
	t.Run("says what became of its job", saysWhatBecameOfItsJob)
}

// Each of the ten models goes through a job of its own, on four nodes that hold eight of these.
func givesBackTheCurves(t *testing.T) {
	t.Parallel()
	c := OpenCluster(t)
	files, err := filepath.Glob("../../etc/profiles/*.json")
	if err != nil || len(files) != 10 {
		t.Fatalf("%d profiles of models, %v", len(files), err)
	}
	var guard sync.Mutex
	var misses []float64
	tests := map[string]func() error{}
	for _, file := range files {
		model := strings.TrimSuffix(filepath.Base(file), ".json")
		tests[model] = func() error {
			off, err := c.missesOf(model, file)
			guard.Lock()
			defer guard.Unlock()
			misses = append(misses, off...)
			t.Logf("%s: %.1f %% off in the mean, %.1f %% at most", model, mean(off), slices.Max(append(off, 0)))
			return err
		}
	}
	together(t, tests)
	slices.Sort(misses)
	if len(misses) < 10 {
		t.Fatalf("%d points", len(misses))
	}
	p90 := misses[len(misses)*9/10]
	t.Logf("over %d points: mean %.1f %%, p90 %.1f %%, worst %.1f %%", len(misses), mean(misses), p90,
		misses[len(misses)-1])
	if mean(misses) > 3 || p90 > 10 {
		t.Errorf("mean %.1f %%, p90 %.1f %%: want 3 and 10", mean(misses), p90)
	}
}

func mean(all []float64) (sum float64) {
	for _, x := range all {
		sum += x / float64(len(all))
	}
	return sum
}

// missesOf measures a model, and says in % how far off it is at each number of cores.
func (c *Cluster) missesOf(model, file string) (off []float64, err error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var truth measured
	if err := json.Unmarshal(text, &truth); err != nil {
		return nil, err
	}
	folder := profiles + "/" + model
	said, err := c.profiled(folder, model, emulated,
		"--virtual-cpus 12 --budget 40s --pattern json --batch "+fmt.Sprint(batch(text)))
	if err != nil {
		return nil, fmt.Errorf("%w\n%s", err, said)
	}
	got, err := c.profile(folder, model)
	if err != nil {
		return nil, err
	}
	column := slices.Index(truth.Memory, 62500)
	if column < 0 || len(got.Memory) != 1 || got.Memory[0] != 62500 {
		return nil, fmt.Errorf("measured with %v MiB a GPU, and the model is known with %v", got.Memory, truth.Memory)
	}
	if !regexp.MustCompile(`^measured on n[1-4] \(job \d+ of synergy\), .* by synergy profile: `).MatchString(
		got.Source) ||
		!strings.Contains(said, "on a node of 8 GPUs, 24 cores and 500 GB (4 such nodes here) a job of 1 GPU:") ||
		!regexp.MustCompile(
			`(?m)^job \d+: 1 GPU, 12 cores and 62.5 GB in partition synergy, \d minutes at most$`).MatchString(said) {
		return nil, fmt.Errorf("source %q, and it said:\n%s", got.Source, said)
	}
	const speedup = 100
	for i, cores := range truth.Cores {
		want := truth.Rates[i][column] * speedup
		off = append(off, 100*math.Abs(got.rate(cores, 0)/want-1))
	}
	return off, nil
}

func batch(profile []byte) int {
	var of struct{ Batch int }
	_ = json.Unmarshal(profile, &of)
	return of.Batch
}

// What happens to people, each in a job of two cores, which every machine has that has these nodes.
func saysWhatBecameOfItsJob(t *testing.T) {
	t.Parallel()
	c := OpenCluster(t)
	const two = "--cores 1-2 --memory 4 --budget 40s --pattern json "
	// ends runs a command, in which $1 is the call, and compares what it says with what is expected, in that order.
	ends := func(name, options, command string, want ...string) func() error {
		return func() error {
			call := `/opt/synergy/bin/synergy profile ` + options + ` -o ` + name + `.json -- ./train.sh`
			script := `mkdir -p "$2" && cd "$2" && cat > train.sh && chmod 755 train.sh && ` + command
			said, err := c.ExecInput("login", "alice", bound, "bash", "-c", script+" 2>&1", "bash", call,
				profiles+"/"+name)
			rest := said
			for _, w := range want {
				at := regexp.MustCompile(`(?m)` + w).FindStringIndex(rest)
				if at == nil {
					return errors.Join(err, fmt.Errorf("want %q in this order, and it said:\n%s", want, said))
				}
				rest = rest[at[1]:]
			}
			return nil
		}
	}
	const trained = `until grep -q '"cores"' *.runs.json 2>/dev/null; do sleep 0.2; done; `
	together(t, map[string]func() error{
		"affinity": func() error {
			if err := ends("bound", two+"--checkpoint USR1@20", "$1", `^job \d+ runs on n[1-4]$`,
				`^1 core: [\d.]+ samples`, `^2 cores: [\d.]+ samples`)(); err != nil {
				return err
			}
			m, err := c.profile(profiles+"/bound", "bound")
			if err != nil {
				return err
			}
			if gain := m.rate(2, 0) / m.rate(1, 0); gain < 1.8 || gain > 2.6 || m.Checkpoint < .5 ||
				m.Checkpoint == 10 || m.Start <= 0 {
				return fmt.Errorf(
					"%+v: want twice the rate with two CPUs, half a second to save, and some time to start", m)
			}
			return nil
		},
		"interrupted": ends("stopped", two,
			`{ $1 & p=$!; `+trained+`kill -INT $p; wait $p; squeue -h -n synergy-profile-stopped; $1; }`,
			`^synergy: interrupted: job \d+ was cancelled; what [12] trials? gave is in stopped.runs.json; the same command goes on there$`,
			`^going on with [12] trials? of an earlier run$`, `^stopped.json: stopped on unknown, from \d trials`),
		"terminal lost": ends("lost", two, `{ $1 & p=$!; `+trained+`kill -KILL $p; wait $p; $1; }`,
			`^going on with [12] trials? of an earlier run$`,
			`^job \d+ of an earlier call measures this, and is followed$`,
			`^lost.json: lost on unknown, from \d trials`),
		"cancelled": ends("cancelled", two, `{ $1 & p=$!; `+trained+`scancel -n synergy-profile-cancelled; wait $p; }`,
			`^synergy: job \d+ was cancelled on n[1-4]; what [12] trials? gave is in cancelled.runs.json; the same command goes on there$`),
		"refused": ends("refused", two+"--sbatch --qos=none", "$1",
			`^synergy: sbatch refuses the job: .*Invalid qos specification$`),
		"not shared": ends("apart", two, `{ mkdir -p /tmp/apart; cp train.sh /tmp/apart; cd /tmp/apart; $1; }`,
			`^synergy: job \d+ ended on n[1-4] as FAILED \(.*\) before it said anything: do the nodes see /tmp/apart/apart.slurm\? It has to be in a folder that is shared`),
	})
}
