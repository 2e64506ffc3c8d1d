package turns

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/share"
)

// actor is a connection of a job that takes one step a turn, and knows when it does what next.
type actor struct {
	class share.Class
	job   int
	step  time.Duration
	gap   time.Duration
	says  time.Duration // its estimate; 0: the truth
	used  time.Duration // what it says that it used; 0: nothing
	slo   time.Duration
	first time.Duration // how long its first step takes; 0: as long as the others
	anew  bool          // it hangs up at the end of each step and connects again

	id    Client
	seq   uint64
	acts  time.Duration // when it asks or has done its step; never: it waits
	holds bool
	steps int
}

const never = forever

// crowd is an arbiter with its actors, in virtual time.
type crowd struct {
	a      *Arbiter
	now    time.Duration
	actors []*actor
	last   Client
}

func gather(rules Rules, actors ...*actor) *crowd {
	c := &crowd{a: New(rules), actors: actors}
	for _, who := range actors {
		c.join(who)
	}
	return c
}

func (c *crowd) join(who *actor) {
	c.last++
	who.id = c.last
	c.step(Event{Kind: Join, Client: who.id, Class: who.class, Job: who.job})
}

func (c *crowd) step(e Event) {
	for _, effect := range c.a.Step(c.now, e) {
		for _, who := range c.actors {
			if who.id == effect.Client && effect.Verb == Grant {
				who.holds, who.acts = true, c.now+who.step
				if who.steps == 0 && who.first > 0 {
					who.acts = c.now + who.first
				}
			}
		}
	}
}

// run lets time pass until then.
func (c *crowd) run(until time.Duration) {
	for {
		next := (*actor)(nil)
		at := until
		for _, who := range c.actors {
			if who.acts < at {
				next, at = who, who.acts
			}
		}
		wake, ok := c.a.Wake()
		switch {
		case ok && wake < at:
			c.now = wake
			c.step(Event{Kind: Tick})
		case next == nil:
			c.now = until
			return
		default:
			c.now = at
			c.act(next)
		}
	}
}

func (c *crowd) act(who *actor) {
	if !who.holds {
		who.seq++
		who.acts = never
		e := Event{Kind: Ask, Client: who.id, Seq: who.seq, Estimate: who.says}
		if who.says == 0 {
			e.Estimate = who.step
		}
		if who.slo > 0 {
			e.Deadline = c.now + who.slo
		}
		c.step(e)
		return
	}
	who.steps++
	who.holds, who.acts = false, c.now+who.gap
	if who.anew {
		c.step(Event{Kind: Leave, Client: who.id})
		c.join(who)
		return
	}
	c.step(Event{Kind: Release, Client: who.id, Seq: who.seq, Used: who.used})
}

// TestAJobThatConnectsAnewAndSaysWhatItLikesTakesNoMoreFromTheImportant than one that tells the truth and stays: who it
// is its job says, and how long its steps are was seen.
func TestAJobThatConnectsAnewAndSaysWhatItLikesTakesNoMoreFromTheImportant(t *testing.T) {
	for _, gap := range []time.Duration{5 * ms, 20 * ms, 60 * ms} {
		beside := func(change func(*actor)) (high, low int) {
			important := &actor{class: share.High, job: 1, step: 25 * ms, gap: gap}
			other := &actor{class: share.Low, job: 2, step: 35 * ms}
			change(other)
			gather(Defaults(), important, other).run(time.Minute)
			return important.steps, other.steps
		}
		honest, fills := beside(func(*actor) {})
		for what, change := range map[string]func(*actor){
			"connects anew":             func(a *actor) { a.anew = true },
			"says that it is short":     func(a *actor) { a.says = time.Microsecond },
			"both":                      func(a *actor) { a.says, a.anew = time.Microsecond, true },
			"says that it used nothing": func(a *actor) { a.says, a.used = time.Microsecond, time.Microsecond },
		} {
			high, low := beside(change)
			t.Logf("gap %v, the other %s: %d and %d steps, honest %d and %d", gap, what, high, low, honest, fills)
			if 10*high < 9*honest {
				t.Errorf("gap %v, the other %s: %d steps of the important one, %d beside an honest one", gap, what,
					high, honest)
			}
		}
	}
}

// TestWhatIsKnownOfJobsIsForgottenInTheEnd, however many come and go.
func TestWhatIsKnownOfJobsIsForgottenInTheEnd(t *testing.T) {
	s := newScene(t, Defaults())
	for id := Client(1); id <= 3*maxDeparted; id++ {
		s.now += ms
		s.join(share.Low, id)
		s.ask(id, ms)
		s.release(id)
		s.leave(id)
	}
	if n := len(s.a.departed); n != maxDeparted || len(s.a.jobs) != 0 {
		t.Errorf("%d jobs that are gone are remembered, and %d that are not there", n, len(s.a.jobs))
	}
	s.now += departedTTL + ms
	s.step(Event{Kind: Join, Client: 9999, Class: share.Low})
	if s.leave(9999); len(s.a.departed) != 0 {
		t.Errorf("%d are remembered for ever", len(s.a.departed))
	}
}

// connections are those of a job that has as many.
func connections(n int, of actor) []*actor {
	var all []*actor
	for range n {
		one := of
		all = append(all, &one)
	}
	return all
}

func total(actors []*actor) (steps int) {
	for _, who := range actors {
		steps += who.steps
	}
	return steps
}

// TestManyConnectionsAreNoMoreThanOne, by whatever order turns are given.
func TestManyConnectionsAreNoMoreThanOne(t *testing.T) {
	for _, policy := range []Policy{Strict, Weighted, SLO} {
		for _, of := range []actor{{}, {slo: 200 * ms}, {anew: true}, {slo: 200 * ms, anew: true, says: time.Hour}} {
			of.class, of.job, of.step = share.Low, 1, 3*ms
			many := connections(64, of)
			one := &actor{class: share.Low, job: 2, step: 3 * ms, slo: of.slo}
			gather(Rules{Policy: policy, LookAhead: true, MinShare: 0.05}, append(many, one)...).run(15 * time.Second)
			if steps := total(many); one.steps < 9*steps/10 || steps < 2000 {
				t.Errorf("%s: one connection has %d steps, 64 of another job that are %+v have %d", policy, one.steps,
					of, steps)
			}
		}
	}
}

// TestNoCrowdAndNoClaimCostsTheImportantATenth, whatever its steps and gaps are, of what it keeps beside one that is
// alone and tells the truth.
func TestNoCrowdAndNoClaimCostsTheImportantATenth(t *testing.T) {
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 9))
		of := actor{class: share.Low, job: 2, step: time.Duration(1+r.IntN(120)) * ms}
		important := actor{class: share.High, job: 1, step: time.Duration(1+r.IntN(60)) * ms,
			gap: time.Duration(r.IntN(100)) * ms}
		rules := Rules{LookAhead: true, MinShare: 0.05 * float64(r.IntN(2)), Concede: 0.1 * float64(r.IntN(2))}
		keeps := func(n int, of actor) int {
			high := important
			gather(rules, append(connections(n, of), &high)...).run(30 * time.Second)
			return high.steps
		}
		honest := keeps(1, of)
		liar := of
		liar.says, liar.anew, liar.used = time.Microsecond, r.IntN(2) == 0, time.Duration(r.IntN(2))
		if got := keeps(1+r.IntN(8), liar); 10*got < 9*honest {
			t.Errorf("seed %d, %+v: %d steps of %+v, %d beside an honest one (%+v)", seed, rules,
				got, important, honest,
				liar)
		}
	}
}

// TestNoClaimMakesADeadlineSooner: of two with deadlines the one that has time left says that its step takes an hour,
// or kept the GPU for long while it was alone.
func TestNoClaimMakesADeadlineSooner(t *testing.T) {
	beside := func(change func(*actor)) int {
		serves := &actor{class: share.High, job: 1, step: 20 * ms, gap: 10 * ms, slo: 60 * ms, acts: time.Minute}
		others := connections(3,
			actor{class: share.Low, job: 2, step: 30 * ms, slo: 10 * time.Second, acts: time.Minute})
		for _, other := range others {
			change(other)
		}
		gather(Rules{Policy: SLO}, append(others, serves)...).run(time.Minute + 2*time.Second)
		return serves.steps
	}
	honest := beside(func(*actor) {})
	for what, change := range map[string]func(*actor){
		"says an hour":      func(a *actor) { a.says = time.Hour },
		"and connects anew": func(a *actor) { a.says, a.anew = time.Hour, true },
		"kept it for 20 s":  func(a *actor) { a.acts, a.first = 0, 20*time.Second-5*ms },
	} {
		if got := beside(change); 10*got < 9*honest {
			t.Errorf("%s: %d steps of the one whose deadline is sooner, %d beside an honest one", what, got, honest)
		}
	}
}

// TestAJobWhoseStepsFitNoGapHasItsLeastShareBesideOneWhoseStepsFitAll: what the other of its class has is not its own.
func TestAJobWhoseStepsFitNoGapHasItsLeastShareBesideOneWhoseStepsFitAll(t *testing.T) {
	for _, policy := range []Policy{Strict, SLO} {
		important := func() *actor { return &actor{class: share.High, job: 1, step: 6 * ms, gap: 23 * ms} }
		short := &actor{class: share.Low, job: 2, step: 6 * ms, gap: 23 * ms}
		long, high, alone := &actor{class: share.Low, job: 3, step: 116 * ms}, important(), important()
		gather(Rules{Policy: policy, LookAhead: true, MinShare: 0.05}, high, short, long).run(time.Minute)
		gather(Rules{Policy: policy, LookAhead: true, MinShare: 0.05}, alone).run(time.Minute)
		part := float64(long.steps) * long.step.Seconds() / 60
		if kept := float64(high.steps) / float64(alone.steps); part < 0.025 || part > 0.05 || kept < 0.95 {
			t.Errorf("%s: the long one has %.3f of the GPU, want 0.025 to 0.05; the short one %d steps, and the "+
				"important one keeps %.3f", policy, part, short.steps, kept)
		}
	}
}
