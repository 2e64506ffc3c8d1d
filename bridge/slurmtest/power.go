package slurmtest

import (
	"slices"
	"strings"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
)

// Nodes are powered down and resumed as power_save.c and node_mgr.c of slurmctld 24.11 do it. A node that is
// POWERED_DOWN is as good as another, though the last to be chosen; a job that is given it is CONFIGURING until the
// node is up, and its run counts from then. What is to be powered down takes jobs until it is idle, and none while it
// goes down. Nodes are not powered down for being idle: a test says when.

// The words of a node's state that have to do with power.
const (
	poweredDown  = "POWERED_DOWN"
	poweringUp   = "POWERING_UP"
	powerUp      = "POWER_UP" // somebody wants it up
	powerDown    = "POWER_DOWN"
	poweringDown = "POWERING_DOWN"
	silent       = "NOT_RESPONDING"
)

// harmless are the words beside which slurmctld starts jobs on a node, whatever else is so.
var harmless = []string{
	poweredDown,
	poweringUp,
	powerUp,
	"CLOUD",
	"COMPLETING",
	"DYNAMIC_NORM",
	"MAINTENANCE",
	"PLANNED",
	"REBOOT_REQUESTED",
	"RESERVED",
}

// keepsOff says that a word of the node's state has slurmctld start nothing here.
func (n *node) keepsOff(word string) bool {
	switch word {
	case silent: // which is no surprise of one that is off
		return !slices.Contains(n.state, poweredDown) && !slices.Contains(n.state, poweringUp)
	case powerDown:
		return len(n.holders) == 0
	}
	return !slices.Contains(harmless, word)
}

// closed are the words that keep jobs off the node; empty: it is open.
func (n *node) closed() string {
	if len(n.state) == 0 {
		return ""
	}
	return strings.Join(
		slices.DeleteFunc(slices.Clone(n.state), func(word string) bool { return !n.keepsOff(word) }),
		"+",
	)
}

// words are the node's state as Slurm prints it.
func (n *node) words() []string {
	for _, base := range []string{"DOWN", "FUTURE", "UNKNOWN", "ERROR"} {
		if slices.Contains(n.state, base) {
			return n.state
		}
	}
	switch {
	case len(n.holders) == 0:
		return append([]string{"IDLE"}, n.state...)
	case n.allocated.CPUs == n.fixed.Total.CPUs:
		return append([]string{"ALLOCATED"}, n.state...)
	}
	return append([]string{"MIXED"}, n.state...)
}

// is says that a word is among the node's state.
func (n *node) is(word string) bool { return slices.Contains(n.state, word) }

// turns takes words out of the node's state and puts others in.
func (n *node) turns(out []string, in ...string) {
	n.state = slices.DeleteFunc(slices.Clone(n.state), func(word string) bool {
		return slices.Contains(out, word) || slices.Contains(in, word)
	})
	n.state = append(n.state, in...)
}

// steadyPower sets going what a node is in the middle of when the test begins.
func (s *Slurm) steadyPower(n *node) {
	switch {
	case n.is(powerDown):
		s.goesIdle(n)
	case n.is(poweringDown):
		s.afterwards(s.options.SuspendDelay, func() { s.isDown(n) })
	case n.is(poweringUp), n.is(poweredDown) && n.is(powerUp):
		s.resume(n)
	}
}

// afterwards plans something.
func (s *Slurm) afterwards(d time.Duration, do func()) {
	s.clock.At(s.clock.Now().Add(d), func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		do()
	})
}

// resume boots a node.
func (s *Slurm) resume(n *node) {
	n.turns([]string{poweredDown, powerUp}, poweringUp, silent)
	n.booted = s.clock.Now().Add(s.options.ResumeDelay)
	s.afterwards(s.options.ResumeDelay, func() {
		n.turns([]string{poweringUp, silent})
		s.wake()
	})
}

// goesIdle begins to power a node down, if it is to be and nobody is there.
func (s *Slurm) goesIdle(n *node) {
	if !n.is(powerDown) || len(n.holders) > 0 {
		return
	}
	n.turns([]string{powerDown, poweredDown}, poweringDown)
	s.afterwards(s.options.SuspendDelay, func() { s.isDown(n) })
}

// isDown is the end of SuspendTimeout.
func (s *Slurm) isDown(n *node) {
	if n.is(poweringDown) {
		n.turns([]string{poweringDown}, poweredDown)
		s.wake()
	}
}

// PowerDown is scontrol update nodename= state=power_down: jobs that are there run on.
func (s *Slurm) PowerDown(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i, found := s.byName[name]
	if !found || s.nodes[i].is(poweringDown) {
		return
	}
	s.nodes[i].turns(nil, powerDown)
	s.goesIdle(s.nodes[i])
}

// boot resumes the nodes of a job that are down, and says when the last of its nodes is up: now, if all are.
func (s *Slurm) boot(nodes []*node) time.Time {
	up := s.clock.Now()
	for _, n := range nodes {
		if n.is(poweredDown) {
			s.resume(n)
		}
		if n.is(poweringUp) && n.booted.After(up) {
			up = n.booted
		}
	}
	return up
}

// configured is the end of CONFIGURING: Slurm counts the run from here.
func (s *Slurm) configured(j *job) {
	j.configuring = false
	j.run.started, j.run.rate = s.clock.Now(), rate(s, j)
	s.changed(j)
	s.planEnd(j)
}

// upFirst orders nodes as slurmctld weighs them: those that are up, those that boot, those that are down.
func upFirst(a, b *node) int { return a.effort() - b.effort() }

func (n *node) effort() int {
	switch {
	case n.is(poweredDown):
		return 2
	case n.is(poweringUp):
		return 1
	}
	return 0
}

// told is how an observation tells why a node is closed.
func (s *Slurm) told(n *node) string {
	if s.options.Closed != nil {
		return s.options.Closed(n.words())
	}
	return n.closed()
}

// SetState has a node be in a state, as Slurm's words say it, from this moment on.
func SetState(s *Slurm, name string, words ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i, found := s.byName[name]; found {
		s.nodes[i].state = words
		s.steadyPower(s.nodes[i])
		s.wake()
	}
}

// stateOf are the words of a node that is configured to begin with them, joined as the port joins those that close it.
func stateOf(fixed *bridge.Node) []string {
	if fixed.Closed == "" {
		return nil
	}
	return strings.Split(fixed.Closed, "+")
}
