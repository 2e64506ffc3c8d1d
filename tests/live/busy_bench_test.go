//go:build live && bench

package live

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// What a busy site is: jobs of these GPUs and lengths, of which half save, more of them than fit.
var (
	busyGPUs   = []int{1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 4, 4, 4, 4, 8, 8, 8, 8}
	busyModels = []string{"res18", "gnmt", "transformer", "lstm", "m5", "alexnet"}
)

const (
	busyRound  = time.Minute
	busySettle = 40 * time.Second // from the last submission to the window
	busyWindow = 2 * time.Minute
)

// TestABusySite lays the daemon next to Slurm alone on a cluster with more jobs than it can run: how many GPUs are in
// use, what users and slurmctld notice, what rounds take. BUSY_WAITING names how many jobs wait, in ascending order:
// 1000 10000. With the most of them the daemon is started again, and has bursts.
func TestABusySite(t *testing.T) {
	var sizes []int
	for _, size := range strings.Fields(cmp.Or(os.Getenv("BUSY_WAITING"), "1000 5000 10000 20000")) {
		n, err := strconv.Atoi(size)
		if err != nil || len(sizes) > 0 && n <= sizes[len(sizes)-1] {
			t.Fatalf("BUSY_WAITING: %q: want ascending numbers", size)
		}
		sizes = append(sizes, n)
	}
	var rows []string
	for _, managed := range []bool{false, true} {
		t.Run(fmt.Sprintf("daemon %t", managed), func(t *testing.T) {
			site := newBusySite(t, managed)
			idle := site.startsOnIdle(12)
			t.Logf("daemon %t: from submission to start on an idle cluster %.1f s, at most %.1f s", managed,
				middle(idle)/1000, slices.Max(idle)/1000)
			for _, waiting := range sizes {
				site.fill(waiting)
				rows = append(rows, site.row())
				t.Log(rows[len(rows)-1])
			}
			if managed {
				site.startAgain()
				site.bursts()
			}
			site.cancelAll()
		})
	}
	t.Logf("%7s %6s | %6s | %13s %13s | %9s %9s %6s | %5s %5s %5s | %s | %s", "waiting", "daemon", "GPUs",
		"squeue 50/99", "sbatch 50/99", "main", "backfill", "depth", "ctld", "restd", "ours",
		"full rounds, observe at most, small rounds 50/99", "requests in the window")
	for _, row := range rows {
		t.Log(row)
	}
}

// cancelAll ends all jobs. Slurm needs minutes for ten thousand, longer than Clear waits for what a test leaves.
func (s *busySite) cancelAll() {
	_, _ = s.Exec("login", "root", "timeout", "300", "scancel", "--user=alice")
	s.WaitLong("no job of alice's is left", 10*time.Minute, func() bool {
		return s.MustExec("login", "root", "squeue", "--noheader", "--user=alice") == ""
	})
}

// busySite is a cluster with more jobs than it can run, with the daemon or without.
type busySite struct {
	*Cluster
	d       *Daemon
	managed bool
	gpus    int
	jobs    int // submitted so far
}

func newBusySite(t *testing.T, managed bool) *busySite {
	c, d := SetUp(t, "las", "tune")
	shipped := strings.NewReplacer("ahead: 0", "ahead: 32", "  min_run: 0s\n", "")
	d.Put("config.yaml", shipped.Replace(d.Read("config.yaml")))
	d.Round = busyRound
	d.Set("lease", 15*time.Minute)
	d.Set("start_timeout", time.Minute)
	if managed {
		d.Launch()
		d.waitForRounds(1)
	}
	return &busySite{Cluster: c, d: d, managed: managed, gpus: c.Setting("NODES") * c.Setting("NODE_GPUS")}
}

// word is the comment of the k-th job.
func (s *busySite) word(k int) string {
	switch word := "synergy-profile=" + busyModels[k%len(busyModels)] + ".json"; {
	case !s.managed:
		return ""
	case k%2 == 0:
		return word + " synergy-checkpoint=USR1@30"
	default:
		return word
	}
}

// startsOnIdle are the times from sbatch to the start of single jobs, in milliseconds.
func (s *busySite) startsOnIdle(n int) (times []float64) {
	s.t.Helper()
	const loop = `ms() { echo $(( $(date +%s%N) / 1000000 )); }
		for k in $(seq $1); do
			sleep $(( k % 5 )).5; a=$(ms)
			id=$(sbatch --parsable --comment="$2" --gres=gpu:1 --cpus-per-task=3 --output=/dev/null --wrap "sleep 5")
			until [ "$(squeue --noheader --jobs=$id --format=%T)" = RUNNING ]; do sleep 0.05; done
			echo $(( $(ms) - a ))
		done`
	for line := range strings.Lines(s.MustExec("login", "alice", "sh", "-c", loop, "sh", strconv.Itoa(n), s.word(1))) {
		ms, err := strconv.ParseFloat(strings.TrimSpace(line), 64)
		if err != nil {
			s.t.Fatal(err)
		}
		times = append(times, ms)
	}
	return times
}

// fill submits jobs until so many wait. Slurm alone would try to start each as it comes, which takes it most of an hour
// for twenty thousand on two cores: it has the partition down meanwhile.
func (s *busySite) fill(waiting int) {
	s.t.Helper()
	began, before := time.Now(), s.jobs
	if !s.managed {
		s.MustExec("slurmctld", "root", "scontrol", "update", "partitionname=synergy", "state=down")
		defer s.MustExec("slurmctld", "root", "scontrol", "update", "partitionname=synergy", "state=up")
	}
	for {
		lack := waiting - s.waiting()
		if s.jobs == 0 {
			lack += s.gpus / 3
		}
		if lack <= waiting/50 {
			break
		}
		s.submit(lack)
	}
	s.t.Logf("%d jobs submitted in %.0f s", s.jobs-before, time.Since(began).Seconds())
}

// waiting is how many jobs wait. Those that a look of a user left in the other partition are held.
func (s *busySite) waiting() int { return s.queued("--states=PENDING", "--partition=synergy") }

func (s *busySite) submit(n int) {
	from := s.jobs
	s.Crowd(n, func(k int) posting {
		k += from
		job := posting{script: fmt.Sprintf("trap 'exit 98' USR1; sleep %d & wait", 60+37*(k%16)),
			gpus: busyGPUs[k%len(busyGPUs)], comment: s.word(k)}
		job.cpus = 3 * job.gpus
		return job
	})
	s.jobs += n
}

// row measures the site as it is.
func (s *busySite) row() string {
	s.t.Helper()
	time.Sleep(busySettle)
	s.MustExec("slurmctld", "root", "sdiag", "--reset")
	var before figures
	first, from := 0, 0
	if s.managed {
		before, first, from = s.d.Metrics(), s.d.Held(0).Round, len(s.d.Log())
	}
	looks := s.sampleUsers(busyWindow)
	row := fmt.Sprintf("%7d %6t | %5.1f%% | %6.0f/%6.0f %6.0f/%6.0f", s.waiting(), s.managed,
		100*average(looks["gpus"])/float64(s.gpus), middle(looks["squeue"]), most(looks["squeue"]),
		middle(looks["sbatch"]), most(looks["sbatch"]))
	main, backfill, depth := s.cycles()
	row += fmt.Sprintf(" | %6.0f ms %6.0f ms %6.0f | %5.0f %5.0f", main, backfill, depth,
		s.Memory("slurmctld", "slurmctld"), s.Memory("slurmrestd", "slurmrestd"))
	if !s.managed {
		return row
	}
	full, observe := s.rounds(first + 1)
	small := s.smallRounds(from)
	since := s.d.Metrics().minus(before)
	var requests []string
	for name, n := range since {
		if rest, found := strings.CutPrefix(name, requestSample); found && n >= 1 {
			_, request, _ := strings.Cut(rest, `request="`)
			requests = append(requests, fmt.Sprintf("%s %.0f", strings.TrimSuffix(request, `"}`), n))
		}
		if strings.HasPrefix(name, "synergy_steps_total") && n > 0 {
			s.t.Logf("%s %.0f", name, n)
		}
	}
	slices.Sort(requests)
	return row + fmt.Sprintf(" %5.0f | %s s, %.1f s, %d of %.1f/%.1f s | %s", s.peak(), strings.Join(full, " "),
		observe, len(small), middle(small), most(small), strings.Join(requests, ", "))
}

// peak is the most memory that the daemon has had, in MB.
func (s *busySite) peak() float64 {
	s.t.Helper()
	kib, err := strconv.ParseFloat(s.MustExec("login", "root", "sh", "-c",
		`awk '/^VmHWM/ {print $2}' /proc/$(pgrep -xo synergy-slurmd)/status`), 64)
	if err != nil {
		s.t.Fatal(err)
	}
	return kib * 1024 / 1e6
}

// rounds tells of the full rounds from this one on: what each took, and the longest look of them all, in seconds.
func (s *busySite) rounds(from int) (full []string, observe float64) {
	s.t.Helper()
	for n, last := from, s.d.Held(0).Round; n <= last; n++ {
		h := s.d.Held(n)
		full, observe = append(full, fmt.Sprintf("%.1f", h.total())), max(observe, h.took("observe"))
		s.t.Logf("round %d: %d run, %d wait; observe %.1f s, decide %.2f s, act %.1f s; started %d, stopped %d, "+
			"put off %d, failed %d", h.Round, h.Granted, h.Waiting, h.took("observe"), h.took(deciding...), h.acted(),
			h.Started, h.Stopped, h.Put, h.Wrong)
	}
	return full, observe
}

// smallRounds are the seconds of each that is told from this line of the log on.
func (s *busySite) smallRounds(from int) (took []float64) {
	s.t.Helper()
	started, failed := 0.0, 0.0
	for _, line := range s.d.Log()[from:] {
		if line["message"] == "small round" {
			seconds, _ := line["seconds"].(float64)
			n, _ := line["started"].(float64)
			wrong, _ := line["failed"].(float64)
			took, started, failed = append(took, seconds), started+n, failed+wrong
		}
	}
	s.t.Logf("%d small rounds started %.0f, of which %.0f failed", len(took), started, failed)
	return took
}

// startAgain ends the daemon and starts another, and tells how long that has from its start to its first decision.
func (s *busySite) startAgain() {
	s.t.Helper()
	s.d.Stop()
	last := 0
	for _, line := range s.d.Log() {
		if round, isRound := line["round"].(float64); isRound {
			last = max(last, int(round))
		}
	}
	began := time.Now()
	s.d.Launch()
	s.WaitLong("the first round is over", 3*time.Minute, func() bool {
		return s.d.answers() && s.d.Held(0).Round > last
	})
	h := s.d.Held(0)
	s.t.Logf("started again: its first round began after %.1f s, observe %.1f s, decide %.2f s, act %.1f s",
		h.Began.Sub(began).Seconds(), h.took("observe"), h.took(deciding...), h.acted())
}

// bursts are what comes at once on such a site. Each has the rounds from then on told.
func (s *busySite) bursts() {
	s.t.Helper()
	for _, burst := range []struct {
		name string
		do   func()
	}{
		{"2,000 submissions", func() { s.submit(2000) }},
		{"an array of 10,000", func() {
			s.MustExec("login", "alice", "sbatch", "-Q", "--array=1-10000", "--comment="+s.word(1), "--gres=gpu:1",
				"--cpus-per-task=3", "--output=/dev/null", "--wrap", "sleep 60")
		}},
		{"5,000 cancelled", func() {
			s.MustExec("login", "alice", "sh", "-c",
				`squeue --noheader --me --states=PENDING --format=%A | sort -un | tail -n 5000 | xargs -n 500 scancel`)
		}},
		{"slurmctld restarted", func() {
			s.docker("restart", s.container("slurmctld"))
		}},
		{"100 nodes down", func() { // they come back when their slurmds say that they are there
			down := s.nodes()[:min(100, s.Setting("NODES")/4)]
			s.MustExec("slurmctld", "root", "scontrol", "update", "nodename="+strings.Join(down, ","), "state=down",
				"reason=burst")
		}},
	} {
		last, from, began := s.d.Held(0).Round, len(s.d.Log()), time.Now()
		burst.do()
		took := time.Since(began).Seconds()
		s.WaitLong("two rounds after "+burst.name, 5*busyRound, func() bool {
			return s.d.answers() && s.d.Held(0).Round >= last+2
		})
		full, _ := s.rounds(last + 1)
		small := s.smallRounds(from)
		gpus := s.sampleUsers(3 * time.Second)["gpus"]
		s.t.Logf("%s (in %.0f s): rounds of %s s, %d small ones of %.1f/%.1f s; then %.1f%% of the GPUs in use",
			burst.name, took, strings.Join(full, " "), len(small), middle(small), most(small),
			100*average(gpus)/float64(s.gpus))
	}
}

// sampleUsers looks every two seconds how many GPUs are in use, and how long a user waits for squeue and for sbatch, in
// milliseconds.
func (c *Cluster) sampleUsers(window time.Duration) map[string][]float64 {
	c.t.Helper()
	const loop = `until=$(( $(date +%s) + $1 )); ms() { echo $(( $(date +%s%N) / 1000000 )); }
		while [ $(date +%s) -lt $until ]; do
			a=$(ms); squeue --noheader --me --states=RUNNING > /dev/null; echo squeue $(( $(ms) - a ))
			a=$(ms); sbatch -Q --partition=plain --hold --output=/dev/null --wrap true > /dev/null; echo sbatch $(( $(ms) - a ))
			scontrol --oneliner show nodes | grep -o 'AllocTRES=[^ ]*gres/gpu=[0-9]*' | sed 's/.*=//' | awk '{n += $1} END {print "gpus", n}'
			sleep 2
		done`
	looks := map[string][]float64{}
	for line := range strings.Lines(c.MustExec("login", "alice", "sh", "-c", loop, "sh",
		fmt.Sprintf("%.0f", window.Seconds()))) {
		what, number, _ := strings.Cut(strings.TrimSpace(line), " ")
		if n, err := strconv.ParseFloat(number, 64); err == nil {
			looks[what] = append(looks[what], n)
		}
	}
	return looks
}

// cycles are the mean times of Slurm's schedulers since sdiag was reset, in milliseconds, and how many jobs backfill
// went through on average.
func (c *Cluster) cycles() (main, backfill, depth float64) {
	c.t.Helper()
	for line := range strings.Lines(c.MustExec("slurmctld", "root", "sdiag")) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		n, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
		switch {
		case err != nil:
		case key == "Mean cycle" && main == 0:
			main = n / 1000
		case key == "Mean cycle":
			backfill = n / 1000
		case key == "Depth Mean":
			depth = n
		}
	}
	return main, backfill, depth
}

func average(list []float64) float64 {
	sum := 0.0
	for _, n := range list {
		sum += n
	}
	return sum / float64(max(1, len(list)))
}

func middle(list []float64) float64 { return quantile(list, 0.5) }

func most(list []float64) float64 { return quantile(list, 0.99) }

func quantile(list []float64, part float64) float64 {
	if len(list) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(list))
	return sorted[min(len(sorted)-1, int(part*float64(len(sorted))))]
}
