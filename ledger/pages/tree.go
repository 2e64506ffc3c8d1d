package pages

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
)

// bbolt follows pages wherever they lead, with no count of its steps. A page that leads back to itself, as one bit in a
// file can make it, has it put the same page on its stack until the machine has no memory left, which no recover ends.
// So the tree is walked here first, by numbers alone: each page once, and none that is not there.

// The file's format is that of all versions of bbolt since 2013: fields in the machine's order of bytes, and a header
// of sixteen bytes on each page, with as many for each of its elements behind it.
const (
	header, element = 16, 16

	branchFlag, leafFlag = 0x01, 0x02
	bucketFlag           = 0x01 // of an element of a leaf: its value is a bucket

	metaLength, metaSum = 64, 56 // and where in it the checksum stands that is over what is before
)

var native = binary.NativeEndian

// tree is the pages of a file that were seen so far.
type tree struct {
	file io.ReaderAt
	size int64 // of a page, bytes
	end  uint64
	seen map[uint64]bool
	due  []uint64
}

// walk says what is wrong with the pages that can be reached.
func walk(file io.ReaderAt, pageSize int) error {
	t := &tree{file: file, size: int64(pageSize), seen: map[uint64]bool{}}
	if err := t.begin(); err != nil {
		return err
	}
	for len(t.due) > 0 {
		id := t.due[len(t.due)-1]
		t.due = t.due[:len(t.due)-1]
		if err := t.page(id); err != nil {
			return fmt.Errorf("page %d: %w", id, err)
		}
	}
	return nil
}

// begin finds the state in force: of the two that the file begins with the newer that is whole.
func (t *tree) begin() error {
	var newest []byte
	for at := range int64(2) {
		meta, err := t.read(at*t.size+header, metaLength)
		if err != nil {
			return err
		}
		sum := fnv.New64a()
		sum.Write(meta[:metaSum])
		whole := sum.Sum64() == native.Uint64(meta[metaSum:])
		if whole && (newest == nil || native.Uint64(meta[48:]) > native.Uint64(newest[48:])) {
			newest = meta
		}
	}
	if newest == nil {
		return errors.New("neither state is whole")
	}
	t.end = native.Uint64(newest[40:])
	return t.later(native.Uint64(newest[16:]))
}

func (t *tree) read(at int64, length int) ([]byte, error) {
	part := make([]byte, length)
	_, err := t.file.ReadAt(part, at)
	return part, err
}

// later has a page looked at.
func (t *tree) later(id uint64) error {
	switch {
	case id < 2 || id >= t.end:
		return fmt.Errorf("leads to page %d, and those of the tree are 2 to %d", id, t.end-1)
	case t.seen[id]:
		return fmt.Errorf("leads to page %d, to which another leads as well", id)
	}
	t.seen[id] = true
	t.due = append(t.due, id)
	return nil
}

// page looks where a page leads.
func (t *tree) page(id uint64) error {
	start := int64(id) * t.size
	head, err := t.read(start, header)
	if err != nil {
		return err
	}
	if own := native.Uint64(head); own != id {
		return fmt.Errorf("says that it is page %d", own)
	}
	flags, count := native.Uint16(head[8:]), int64(native.Uint16(head[10:]))
	length := (int64(native.Uint32(head[12:])) + 1) * t.size
	if header+count*element > length {
		return fmt.Errorf("has %d elements, and no room for them", count)
	}
	elements, err := t.read(start+header, int(count*element))
	if err != nil {
		return err
	}
	for i := int64(0); i < count; i++ {
		e := elements[i*element:][:element]
		switch flags {
		case branchFlag:
			err = t.later(native.Uint64(e[8:]))
		case leafFlag:
			err = t.bucket(e, start+header+i*element, start+length)
		default:
			err = fmt.Errorf("has flags %#x, want those of a branch or a leaf", flags)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// bucket looks where an element of a leaf leads, which begins there, on a page that ends there: one that is no bucket
// nowhere, and a small bucket stands in its own value, where it can be a leaf alone.
func (t *tree) bucket(e []byte, begins, ends int64) error {
	if native.Uint32(e)&bucketFlag == 0 {
		return nil
	}
	at := begins + int64(native.Uint32(e[4:])) + int64(native.Uint32(e[8:]))
	if at+element+header > ends && at+element != ends {
		return errors.New("has a bucket that is not on it")
	}
	value, err := t.read(at, element)
	if err != nil {
		return err
	}
	if root := native.Uint64(value); root != 0 {
		return t.later(root)
	}
	inline, err := t.read(at+element, header)
	if err == nil && native.Uint16(inline[8:]) != leafFlag {
		err = errors.New("has a bucket within it that is no leaf")
	}
	return err
}
