package pages

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
)

// bbolt follows pages without counting its steps. If one page leads back to itself, which a single wrong bit can cause,
// bbolt pushes it on its stack until memory is exhausted, which no recover can stop. So the tree is walked here first,
// by page numbers alone: each page may be reached once, and must exist.

// The file format is that of all versions of bbolt since 2013: fields in native byte order, and on each page a header
// of sixteen bytes, followed by as many for each element.
const (
	header, element = 16, 16

	branchFlag, leafFlag = 0x01, 0x02
	bucketFlag           = 0x01 // of an element of a leaf whose value is a bucket

	metaLength, metaSum = 64, 56 // the length of the meta data, and the offset in it of a checksum of everything before
)

var native = binary.NativeEndian

// tree is the state of a walk over a file's pages.
type tree struct {
	file io.ReaderAt
	size int64 // of a page, bytes
	end  uint64
	seen map[uint64]bool
	due  []uint64
}

// walk returns what is wrong with the pages that can be reached.
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

// begin finds the state in force, the newer of the first two pages whose checksum is right, and its root page. In a
// page's meta data the root page is at offset 16, the number of pages at 40, and the transaction number at 48.
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

// later adds a page to those that must be visited.
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

// page visits the pages to which a page leads. In its header the page's number is at offset 0, its kind at 8, its
// number of elements at 10, and the number of pages by which it overflows at 12.
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

// bucket visits the page to which an element of a leaf leads. begins is the element's offset, ends that of its page's
// end. An ordinary element leads nowhere. A small bucket is stored inline in the element's value and must be a leaf.
// The value begins with sixteen bytes, the root page first. A bucket with a root page has no more than these, so they
// may end with the page; an inline one has root page 0 and a page header behind them.
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
