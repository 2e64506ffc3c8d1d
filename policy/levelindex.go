package policy

import (
	"math/bits"
	"slices"
)

// set is a set of servers, one bit each.
type set []uint64

func newSet(servers int) set { return make(set, (servers+63)/64) }

func (s set) add(n int)      { s[n/64] |= 1 << (n % 64) }
func (s set) drop(n int)     { s[n/64] &^= 1 << (n % 64) }
func (s set) has(n int) bool { return s[n/64]&(1<<(n%64)) != 0 }

// and is the intersection of two sets.
func (s set) and(t set) set {
	both := slices.Clone(s)
	for w := range both {
		both[w] &= t[w]
	}
	return both
}

// without removes the members of t from s.
func (s set) without(t set) {
	for w := range s {
		s[w] &^= t[w]
	}
}

// shared counts the servers that two sets have in common.
func (s set) shared(t set) int {
	n := 0
	for w := range s {
		n += bits.OnesCount64(s[w] & t[w])
	}
	return n
}

// any reports whether there is a member.
func (s set) any() bool { return slices.ContainsFunc(s, func(word uint64) bool { return word != 0 }) }

// meets reports whether two sets have a server in common.
func (s set) meets(t set) bool {
	for w := range s {
		if s[w]&t[w] != 0 {
			return true
		}
	}
	return false
}

// within reports whether all members are in t.
func (s set) within(t set) bool {
	for w := range s {
		if s[w]&^t[w] != 0 {
			return false
		}
	}
	return true
}

// levelIndex indexes servers by a small number, their level, so that those with enough of it are found without looking
// at the others. Within one level they come in the order of their names.
type levelIndex struct {
	level []int // of each server; off: not in the index
	sets  []set // by level
}

// off is the level of servers that are not in the index.
const off = -1

// newLevelIndex makes an index of so many servers, none of them in it yet, for levels from 0 to most.
func newLevelIndex(servers, most int) *levelIndex {
	s := &levelIndex{level: make([]int, servers), sets: make([]set, most+1)}
	for i := range s.sets {
		s.sets[i] = newSet(servers)
	}
	for i := range s.level {
		s.level[i] = off
	}
	return s
}

// put moves server n to a level; a negative one takes it out of the index.
func (s *levelIndex) put(n, level int) {
	old := s.level[n]
	if old == level {
		return
	}
	if old >= 0 {
		s.sets[old].drop(n)
	}
	s.level[n] = max(level, off)
	if level >= 0 {
		s.sets[level].add(n)
	}
}

// from calls visit with every server of a set at least at level low, the lowest level first, until visit returns false.
func (s *levelIndex) from(low int, within set, visit func(n int) bool) {
	for level := max(low, 0); level < len(s.sets); level++ {
		for w, word := range s.sets[level] {
			for word &= within[w]; word != 0; word &= word - 1 {
				if !visit(w*64 + bits.TrailingZeros64(word)) {
					return
				}
			}
		}
	}
}

// reaches reports whether a server of a set is at least at level low.
func (s *levelIndex) reaches(low int, within set) bool {
	for level := max(low, 0); level < len(s.sets); level++ {
		if s.sets[level].meets(within) {
			return true
		}
	}
	return false
}
