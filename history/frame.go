package history

import (
	"errors"
	"fmt"
	"math/bits"

	"github.com/klauspost/compress/zstd"
)

// The text of a round differs little from that of the round before, so it is compressed with that text as dictionary.
// Every keyRounds rounds one is compressed by itself, which bounds the work of reading a round and the rounds lost to
// damage.

// keyRounds is the distance between rounds compressed by themselves: four hours with rounds of five minutes.
const keyRounds = 48

// Bounds on what is read from a file, in bytes, whatever the file claims; a round of 100,000 jobs is smaller.
const (
	mostText   = 1 << 28
	mostWindow = 1 << 29
	leastBits  = 20 // the smallest window for packing has 2^leastBits bytes
)

// errFrame says that a round's text cannot be reconstructed.
var errFrame = errors.New("a kept round cannot be read")

// packer compresses each text against the one before. The zero value starts with a text compressed by itself.
type packer struct {
	before []byte
	left   int // texts until one is compressed by itself
}

// pack compresses a text; alone says that it does not depend on the one before. A caller that fails to store the result
// must discard the packer.
func (p *packer) pack(text []byte) (packed []byte, alone bool, err error) {
	if alone = p.left == 0; alone {
		packed, err = compress(text)
		p.left = keyRounds
	} else {
		packed, err = compress(text, zstd.WithEncoderDictRaw(1, p.before),
			zstd.WithWindowSize(windowFor(len(p.before)+len(text))))
	}
	p.before, p.left = text, p.left-1
	return packed, alone, err
}

// windowFor is the window, in bytes, over which an encoder finds repetitions between two texts of this total length: a
// power of two, as zstd requires, that holds both texts if zstd allows one so large.
func windowFor(bytes int) int {
	return min(1<<max(leastBits, bits.Len(uint(bytes))), zstd.MaxWindowSize)
}

// unpack reconstructs a text that was compressed against the one before.
func unpack(packed, before []byte) ([]byte, error) {
	return decompress(packed, zstd.WithDecoderDictRaw(1, before))
}

// compress compresses a text on one core.
func compress(text []byte, options ...zstd.EOption) ([]byte, error) {
	encoder, err := zstd.NewWriter(nil, append(options, zstd.WithEncoderLevel(zstd.SpeedBetterCompression),
		zstd.WithEncoderConcurrency(1))...)
	if err != nil {
		return nil, fmt.Errorf("compress: %w", err)
	}
	return encoder.EncodeAll(text, nil), nil
}

// decompress is the inverse of compress. A damaged or forged text cannot make it use more memory than the bounds above.
func decompress(packed []byte, options ...zstd.DOption) ([]byte, error) {
	decoder, err := zstd.NewReader(nil, append(options, zstd.WithDecoderConcurrency(1),
		zstd.WithDecoderMaxMemory(mostText), zstd.WithDecoderMaxWindow(mostWindow))...)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errFrame, err)
	}
	defer decoder.Close()
	text, err := decoder.DecodeAll(packed, nil)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errFrame, err)
	}
	return text, nil
}
