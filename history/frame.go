package history

import (
	"errors"
	"fmt"
	"math/bits"

	"github.com/klauspost/compress/zstd"
)

// A round is kept as text that is nearly that of the round before, so it is compressed against that. Now and then one
// is kept by itself, so that no round takes more than keyRounds to be read, and damage costs no more than these.

// keyRounds is after how many rounds: four hours of rounds of five minutes.
const keyRounds = 48

// Bounds on what is read from a file, whatever it claims: a round of 100,000 jobs is less.
const (
	mostText   = 1 << 28
	mostWindow = 1 << 29
	leastBits  = 20 // of a window
)

// errFrame is a text that cannot be had again from what is kept.
var errFrame = errors.New("a kept round cannot be read")

// packer compresses each text against the one before. The zero value has none.
type packer struct {
	before []byte
	left   int // texts, before one is to be kept by itself
}

// pack is text compressed; alone says that it is so by itself. Who cannot keep it forgets the packer.
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

// windowFor is how far back an encoder has to look to find in one text what is the same in the other.
func windowFor(bytes int) int {
	return min(1<<max(leastBits, bits.Len(uint(bytes))), zstd.MaxWindowSize)
}

// unpack is a text that was compressed against the one before.
func unpack(packed, before []byte) ([]byte, error) {
	return decompress(packed, zstd.WithDecoderDictRaw(1, before))
}

func compress(text []byte, options ...zstd.EOption) ([]byte, error) {
	encoder, err := zstd.NewWriter(nil, append(options, zstd.WithEncoderLevel(zstd.SpeedBetterCompression),
		zstd.WithEncoderConcurrency(1))...)
	if err != nil {
		return nil, fmt.Errorf("compress: %w", err)
	}
	return encoder.EncodeAll(text, nil), nil
}

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
