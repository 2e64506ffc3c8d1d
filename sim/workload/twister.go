package workload

import "math/bits"

// The Mersenne Twister MT19937 (Matsumoto and Nishimura, 1998).
const (
	words       = 624
	mixDistance = 397 // distance to the word that is mixed in
)

// twister is the generator of CPython's module random, with methods named after the functions that they reproduce: the
// same seed and calls give the same numbers.
type twister struct {
	state [words]uint32
	at    int // index of the next word to return; words: all are used
}

// seeded returns the generator after random.seed(n). A number and its negative are the same seed, as in CPython.
func seeded(n int64) *twister {
	magnitude := uint64(n)
	if n < 0 {
		magnitude = -magnitude
	}
	key := []uint32{uint32(magnitude)}
	if high := uint32(magnitude >> 32); high > 0 {
		key = append(key, high)
	}
	return keyed(key)
}

// keyed returns the generator for a seed with the digits key in base 2³², the least significant first. It is
// init_by_array of the published generator, with which CPython seeds its own.
func keyed(key []uint32) *twister {
	t := &twister{at: words}
	t.state[0] = 19650218
	for k := 1; k < words; k++ {
		t.state[k] = 1812433253*t.before(k) + uint32(k)
	}
	i, j := 1, 0
	for range max(words, len(key)) {
		t.state[i] = (t.state[i] ^ t.before(i)*1664525) + key[j] + uint32(j)
		i, j = t.wrap(i+1), (j+1)%len(key)
	}
	for range words - 1 {
		t.state[i] = (t.state[i] ^ t.before(i)*1566083941) - uint32(i)
		i = t.wrap(i + 1)
	}
	t.state[0] = 1 << 31
	return t
}

// before is the value of word i-1 that seeding mixes into word i.
func (t *twister) before(i int) uint32 { return t.state[i-1] ^ t.state[i-1]>>30 }

// wrap continues seeding after the end of the state with word 1, and copies the last word into word 0.
func (t *twister) wrap(i int) int {
	if i < words {
		return i
	}
	t.state[0] = t.state[words-1]
	return 1
}

// twist generates the next block of words from the present one, when all of these are used.
func (t *twister) twist() {
	for k := range words - mixDistance {
		t.state[k] = t.state[k+mixDistance] ^ twisted(t.state[k], t.state[k+1])
	}
	for k := words - mixDistance; k < words-1; k++ {
		t.state[k] = t.state[k+mixDistance-words] ^ twisted(t.state[k], t.state[k+1])
	}
	t.state[words-1] = t.state[mixDistance-1] ^ twisted(t.state[words-1], t.state[0])
	t.at = 0
}

// twisted joins the top bit of a word with the other bits of the next, and mixes them as the published generator does.
func twisted(word, next uint32) uint32 {
	y := word&(1<<31) | next&(1<<31-1)
	return y>>1 ^ 0x9908b0df&-(y&1)
}

// next32 returns the next 32 bits.
func (t *twister) next32() uint32 {
	if t.at == words {
		t.twist()
	}
	y := t.state[t.at]
	t.at++
	y ^= y >> 11
	y ^= y << 7 & 0x9d2c5680
	y ^= y << 15 & 0xefc60000
	return y ^ y>>18
}

// random returns a number in [0, 1), a multiple of 2⁻⁵³.
func (t *twister) random() float64 {
	high, low := t.next32()>>5, t.next32()>>6
	return float64(uint64(high)<<26|uint64(low)) / (1 << 53)
}

// uniform returns a number between a and b.
func (t *twister) uniform(a, b float64) float64 { return a + float64((b-a)*t.random()) }

// getrandbits returns a number of k bits, 1 ≤ k ≤ 32.
func (t *twister) getrandbits(k int) uint32 { return t.next32() >> (32 - k) }

// below returns a whole number in [0, n), 1 ≤ n < 2³¹. Like _randbelow of CPython, it draws until a number is small
// enough.
func (t *twister) below(n int) int {
	k := bits.Len(uint(n))
	for {
		if r := int(t.getrandbits(k)); r < n {
			return r
		}
	}
}

// randint returns a whole number from a to b, both included.
func (t *twister) randint(a, b int) int { return a + t.below(b-a+1) }
