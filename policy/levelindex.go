package policy

import (
	"math/bits"
	"slices"
)

// serverSet is a set of servers, one bit each.
type serverSet []uint64

func newServerSet(servers int) serverSet { return make(serverSet, (servers+63)/64) }

func (s serverSet) add(n int)       { s[n/64] |= 1 << (n % 64) }
func (s serverSet) removeOne(n int) { s[n/64] &^= 1 << (n % 64) }
func (s serverSet) has(n int) bool  { return s[n/64]&(1<<(n%64)) != 0 }

// intersection returns a new set with the servers that are in both.
func (s serverSet) intersection(t serverSet) serverSet {
	both := slices.Clone(s)
	for w := range both {
		both[w] &= t[w]
	}
	return both
}

// removeAll removes the members of t from s.
func (s serverSet) removeAll(t serverSet) {
	for w := range s {
		s[w] &^= t[w]
	}
}

// countCommon counts the servers that two sets have in common.
func (s serverSet) countCommon(t serverSet) int {
	n := 0
	for w := range s {
		n += bits.OnesCount64(s[w] & t[w])
	}
	return n
}

// any reports whether there is a member.
func (s serverSet) any() bool {
	return slices.ContainsFunc(s, func(word uint64) bool { return word != 0 })
}

// meets reports whether two sets have a server in common.
func (s serverSet) meets(t serverSet) bool {
	for w := range s {
		if s[w]&t[w] != 0 {
			return true
		}
	}
	return false
}

// isWithin reports whether all members are in t.
func (s serverSet) isWithin(t serverSet) bool {
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
	level []int       // of each server; notIndexed: not in the index
	sets  []serverSet // by level
}

// notIndexed is the level of servers that are not in the index.
const notIndexed = -1

// newLevelIndex makes an index of so many servers, none of them in it yet, for levels from 0 to most.
func newLevelIndex(servers, most int) *levelIndex {
	s := &levelIndex{level: make([]int, servers), sets: make([]serverSet, most+1)}
	for i := range s.sets {
		s.sets[i] = newServerSet(servers)
	}
	for i := range s.level {
		s.level[i] = notIndexed
	}
	return s
}

// setLevel moves server n to a level, at most the highest of the index; a negative one takes it out of the index.
func (s *levelIndex) setLevel(n, level int) {
	old := s.level[n]
	if old == level {
		return
	}
	if old >= 0 {
		s.sets[old].removeOne(n)
	}
	s.level[n] = max(level, notIndexed)
	if level >= 0 {
		s.sets[level].add(n)
	}
}

// visitFrom calls visit with every server of a set at least at level low, the lowest level first, until visit returns
// false. With free GPUs as levels the fullest servers that have enough come first, and larger rooms stay whole.
func (s *levelIndex) visitFrom(low int, within serverSet, visit func(n int) bool) {
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

// reachesLevel reports whether any server of a set is at least at level low, so that a search from there finds one.
func (s *levelIndex) reachesLevel(low int, within serverSet) bool {
	for level := max(low, 0); level < len(s.sets); level++ {
		if s.sets[level].meets(within) {
			return true
		}
	}
	return false
}
