package turns

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/share"
)

const ms = time.Millisecond

// scene steps an arbiter with short words.
type scene struct {
	t   *testing.T
	a   *Arbiter
	now time.Duration
	seq map[Client]uint64
}

func newScene(t *testing.T, rules Rules) *scene {
	return &scene{t: t, a: New(rules), seq: map[Client]uint64{}}
}

func (s *scene) step(e Event) string {
	s.t.Helper()
	var said []string
	for _, effect := range s.a.Step(s.now, e) {
		said = append(said, fmt.Sprintf("%s %d", effect.Verb, effect.Client))
	}
	return strings.Join(said, ", ")
}

func (s *scene) join(class share.Class, clients ...Client) {
	for _, c := range clients {
		s.step(Event{Kind: Join, Client: c, Class: class, Job: int(c)})
	}
}

func (s *scene) ask(c Client, estimate time.Duration) string {
	s.seq[c]++
	return s.step(Event{Kind: Ask, Client: c, Seq: s.seq[c], Estimate: estimate})
}

func (s *scene) release(c Client) string {
	return s.step(Event{Kind: Release, Client: c, Seq: s.seq[c]})
}

func (s *scene) leave(c Client) string { return s.step(Event{Kind: Leave, Client: c}) }

// at lets time pass and says all that the arbiter wanted on the way.
func (s *scene) at(now time.Duration) string {
	s.t.Helper()
	var said []string
	for range 1000 {
		wake, ok := s.a.Wake()
		if !ok || wake > now {
			s.now = now
			return strings.Join(said, ", ")
		}
		s.now = wake
		if effects := s.step(Event{Kind: Tick}); effects != "" {
			said = append(said, effects)
		}
	}
	s.t.Fatal("the arbiter wants to be woken again and again")
	return ""
}

func (s *scene) want(got, want string) {
	s.t.Helper()
	if got != want {
		s.t.Fatalf("at %v: %q, want %q", s.now, got, want)
	}
}

func TestWhoeverIsAloneHasTheGPUAtOnceAndKeepsIt(t *testing.T) {
	s := newScene(t, Defaults())
	s.join(share.Low, 1)
	s.want(s.ask(1, 10*ms), "grant 1")
	s.want(s.at(time.Minute), "")
	s.want(s.release(1), "")
	s.want(s.ask(1, 10*ms), "grant 1")
}

func TestTheImportantIsNextAndTheHolderIsToldAtOnce(t *testing.T) {
	s := newScene(t, Defaults())
	s.join(share.Low, 1, 2)
	s.join(share.High, 3)
	s.want(s.ask(1, 10*ms), "grant 1")
	s.want(s.ask(2, 10*ms), "")
	s.want(s.at(5*ms), "")
	s.want(s.ask(3, 10*ms), "yield 1")
	s.want(s.at(10*ms), "")
	s.want(s.release(1), "grant 3")
}

func TestEqualsTakeTurnsByQuantum(t *testing.T) {
	s := newScene(t, Defaults())
	s.join(share.Low, 1, 2)
	s.want(s.ask(1, 10*ms), "grant 1")
	s.want(s.at(150*ms), "")
	s.want(s.ask(2, 10*ms), "")
	s.want(s.at(199*ms), "")
	s.want(s.at(200*ms), "yield 1")
	s.want(s.release(1), "grant 2")
	s.want(s.ask(1, 10*ms), "")
	s.want(s.at(400*ms), "yield 2")
	s.want(s.release(2), "grant 1")
}

func TestTwoImportantAreCounted(t *testing.T) {
	s := newScene(t, Rules{})
	s.join(share.High, 1, 2)
	s.join(share.Low, 3)
	s.want(s.ask(1, 10*ms), "grant 1")
	s.want(s.ask(2, 10*ms), "")
	s.want(s.ask(3, 10*ms), "")
	s.at(10 * ms)
	s.want(s.leave(1), "grant 2")
	s.at(20 * ms)
	s.want(s.release(2), "grant 3")
}

func TestWhoDoesNotYieldIsFrozenAndThawedWhenNobodyWaits(t *testing.T) {
	s := newScene(t, Defaults())
	s.join(share.Low, 1)
	s.join(share.High, 2)
	s.ask(1, 10*ms)
	s.want(s.at(5*ms), "")
	s.want(s.ask(2, 10*ms), "yield 1")
	s.want(s.at(104*ms), "")
	s.want(s.at(105*ms), "freeze 1")
	s.want(s.at(155*ms), "grant 2")
	s.at(165 * ms)
	s.want(s.release(2), "thaw 1")
	s.at(185 * ms)
	s.want(s.ask(2, 10*ms), "freeze 1") // its grace was used up
	s.want(s.at(284*ms), "")            // its step is known to be 100 ms at least, and so what it launched
	s.want(s.at(285*ms), "grant 2")
	s.at(295 * ms)
	s.want(s.release(2), "thaw 1")
	s.at(300 * ms)
	s.want(s.release(1), "")
	s.want(s.ask(1, 10*ms), "") // its steps are longer than it says, and 2 is expected back
	s.want(s.at(2*time.Second), "grant 1")
}

func TestTheThirdIgnoredYieldIsAnOffence(t *testing.T) {
	s := newScene(t, Defaults())
	s.join(share.Low, 1)
	s.join(share.High, 2)
	var said []string
	for i := range time.Duration(3) {
		s.at(i * 10 * time.Second)
		s.ask(1, 10*ms)
		said = append(said, s.ask(2, 10*ms), s.at(s.now+time.Second), s.release(2), s.release(1))
	}
	got := strings.Join(slices.DeleteFunc(said, func(effects string) bool { return effects == "" }), "; ")
	once := "yield 1; freeze 1, grant 2; thaw 1"
	s.want(got, once+"; "+once+"; "+strings.Replace(once, "freeze 1,", "freeze 1, offence 1,", 1))
}

// TestWhoSaysTrulyThatItsStepsAreLongCommitsNoOffence, though they are longer than any grace and it is stopped in them.
func TestWhoSaysTrulyThatItsStepsAreLongCommitsNoOffence(t *testing.T) {
	for what, c := range map[string]struct {
		says, takes time.Duration
		offences    int // in two minutes, in which the important one wants the GPU every 1.3 s
	}{
		"steps of 1.5 s, as it says":      {1500 * ms, 1500 * ms, 0},
		"steps of 4 s, as it says":        {4 * time.Second, 4 * time.Second, 0},
		"steps of 4 s, and it says 20 ms": {20 * ms, 4 * time.Second, 1},
	} {
		s := newScene(t, Defaults())
		s.join(share.Low, 1)
		s.join(share.High, 2)
		holds := func(id Client) bool { return s.a.holder != nil && s.a.holder.id == id }
		left, offences, asked := c.takes, 0, false
		look := func(effects string) { offences += strings.Count(effects, "offence 1") }
		look(s.ask(1, c.says))
		for now := time.Duration(0); now < 2*time.Minute; now += 10 * ms {
			look(s.at(now))
			if holds(1) {
				if left -= 10 * ms; left <= 0 {
					look(s.release(1))
					left = c.takes
					look(s.ask(1, c.says))
				}
			}
			switch high := now % (1300 * ms); {
			case high == 0 && !asked:
				look(s.ask(2, 20*ms))
				asked = true
			case asked && holds(2) && high%(40*ms) == 0:
				look(s.release(2))
				asked = false
			}
		}
		if min(offences, 1) != c.offences {
			t.Errorf("%s: %d offences, want %d", what, offences, c.offences)
		}
	}
}

func TestWhoWasFrozenGetsOnBesideItsEqualsButNotBesideTheImportant(t *testing.T) {
	s := newScene(t, Rules{})
	s.join(share.Low, 1, 2)
	s.join(share.High, 3)
	s.ask(1, 10*ms)
	s.ask(2, 10*ms)
	s.want(s.at(350*ms), "yield 1, freeze 1, grant 2")
	s.want(s.release(2), "thaw 1")
	s.want(s.ask(2, 10*ms), "")
	s.want(s.at(449*ms), "")
	s.want(s.at(549*ms), "freeze 1")
	s.want(s.at(550*ms), "grant 2")
	s.want(s.release(2), "thaw 1")
	s.want(s.ask(3, 10*ms), "freeze 1")
}

// TestARevisedStepIsBelievedInPlaceOfWhatWasSeen: the caller saw one slow stop, and knows that it was a busy machine.
func TestARevisedStepIsBelievedInPlaceOfWhatWasSeen(t *testing.T) {
	s := newScene(t, Rules{LookAhead: true})
	s.join(share.Low, 1)
	s.join(share.High, 2)
	s.want(s.ask(1, 10*ms), "grant 1")
	s.at(10 * ms)
	s.want(s.ask(2, 10*ms), "yield 1")
	s.at(100 * ms)
	s.want(s.release(1), "grant 2") // 90 ms after the yield
	for range 3 {                   // gaps of 60 ms
		s.at(s.now + 10*ms)
		s.release(2)
		s.at(s.now + 60*ms)
		s.want(s.ask(2, 10*ms), "grant 2")
	}
	s.want(s.ask(1, 10*ms), "")
	s.want(s.release(2), "")
	s.want(s.step(Event{Kind: Revise, Client: 1, Estimate: 20 * ms}), "grant 1")
}

func TestAFrozenClientThatHasDrainedIsNotWaitedFor(t *testing.T) {
	s := newScene(t, Rules{Drain: 2 * time.Second})
	s.join(share.Low, 1)
	s.join(share.High, 2)
	s.ask(1, 10*ms)
	s.want(s.ask(2, 10*ms), "yield 1")
	s.want(s.at(500*ms), "freeze 1")
	s.want(s.step(Event{Kind: Drained, Client: 2}), "")
	s.want(s.step(Event{Kind: Drained, Client: 1}), "grant 2")
}

// TestAFrozenClientIsGivenTheTimeOfItsStepToDrain: what it had launched before it was stopped still runs.
func TestAFrozenClientIsGivenTheTimeOfItsStepToDrain(t *testing.T) {
	for step, want := range map[time.Duration]time.Duration{
		20 * ms: DefaultDrain, 400 * ms: 400 * ms, time.Minute: maxGrace,
	} {
		s := newScene(t, Rules{Policy: SLO})
		s.join(share.Low, 1)
		s.join(share.High, 2)
		within := func(slo time.Duration, c Client) string {
			s.seq[c]++
			return s.step(Event{Kind: Ask, Client: c, Seq: s.seq[c], Deadline: s.now + slo})
		}
		within(time.Hour, 1) // each of its steps is seen, since it has a deadline
		s.at(step)
		s.release(1)
		within(time.Hour, 1)
		s.want(within(time.Minute, 2), "yield 1")
		stops := s.now + 3*time.Second
		for s.at(s.now+ms) == "" && s.now < stops {
		}
		frozen := s.now
		s.want(s.at(frozen+want-2*ms), "")
		s.want(s.at(frozen+want+ms), "grant 2")
	}
}

func TestWhoReleasesWhileItIsFrozenIsThawed(t *testing.T) {
	s := newScene(t, Rules{Drain: 2 * time.Second})
	s.join(share.Low, 1)
	s.join(share.High, 2)
	s.ask(1, 10*ms)
	s.ask(2, 10*ms)
	s.want(s.at(100*ms), "freeze 1")
	s.want(s.release(1), "thaw 1, grant 2")
}

func TestWhatCannotHaveHappenedChangesNothing(t *testing.T) {
	s := newScene(t, Defaults())
	s.join(share.Low, 1, 2)
	s.want(s.ask(1, 10*ms), "grant 1")
	s.want(s.ask(2, 10*ms), "")
	before := fmt.Sprint(s.a.State())
	for _, e := range []Event{
		{Kind: Join, Client: 1, Class: share.High, Job: 9},
		{Kind: Ask, Client: 1, Seq: 5, Estimate: time.Hour},
		{Kind: Ask, Client: 2, Seq: 6},
		{Kind: Release, Client: 1, Seq: 7},
		{Kind: Release, Client: 2, Seq: 1},
		{Kind: Leave, Client: 3},
		{Kind: Drained, Client: 1},
		{Kind: "nonsense", Client: 1},
	} {
		s.want(s.step(e), "")
		if after := fmt.Sprint(s.a.State()); after != before {
			t.Fatalf("%+v: %s, before %s", e, after, before)
		}
	}
	s.want(s.release(1), "grant 2")
}

func TestAnImportantOneThatStaysAwayIsExpectedNoMoreAfterPatience(t *testing.T) {
	s := newScene(t, Rules{LookAhead: true})
	s.join(share.High, 1)
	s.join(share.Low, 2)
	s.ask(1, 10*ms)
	s.release(1)
	s.want(s.ask(2, time.Hour), "")
	s.want(s.at(999*ms), "")
	s.want(s.at(time.Second), "grant 2")
	if gap := s.a.State().Clients[0].Gap; gap != 0 {
		t.Errorf("still expected, in %v", gap)
	}
}

func TestTheStateSaysWhoWaitsAndForWhom(t *testing.T) {
	s := newScene(t, Defaults())
	s.join(share.High, 1)
	s.join(share.Low, 2)
	for range 3 {
		s.ask(1, 30*ms)
		s.at(s.now + 30*ms)
		s.release(1)
		s.at(s.now + 20*ms)
	}
	s.ask(2, 35*ms)
	state := s.a.State()
	high, low := state.Clients[0], state.Clients[1]
	if state.Holder != 0 || high.Phase != "idle" || high.Turns != 3 || high.Used != 90*ms || high.Share != 0.009 ||
		low.Phase != "waiting" || low.Step != 35*ms || low.Since != s.now {
		t.Errorf("%+v", state)
	}
	s.ask(1, 30*ms)
	s.at(s.now + 10*ms)
	state = s.a.State()
	if state.Holder != 1 || state.Clients[0].Phase != "holding" || state.Clients[0].Gap != 0 {
		t.Errorf("%+v", state)
	}
	s.release(1)
	if gap := s.a.State().Clients[0].Gap; gap != 20*ms {
		t.Errorf("expected back in %v after gaps of 20 ms", gap)
	}
}
