package policy

import "math/bits"

// shelf sorts servers by a small number, so that those with enough of it are found without looking at the others. Within one
// number they come in the order of the snapshot.
type shelf struct {
	level []int      // of each server; -1: not on the shelf
	sets  [][]uint64 // by level, one bit a server
}

func newShelf(servers, most int) *shelf {
	s := &shelf{level: make([]int, servers), sets: make([][]uint64, most+1)}
	words := (servers + 63) / 64
	for i := range s.sets {
		s.sets[i] = make([]uint64, words)
	}
	for i := range s.level {
		s.level[i] = -1
	}
	return s
}

// put moves server n to a level; a negative one takes it off the shelf.
func (s *shelf) put(n, level int) {
	level = min(level, len(s.sets)-1)
	if old := s.level[n]; old >= 0 {
		s.sets[old][n/64] &^= 1 << (n % 64)
	}
	s.level[n] = level
	if level >= 0 {
		s.sets[level][n/64] |= 1 << (n % 64)
	}
}

// from calls visit with every server at least at level low, the lowest level first, until visit answers false.
func (s *shelf) from(low int, visit func(n int) bool) {
	for level := max(low, 0); level < len(s.sets); level++ {
		if !each(s.sets[level], visit) {
			return
		}
	}
}

func each(set []uint64, visit func(n int) bool) bool {
	for w, word := range set {
		for word != 0 {
			if !visit(w*64 + bits.TrailingZeros64(word)) {
				return false
			}
			word &= word - 1
		}
	}
	return true
}

// top is the highest level with a server on it; -1 for an empty shelf.
func (s *shelf) top() int {
	for level := len(s.sets) - 1; level >= 0; level-- {
		for _, word := range s.sets[level] {
			if word != 0 {
				return level
			}
		}
	}
	return -1
}
