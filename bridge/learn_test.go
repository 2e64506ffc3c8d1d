package bridge_test

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurmtest"
	"github.com/synergy-slurmd/synergy-slurmd/sensitivity"
	"github.com/synergy-slurmd/synergy-slurmd/sensitivity/learned"
	"github.com/synergy-slurmd/synergy-slurmd/sensitivity/learned/shelf"
)

const auto = "synergy-profile=auto synergy-checkpoint=USR1@30"

// learning has the world's daemon learn into a folder.
func (w *world) learning(dir string) *shelf.Shelf {
	w.t.Helper()
	s, wrong, err := shelf.Open(dir)
	if err != nil || len(wrong) > 0 {
		w.t.Fatal(err, wrong)
	}
	w.runner.Learned = s
	return s
}

func named(name string) func(*slurmtest.Spec) {
	return func(s *slurmtest.Spec) { s.Name, s.User, s.Work.Length = name, "alice", 1000*time.Hour }
}

// measure lets a running job that was asked to measure itself report the curve of a model, up to the cores that it has.
func (w *world) measure(id int, truth string) {
	w.t.Helper()
	j := w.job(id)
	if j.State != slurm.Running || !strings.Contains(j.Extra, `"measure":1`) {
		return
	}
	p, err := w.profile(truth + ".json")
	if err != nil {
		w.t.Fatal(err)
	}
	var points []string
	for cores := 1; cores <= j.Runs.PerNode.CPUs; cores += max(1, j.Runs.PerNode.CPUs/6) {
		rate := p.Rate(sensitivity.Share{Cores: float64(cores), Memory: 62500}) / float64(p.Batch)
		points = append(points, fmt.Sprintf("%d:%.3f", cores, rate))
	}
	w.say(id, fmt.Sprintf("synergy-curve=%s@%d", strings.Join(points, "/"), w.clock.Now().Unix()))
}

// say puts a word in the place of the one of that name in a job's comment.
func (w *world) say(id int, word string) {
	name, _, _ := strings.Cut(word, "=")
	var kept []string
	for _, other := range strings.Fields(w.job(id).Comment) {
		if !strings.HasPrefix(other, name+"=") && other != name {
			kept = append(kept, other)
		}
	}
	w.slurm.SetComment(id, strings.Join(append(kept, word), " "))
}

func (w *world) cores(id int) int { return w.job(id).Runs.PerNode.CPUs }

// TestAJobThatNobodyKnowsStartsAtItsShareIsMeasuredAndGrows, one step at a time until its knee is seen; and the next
// one of its name starts with that.
func TestAJobThatNobodyKnowsStartsAtItsShareIsMeasuredAndGrows(t *testing.T) {
	w := newWorld(t, 1, server)
	w.learning(t.TempDir())
	first := w.submit(1, auto, named("mine"))
	w.rounds(1)
	if cores := w.cores(first); cores != 3 {
		t.Fatalf("starts with %d cores, want its share of 3", cores)
	}
	sizes := []int{3}
	for range 12 {
		w.measure(first, "res18")
		w.rounds(1)
		if cores := w.cores(first); cores > 0 && cores != sizes[len(sizes)-1] {
			sizes = append(sizes, cores)
		}
	}
	for k := 1; k < len(sizes); k++ {
		if sizes[k] > 2*sizes[k-1] {
			t.Errorf("it grew %v: more than a step beyond what was measured", sizes)
		}
	}
	if last := sizes[len(sizes)-1]; last < 9 || last > 12 {
		t.Errorf("it grew %v, want the 9 cores of its knee, or little more", sizes)
	}
	if strings.Contains(w.job(first).Extra, `"measure":1`) && w.cores(first) > 12 {
		t.Errorf("it is measured on: %s", w.job(first).Extra)
	}
	second := w.submit(1, auto, named("mine"))
	w.rounds(1)
	if cores := w.cores(second); cores < 9 {
		t.Errorf("the second of its name starts with %d cores, want the 9 that the first has found", cores)
	}
	if extra := w.job(second).Extra; strings.Contains(extra, `"measure":1`) {
		t.Errorf("the second is measured again: %s", extra)
	}
	if report := w.round(); len(report.Notes) != 0 {
		t.Errorf("notes %+v on jobs that are known", report.Notes)
	}
}

// TestALanguageModelGivesBackWhatItDoesNotNeed: the second one of its name starts with a core, and so does one after a
// restart of the daemon.
func TestALanguageModelGivesBackWhatItDoesNotNeed(t *testing.T) {
	w := newWorld(t, 1, server)
	dir := t.TempDir()
	w.learning(dir)
	first := w.submit(1, auto, named("language"))
	w.rounds(1)
	w.measure(first, "gnmt")
	w.rounds(1)
	w.start(nil)
	w.learning(dir)
	second := w.submit(1, auto, named("language"))
	w.rounds(1)
	if cores := w.cores(second); cores != 1 {
		t.Errorf("the second of its name has %d cores, want 1", cores)
	}
	if memory := w.job(second).Runs.PerNode.Memory; memory != 62500 {
		t.Errorf("it has %d MiB, want the share: with less nothing was measured", memory)
	}
}

// TestWhatIsLearnedIsOfOneOwnerAndOneName: neither another's job of that name nor another job of his has it.
func TestWhatIsLearnedIsOfOneOwnerAndOneName(t *testing.T) {
	w := newWorld(t, 2, server)
	w.learning(t.TempDir())
	first := w.submit(1, auto, named("language"))
	w.rounds(1)
	w.measure(first, "gnmt")
	w.rounds(1)
	bobs := w.submit(1, auto, named("language"), func(s *slurmtest.Spec) { s.User = "bob" })
	other := w.submit(1, auto, named("language2"))
	w.rounds(1)
	for _, id := range []int{bobs, other} {
		if cores := w.cores(id); cores != 3 || !strings.Contains(w.job(id).Extra, `"measure":1`) {
			t.Errorf("job %d has %d cores and says %s; want the share, and to be measured", id, cores, w.job(id).Extra)
		}
	}
}

// TestWithoutTheKeyAutoIsTheShareAndASentence.
func TestWithoutTheKeyAutoIsTheShareAndASentence(t *testing.T) {
	w := newWorld(t, 1, server)
	id := w.submit(1, auto, named("mine"))
	report := w.rounds(1)
	if cores := w.cores(id); cores != 3 {
		t.Errorf("%d cores, want the share", cores)
	}
	if len(report.Notes) != 1 || !strings.Contains(report.Notes[0].Text, "this site does not learn profiles") {
		t.Errorf("notes %+v", report.Notes)
	}
	if extra := w.job(id).Extra; strings.Contains(extra, "measure") {
		t.Errorf("it is asked to measure itself for nothing: %s", extra)
	}
}

// TestACurveThatCannotBeTeachesNothingAndIsSaid: it is of more cores than the job has, of an earlier run, of the
// future, of a gang, or not one.
func TestACurveThatCannotBeTeachesNothingAndIsSaid(t *testing.T) {
	for word, want := range map[string]string{
		"1:1/4:4@%d":                         "a curve up to 4 cores of a job that holds 3 is ignored",
		"1:1/3:4@99999999999":                "ignored: want",
		"1:1/3:4@4102444800":                 "comes from the future",
		"1:1/3:4@1":                          "",
		"3:4/1:1@%d":                         "ignored: want",
		"1:NaN@%d":                           "ignored: want",
		"1:0@%d":                             "ignored: want",
		"1:1e3@%d":                           "ignored: want",
		strings.Repeat("1:1/", 60) + "1:1@1": "ignored: want",
	} {
		w := newWorld(t, 1, server)
		s := w.learning(t.TempDir())
		id := w.submit(1, auto, named("mine"))
		w.rounds(1)
		if strings.Contains(word, "%d") {
			word = fmt.Sprintf(word, w.clock.Now().Unix())
		}
		w.say(id, "synergy-curve="+word)
		report := w.rounds(1)
		if all := s.All(); len(all) != 0 {
			t.Errorf("%s: teaches %+v", word, all)
		}
		text := fmt.Sprint(report.Notes)
		if n := report.Ignored[bridge.IgnoredCurve]; (want != "") != (n == 1) || len(report.Ignored) != n {
			t.Errorf("%s: ignored %v", word, report.Ignored)
		}
		if !strings.Contains(text, want) {
			t.Errorf("%s: notes %s, want %q", word, text, want)
		}
		if cores := w.cores(id); cores != 3 {
			t.Errorf("%s: %d cores", word, cores)
		}
	}
}

// TestProgressAloneTeachesAPointForEachSize: a job that reports no curve grows by a step, and stops where that brings
// nothing.
func TestProgressAloneTeachesAPointForEachSize(t *testing.T) {
	w := newWorld(t, 1, server)
	w.runner.Settings.Audit = 2 * time.Minute
	s := w.learning(t.TempDir())
	id := w.submit(1, auto+" synergy-progress", named("quiet"))
	done := 0.0
	for range 14 {
		w.rounds(1)
		done += 300 * 5 // five iterations a second, whatever it has
		if w.job(id).State == slurm.Running {
			w.say(id, fmt.Sprintf("synergy-progress=%.0f@%d", done, w.clock.Now().Unix()))
		}
	}
	e := s.Of(learned.Key{User: "alice", Job: "quiet"})
	if e == nil || len(e.Points) < 2 || e.Points[0].Cores != 3 || e.Points[0].Way != learned.Progress {
		t.Fatalf("learned %+v, want a point for 3 cores and one for those that it grew to", e)
	}
	if e.Climbs() {
		t.Errorf("it would grow on, though it was as fast with 3 as with %v cores", e.Measured())
	}
	next := w.submit(1, auto, named("quiet"))
	w.rounds(1)
	if cores := w.cores(next); cores != 3 {
		t.Errorf("the next has %d cores, want 3: with fewer nobody ever saw it", cores)
	}
}

// TestADriftForgetsWhatWasLearned: the job of other data runs at a quarter of what was learned, or at four times that;
// then nothing is known, and what was measured before does not count again, though it stands in a comment.
func TestADriftForgetsWhatWasLearned(t *testing.T) {
	for name, factor := range map[string]float64{"slower": 0.25, "faster": 4} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 1, server)
			w.runner.Settings.Audit = 2 * time.Minute
			s := w.learning(t.TempDir())
			key := learned.Key{User: "alice", Job: "mine"}
			first := w.submit(1, auto, named("mine"))
			w.rounds(1)
			w.measure(first, "gnmt")
			w.rounds(1)
			rate := s.Of(key).Points[0].Rate
			second := w.submit(1, auto+" synergy-progress", named("mine"))
			done, forgot := 0.0, false
			for range 6 {
				report := w.rounds(1)
				done += rate * factor * 300
				if w.job(second).State == slurm.Running {
					w.say(second, fmt.Sprintf("synergy-progress=%.0f@%d", done, w.clock.Now().Unix()))
				}
				for _, l := range report.Lessons {
					forgot = forgot || l.Forgot
				}
			}
			if !forgot {
				t.Fatalf("nothing was forgotten: %+v", s.Of(key))
			}
			if name == "slower" {
				if e := s.Of(key); len(e.Points) != 0 {
					t.Errorf("after the drift it knows %+v", e.Points)
				}
				if cores := w.cores(second); cores != 3 {
					t.Errorf("the job that drifted has %d cores, want its share", cores)
				}
			}
			third := w.submit(1, auto, named("mine"))
			w.rounds(1)
			if name == "slower" && !strings.Contains(w.job(third).Extra, `"measure":1`) {
				t.Errorf("the next is not measured: %s", w.job(third).Extra)
			}
		})
	}
}

// TestALiarsCurveHurtsNobodyElse: whatever curve or progress jobs of one user claim, the jobs of others on the server
// have their share or what their profile says is as fast, and the promises of slurmtest and Check hold in every round.
func TestALiarsCurveHurtsNobodyElse(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(t, 1, server)
		w.runner.Settings.Audit = 2 * time.Minute
		w.learning(t.TempDir())
		honest := []int{w.submit(1, model("res18"), named("honest")), w.submit(2, model("res18"), named("honest"))}
		var liars []int
		for range rapid.IntRange(1, 4).Draw(rt, "liars") {
			liars = append(liars, w.submit(1, auto+" synergy-progress", named("liar"),
				func(s *slurmtest.Spec) { s.User = "mallory" }))
		}
		for range 5 {
			w.rounds(1)
			for _, id := range liars {
				points := rapid.SliceOfN(rapid.IntRange(1, 999999), 1, 6).Draw(rt, "rates")
				var said []string
				for k, rate := range points {
					said = append(said, fmt.Sprintf("%d:%d", k+1, rate))
				}
				w.say(id, fmt.Sprintf("synergy-curve=%s@%d", strings.Join(said, "/"), w.clock.Now().Unix()))
				w.say(id, fmt.Sprintf("synergy-progress=%d@%d", rapid.Int64Range(0, 1e12).Draw(rt, "iterations"),
					w.clock.Now().Unix()))
			}
			for _, id := range honest {
				if j := w.job(id); j.State == slurm.Running && j.Runs.PerNode.CPUs < 3*j.Runs.PerNode.GPUs {
					rt.Fatalf("job %d has %s beside liars", id, j.Runs.PerNode)
				}
			}
		}
	})
}

// brittle is a shelf of which some writes end otherwise.
type brittle struct {
	*shelf.Shelf
	keep func(e *learned.Entry) error
}

func (b *brittle) Keep(e *learned.Entry) error { return b.keep(e) }

// breaking has the world learn into a shelf whose writes go through keep.
func (w *world) breaking(keep func(s *shelf.Shelf, e *learned.Entry) error) *shelf.Shelf {
	w.t.Helper()
	s := w.learning(w.t.TempDir())
	w.runner.Learned = &brittle{s, func(e *learned.Entry) error { return keep(s, e) }}
	return s
}

// TestAWriteThatFailsOrIsCutOffIsMadeGoodByTheNextRound: no round fails for it, a curve that was not kept is learned
// from the comment, and one that was kept counts once.
func TestAWriteThatFailsOrIsCutOffIsMadeGoodByTheNextRound(t *testing.T) {
	for _, after := range []bool{false, true} {
		w := newWorld(t, 1, server)
		failed := false
		s := w.breaking(func(s *shelf.Shelf, e *learned.Entry) error {
			if failed {
				return s.Keep(e)
			}
			if failed = true; after {
				_ = s.Keep(e)
			}
			return errors.New("disk full")
		})
		id := w.submit(1, auto, named("mine"))
		w.rounds(1)
		w.measure(id, "gnmt")
		if report := w.rounds(1); report.LearnFault != "disk full" || len(report.Lessons) != 0 {
			t.Errorf("after %v: %q, lessons %+v", after, report.LearnFault, report.Lessons)
		}
		w.rounds(2)
		e := s.Of(learned.Key{User: "alice", Job: "mine"})
		if e == nil || len(e.Points) != 3 || e.Points[2].Count != 1 {
			t.Errorf("after %v: learned %+v, want three points, each counted once", after, e)
		}
	}
}

// curves lets jobs say a curve of their own share.
func (w *world) curves(ids ...int) {
	for _, id := range ids {
		w.say(id, fmt.Sprintf("synergy-curve=1:1/3:3@%d", w.clock.Now().Unix()))
	}
}

func owner(user, name string) func(*slurmtest.Spec) {
	return func(s *slurmtest.Spec) { named(name)(s); s.User = user }
}

// errDied is the end of a daemon in the middle of a round.
var errDied = errors.New("the daemon dies")

// dying is the round of a daemon that ends by that.
func (w *world) dying() (died bool) {
	defer func() {
		if ended := recover(); ended != nil {
			if died = ended == errDied; !died {
				panic(ended)
			}
		}
	}()
	w.round()
	return false
}

// TestADaemonThatDiesAtAnyWriteOfALessonLosesNoneAndCountsNoneTwice: three owners say a curve, and the daemon dies
// before or after each of the writes in turn. The next one reads the shelf whole and learns what is missing.
func TestADaemonThatDiesAtAnyWriteOfALessonLosesNoneAndCountsNoneTwice(t *testing.T) {
	users := []string{"alice", "bob", "carol"}
	for n := range users {
		for _, after := range []bool{false, true} {
			w := newWorld(t, 1, server)
			dir := t.TempDir()
			s, writes := w.learning(dir), 0
			w.runner.Learned = &brittle{s, func(e *learned.Entry) error {
				if writes++; writes != n+1 {
					return s.Keep(e)
				}
				if after {
					_ = s.Keep(e)
				}
				panic(errDied)
			}}
			for _, user := range users {
				w.submit(1, auto, owner(user, "mine"))
			}
			w.rounds(1)
			w.curves(1, 2, 3)
			if !w.dying() {
				t.Fatalf("there is no write %d", n+1)
			}
			w.start(nil)
			s = w.learning(dir)
			if known := len(s.All()); known > n+1 || known < n {
				t.Errorf("write %d, after %v: %d lessons are there", n+1, after, known)
			}
			w.rounds(2)
			for _, user := range users {
				e := s.Of(learned.Key{User: user, Job: "mine"})
				if e == nil || len(e.Points) != 2 || e.Points[0].Count != 1 || e.Points[1].Count != 1 {
					t.Errorf("write %d, after %v: of %s is known %+v, want two points that count once", n+1, after,
						user, e)
				}
			}
		}
	}
}

// TestOneLessonThatCannotBeKeptKeepsNobodyFromLearning: whoever comes first in the alphabet.
func TestOneLessonThatCannotBeKeptKeepsNobodyFromLearning(t *testing.T) {
	w := newWorld(t, 1, server)
	s := w.breaking(func(s *shelf.Shelf, e *learned.Entry) error {
		if e.User == "aaron" {
			return errors.New("is a directory")
		}
		return s.Keep(e)
	})
	w.submit(1, auto, owner("aaron", "mine"))
	w.submit(1, auto, owner("zoe", "mine"))
	w.rounds(1)
	w.curves(1, 2)
	report := w.rounds(1)
	if report.LearnFault != "is a directory" || len(report.Lessons) != 1 || len(s.All()) != 1 {
		t.Errorf("%q, learned %+v, want what zoe's job has taught", report.LearnFault, report.Lessons)
	}
}

// TestAJobWhoseUserNobodyCanNameTeachesNothingAndIsTold, as one of a user who has been deleted.
func TestAJobWhoseUserNobodyCanNameTeachesNothingAndIsTold(t *testing.T) {
	for name, change := range map[string]func(*slurmtest.Spec){
		"no user": owner("", "mine"), "a name that is not UTF-8": owner("alice", "bad\xffname"),
		"a name of 2,000 bytes": owner("alice", strings.Repeat("x", 2000)),
	} {
		w := newWorld(t, 1, server)
		s := w.learning(t.TempDir())
		w.submit(1, auto, change)
		other := w.submit(1, auto, owner("zoe", "mine"))
		w.rounds(1)
		w.curves(1, other)
		report := w.rounds(1)
		if report.LearnFault != "" || len(s.All()) != 1 {
			t.Errorf("%s: %q, %d lessons, want zoe's", name, report.LearnFault, len(s.All()))
		}
		if n := report.Ignored[bridge.IgnoredName]; n != 1 {
			t.Errorf("%s: ignored %v", name, report.Ignored)
		}
		if text := fmt.Sprint(report.Notes); !strings.Contains(text, "what it could teach is not kept: want a user") {
			t.Errorf("%s: notes %s", name, text)
		}
	}
}

// TestNamesThatNobodyExpectsAreLearnedOfAsAnyOther: what would be a path, a line or a command elsewhere.
func TestNamesThatNobodyExpectsAreLearnedOfAsAnyOther(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"../../x", "a\nb", "\x1b[2J", "", "\u2028\u202e", strings.Repeat("<", 1024)} {
		w := newWorld(t, 1, server)
		s := w.learning(dir)
		id := w.submit(1, auto, named(name))
		w.rounds(1)
		w.curves(id)
		if report := w.rounds(1); s.Of(learned.Key{User: "alice", Job: name}) == nil || report.LearnFault != "" {
			t.Errorf("%q: nothing is learned: %q %v", name, report.LearnFault, report.Notes)
		}
	}
}

// TestASlowDiskKeepsNoRoundAndEachOwnerLearnsInTurn: each write takes a second, and one owner has seven new names. What
// is not written down in one round is learned in those that follow.
func TestASlowDiskKeepsNoRoundAndEachOwnerLearnsInTurn(t *testing.T) {
	w := newWorld(t, 1, server)
	s := w.breaking(func(s *shelf.Shelf, e *learned.Entry) error {
		w.sleep(time.Second)
		return s.Keep(e)
	})
	for k := range 7 {
		w.submit(1, auto, owner("mallory", fmt.Sprint("job", k)))
	}
	zoes := w.submit(1, auto, owner("zoe", "mine"))
	w.rounds(1)
	w.curves(1, 2, 3, 4, 5, 6, 7, zoes)
	began := w.clock.Now()
	report := w.round()
	if took := w.clock.Now().Sub(began); took > 5*time.Second {
		t.Errorf("the round takes %s", took)
	}
	if s.Of(learned.Key{User: "zoe", Job: "mine"}) == nil || len(report.Lessons) != 2 {
		t.Errorf("learned %+v, want something of each owner", report.Lessons)
	}
	w.rounds(3)
	if n := len(s.All()); n != 8 {
		t.Errorf("after three more rounds %d names are known, want 8", n)
	}
}

// TestACurveAtEachSecondIsOneWriteARound: whoever talks more is not heard more often.
func TestACurveAtEachSecondIsOneWriteARound(t *testing.T) {
	w := newWorld(t, 1, server)
	writes := 0
	w.breaking(func(s *shelf.Shelf, e *learned.Entry) error { writes++; return s.Keep(e) })
	w.submit(1, auto, named("mine"))
	w.submit(1, auto, named("mine"))
	w.rounds(1)
	const rounds = 5
	for range rounds {
		for range 10 {
			w.curves(1, 2)
			w.sleep(time.Second)
		}
		w.rounds(1)
	}
	if writes != rounds {
		t.Errorf("%d writes in %d rounds", writes, rounds)
	}
}

// TestAShadowRoundLearnsNothing: it writes nowhere.
func TestAShadowRoundLearnsNothing(t *testing.T) {
	w := newWorld(t, 1, server)
	s := w.learning(t.TempDir())
	id := w.submit(1, auto, named("mine"))
	w.rounds(1)
	w.measure(id, "gnmt")
	w.runner.Settings.Shadow = true
	w.rounds(2)
	if all := s.All(); len(all) != 0 {
		t.Errorf("learned %+v", all)
	}
}

// costly is a shelf each write of which takes a while, and on which nothing of one owner can be kept.
type costly struct {
	*shelf.Shelf
	w       *world
	takes   time.Duration
	refuses string
}

func (c *costly) Keep(e *learned.Entry) error {
	c.w.sleep(c.takes)
	if e.User == c.refuses {
		return errors.New("not a word of " + e.User)
	}
	return c.Shelf.Keep(e)
}

// TestADiskThatIsSlowIsSharedByTheOwners: a round waits two seconds for it and no more, and who has new things to say
// in every round, under many names, keeps nobody from being heard.
func TestADiskThatIsSlowIsSharedByTheOwners(t *testing.T) {
	w := newWorld(t, 2, server)
	s := w.learning(t.TempDir())
	w.runner.Learned = &costly{s, w, time.Second, ""}
	var all []int
	for k := range 7 {
		all = append(all, w.submit(1, auto, named(fmt.Sprint("name", k)),
			func(s *slurmtest.Spec) { s.User = "mallory" }))
	}
	victim := w.submit(1, auto, named("zzz"), func(s *slurmtest.Spec) { s.User = "victor" })
	w.rounds(1)
	for range 2 {
		for _, id := range append(all, victim) {
			w.say(id, fmt.Sprintf("synergy-curve=1:%d/2:20/3:30@%d", id, w.clock.Now().Unix()))
		}
		if report := w.rounds(1); len(report.Lessons) != 2 || report.LearnFault != "" {
			t.Fatalf("a round waits for %d writes of a second each: %q", len(report.Lessons), report.LearnFault)
		}
		if s.Of(learned.Key{User: "victor", Job: "zzz"}) == nil {
			t.Errorf("mallory's %d names are heard first", len(all))
		}
	}
	w.rounds(3)
	if n := len(s.All()); n != 8 {
		t.Errorf("some rounds later %d names are known, want all 8", n)
	}
}

// TestADriftThatCouldNotBeWrittenDownIsForgottenByTheNextRound: the audit finds it once.
func TestADriftThatCouldNotBeWrittenDownIsForgottenByTheNextRound(t *testing.T) {
	w := newWorld(t, 1, server)
	w.runner.Settings.Audit = 2 * time.Minute
	s := w.learning(t.TempDir())
	key := learned.Key{User: "alice", Job: "mine"}
	first := w.submit(1, auto, named("mine"))
	w.rounds(1)
	w.measure(first, "gnmt")
	w.rounds(1)
	rate := s.Of(key).Points[0].Rate
	second := w.submit(1, auto+" synergy-progress", named("mine"))
	w.runner.Learned = &costly{s, w, 0, "alice"}
	done, faults := 0.0, 0
	for range 6 {
		if w.rounds(1).LearnFault != "" {
			faults++
		}
		done += rate / 4 * 300
		w.say(second, fmt.Sprintf("synergy-progress=%.0f@%d", done, w.clock.Now().Unix()))
	}
	if faults < 2 || len(s.Of(key).Points) == 0 {
		t.Fatalf("%d rounds tried to forget: %+v", faults, s.Of(key))
	}
	w.runner.Learned = s
	if report := w.rounds(1); len(report.Lessons) != 1 || !report.Lessons[0].Forgot || len(s.Of(key).Points) != 0 {
		t.Errorf("lessons %+v; it still knows %+v", report.Lessons, s.Of(key))
	}
	if report := w.rounds(1); len(report.Lessons) != 0 {
		t.Errorf("it is forgotten twice: %+v", report.Lessons)
	}
}

// TestWhatIsIgnoredOfJobsIsCountedByKind: a directive that contradicts itself, and progress that goes back.
func TestWhatIsIgnoredOfJobsIsCountedByKind(t *testing.T) {
	w := newWorld(t, 1, server)
	w.runner.Settings.Audit = 2 * time.Minute
	w.learning(t.TempDir())
	w.submit(1, "synergy-profile=a synergy-profile=b")
	id := w.submit(1, auto+" synergy-progress", named("mine"))
	w.rounds(1)
	w.say(id, fmt.Sprintf("synergy-progress=500@%d", w.clock.Now().Unix()))
	w.rounds(1)
	w.say(id, fmt.Sprintf("synergy-progress=400@%d", w.clock.Now().Unix()))
	want := map[bridge.Ignored]int{bridge.IgnoredDirective: 1, bridge.IgnoredProgress: 1}
	if report := w.rounds(1); !maps.Equal(report.Ignored, want) {
		t.Errorf("ignored %v, want %v; notes %+v", report.Ignored, want, report.Notes)
	}
}
