package turns

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/share"
)

// watcher keeps its own account of who has the GPU, from the events and effects alone, and says which promise was
// broken.
type watcher struct {
	a       *Arbiter
	rules   Rules
	now     time.Duration
	clients map[Client]*watched
	ids     []Client
	next    Client
	// without is since when somebody of class High has wanted the GPU while none of High had it; -1: nobody does.
	without time.Duration
	grace   time.Duration // of the last yield
	// passed counts, for each job that waits, the turns of each other since it began to or its last turn ended.
	passed map[int]map[int]int
}

type watched struct {
	class   share.Class
	job     int
	seq     uint64
	wants   bool
	has     bool
	told    bool
	stopped bool
	takes   time.Duration // its step, in the random schedules
	stays   bool          // it ignores that it is told to yield, mostly
}

func newWatcher(rules Rules) *watcher {
	return &watcher{a: New(rules), rules: rules.filled(), clients: map[Client]*watched{}, without: -1,
		passed: map[int]map[int]int{}}
}

// owner is a number for the client's job; a client of none has its own.
func (w *watcher) owner(id Client) int {
	if job := w.clients[id].job; job != 0 {
		return job
	}
	return -int(id)
}

// uses says whether a job waits for the GPU, and whether it has it.
func (w *watcher) uses(job int) (waits, has bool) {
	for _, id := range w.ids {
		if c := w.clients[id]; w.owner(id) == job {
			waits, has = waits || c.wants, has || c.has
		}
	}
	return waits, has
}

// tookTurn says whether those of a class still go round by job, whatever they say and by however many connections they
// come. By spent time, by deadlines and into gaps they do not.
func (w *watcher) tookTurn(id Client) error {
	job, seen := w.owner(id), map[int]bool{}
	for _, other := range w.ids {
		behind := w.owner(other)
		waits, has := w.uses(behind)
		if seen[behind] || !waits || has || w.clients[other].class != w.clients[id].class {
			continue
		}
		seen[behind] = true
		if w.passed[behind] == nil {
			w.passed[behind] = map[int]int{}
		}
		if w.passed[behind][job]++; w.passed[behind][job] > 1 && w.rules.Policy == Strict && !w.rules.LookAhead {
			return fmt.Errorf("job %d has a second turn while job %d of its class waits for one", job, behind)
		}
	}
	return nil
}

// step takes an event to the arbiter and returns what is wrong.
func (w *watcher) step(e Event) error {
	c := w.clients[e.Client]
	switch {
	case e.Kind == Join && c == nil:
		w.clients[e.Client] = &watched{class: e.Class, job: e.Job}
		w.ids = append(w.ids, e.Client)
	case c == nil:
	case e.Kind == Ask && !c.wants && !c.has:
		if waits, has := w.uses(w.owner(e.Client)); !waits && !has {
			delete(w.passed, w.owner(e.Client))
		}
		c.wants, c.seq = true, e.Seq
	case e.Kind == Release && c.has && e.Seq == c.seq:
		c.has, c.told = false, false
		delete(w.passed, w.owner(e.Client))
	case e.Kind == Leave:
		if c.has {
			delete(w.passed, w.owner(e.Client))
		}
		c.wants, c.has = false, false
	}
	for _, effect := range w.a.Step(w.now, e) {
		if err := w.saw(effect); err != nil {
			return fmt.Errorf("at %v after %+v: %w", w.now, e, err)
		}
	}
	if e.Kind == Leave && c != nil {
		if c.stopped {
			return fmt.Errorf("at %v: client %d left and was not thawed", w.now, e.Client)
		}
		delete(w.clients, e.Client)
		w.ids = slices.DeleteFunc(w.ids, func(id Client) bool { return id == e.Client })
	}
	return w.check()
}

func (w *watcher) saw(effect Effect) error {
	c := w.clients[effect.Client]
	if c == nil || effect.Seq != c.seq {
		return fmt.Errorf("%+v names nobody or another request", effect)
	}
	switch effect.Verb {
	case Grant:
		if !c.wants || c.stopped || effect.Lease < time.Millisecond || effect.Lease > w.rules.Quantum {
			return fmt.Errorf("%+v: it did not ask, is stopped, or the lease is none", effect)
		}
		c.wants, c.has = false, true
		return w.tookTurn(effect.Client)
	case Yield:
		if !c.has || c.stopped || c.told || effect.Grace < minGrace || effect.Grace > maxGrace {
			return fmt.Errorf("%+v: it has nothing, was told before, or has no grace", effect)
		}
		c.told, w.grace = true, effect.Grace
	case Freeze:
		if !c.has || c.stopped || !c.told {
			return fmt.Errorf("%+v: it has nothing or was not told to yield", effect)
		}
		c.stopped = true
		delete(w.passed, w.owner(effect.Client))
	case Thaw:
		if !c.stopped {
			return fmt.Errorf("%+v: it is not frozen", effect)
		}
		c.stopped = false
		if c.has {
			return w.tookTurn(effect.Client)
		}
	}
	return nil
}

// check holds what has to hold after every step.
func (w *watcher) check() error {
	holders, high, wanted := 0, false, false
	for _, id := range w.ids {
		c := w.clients[id]
		if c.has && !c.stopped {
			holders++
			high = high || c.class == share.High
		}
		wanted = wanted || c.class == share.High && (c.wants || c.has && c.stopped)
		if c.stopped && !w.othersUse(id) {
			return fmt.Errorf("at %v: client %d is frozen and nobody else waits", w.now, id)
		}
	}
	if holders > 1 {
		return fmt.Errorf("at %v: %d clients have the GPU", w.now, holders)
	}
	switch {
	case !wanted || high:
		w.without = -1
	case w.without < 0:
		w.without = w.now
	}
	drain := max(w.rules.Drain, maxGrace)
	most := max(w.grace, minGrace) + drain + time.Millisecond
	if w.rules.MinShare > 0 { // one of class high was frozen for the least share of class low
		most += drain
	}
	if w.rules.Policy == Strict && w.without >= 0 &&
		w.now-w.without > most {
		return fmt.Errorf("at %v: one of class high has waited for %v, and none had the GPU", w.now, w.now-w.without)
	}
	if wake, ok := w.a.Wake(); ok && wake <= w.now {
		return fmt.Errorf("at %v: wake at %v", w.now, wake)
	}
	return nil
}

// othersUse says whether a client of another job waits for the GPU, or has it.
func (w *watcher) othersUse(id Client) bool {
	for _, other := range w.ids {
		c := w.clients[other]
		if other != id && (c.wants || c.has) && (c.job == 0 || c.job != w.clients[id].job) {
			return true
		}
	}
	return false
}

// until lets time pass, with every tick that the arbiter wants.
func (w *watcher) until(now time.Duration) error {
	for range 1000 {
		wake, ok := w.a.Wake()
		if !ok || wake > now {
			w.now = now
			return nil
		}
		w.now = wake
		if err := w.step(Event{Kind: Tick}); err != nil {
			return err
		}
	}
	return fmt.Errorf("at %v: it wants to be woken for ever", w.now)
}

// act does one thing at random that jobs do.
func (w *watcher) act(r *rand.Rand) error {
	if len(w.ids) < 2 || len(w.ids) < 8 && r.IntN(30) == 0 {
		w.next++
		class, job := share.Low, 100+min(3, r.IntN(8))
		if r.IntN(3) == 0 {
			class, job = share.High, 200+r.IntN(3)
		}
		if r.IntN(5) == 0 {
			job = 0
		}
		err := w.step(Event{Kind: Join, Client: w.next, Class: class, Job: job})
		w.clients[w.next].stays = r.IntN(5) == 0
		return err
	}
	id := w.ids[r.IntN(len(w.ids))]
	c := w.clients[id]
	switch {
	case r.IntN(100) == 0:
		return w.step(Event{Kind: Leave, Client: id})
	case !c.has && !c.wants:
		c.takes = time.Duration(r.IntN(60)) * time.Millisecond
		estimate := time.Duration(r.IntN(2)) * c.takes
		return w.step(Event{Kind: Ask, Client: id, Seq: c.seq + 1, Estimate: estimate,
			Deadline: time.Duration(r.IntN(2)) * (w.now + 100*time.Millisecond)})
	case c.has && !c.stopped && (!c.stays || r.IntN(20) == 0) && (c.told || r.IntN(3) == 0):
		return w.step(Event{Kind: Release, Client: id, Seq: c.seq, Used: time.Duration(r.IntN(2)) * c.takes})
	}
	return w.step(Event{Kind: Tick})
}

// end lets everybody finish what it has and begin nothing new, and says who waits for ever.
func (w *watcher) end() error {
	for range 4000 {
		open := 0
		for _, id := range slices.Clone(w.ids) {
			c := w.clients[id]
			if c.has && !c.stopped {
				if err := w.step(Event{Kind: Release, Client: id, Seq: c.seq}); err != nil {
					return err
				}
			}
			if c.wants || c.has {
				open++
			}
		}
		if open == 0 {
			return nil
		}
		if err := w.until(w.now + minGrace/2); err != nil {
			return err
		}
	}
	return fmt.Errorf("at %v: somebody waits for ever: %+v", w.now, w.a.State())
}

func everyRules() []Rules {
	var all []Rules
	for _, policy := range []Policy{Strict, Weighted, SLO} {
		for _, ahead := range []bool{false, true} {
			for _, least := range []float64{0, 0.05} {
				all = append(all, Rules{Policy: policy, LookAhead: ahead, MinShare: least})
			}
		}
	}
	return all
}

// TestNoScheduleOfEventsBreaksAPromise: at most one has the GPU; who is important has it within grace and drain; nobody
// is frozen for nobody; every freeze has a thaw; nobody waits for ever, whoever left; equals go round by job.
func TestNoScheduleOfEventsBreaksAPromise(t *testing.T) {
	for i, rules := range everyRules() {
		for seed := range uint64(5) {
			r := rand.New(rand.NewPCG(seed, uint64(i)))
			w := newWatcher(rules)
			err := error(nil)
			for n := 0; n < 2000 && err == nil; n++ {
				scale := []time.Duration{ms / 10, 3 * ms, 30 * ms, 500 * ms}[r.IntN(4)]
				if err = w.until(w.now + time.Duration(r.ExpFloat64()*float64(scale))); err == nil {
					err = w.act(r)
				}
				if err == nil && n%100 == 99 {
					err = w.end()
				}
			}
			if err != nil {
				t.Errorf("%+v, seed %d: %v", rules, seed, err)
			}
		}
	}
}

// FuzzNothingThatIsSaidBreaksAPromise takes four bytes for each event: what, who, how long before it, and what it says.
// Much of that cannot happen, as with a client that lies.
func FuzzNothingThatIsSaidBreaksAPromise(f *testing.F) {
	f.Add(uint8(10), []byte("\x00\x01\x00\x01\x01\x01\x05\x0a\x00\x02\x00\x02\x01\x02\x05\x0a"+
		"\x05\x00\xff\x00\x02\x01\x01\x01"))
	f.Add(uint8(0), []byte("\x00\x01\x00\x01\x00\x02\x00\x01\x01\x01\x01\x00\x03\x01\x01\x00"))
	kinds := []Kind{Join, Ask, Release, Leave, Tick, Drained, Revise, "nonsense"}
	f.Fuzz(func(t *testing.T, rules uint8, said []byte) {
		all := everyRules()
		w := newWatcher(all[int(rules)%len(all)])
		for ; len(said) >= 4 && w.now < time.Hour; said = said[4:] {
			who, word := said[1]%8, time.Duration(said[3])
			e := Event{Kind: kinds[int(said[0])%len(kinds)], Client: Client(who), Class: share.Low, Job: int(who) % 4,
				Seq: uint64(said[3] % 4), Estimate: (word - 8) * 10 * time.Millisecond, Deadline: word * time.Second,
				Used: (word - 8) * time.Hour}
			if e.Job%2 == 1 {
				e.Class = share.High
			}
			if err := w.until(w.now + time.Duration(said[2])*time.Duration(said[2])*100*time.Microsecond); err != nil {
				t.Fatal(err)
			}
			if err := w.step(e); err != nil {
				t.Fatal(err)
			}
		}
	})
}
