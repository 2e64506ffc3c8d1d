package trace

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
)

// headSize is how many bytes of a file are used to recognise its format.
const headSize = 64 << 10

// Open reads a file. An empty format is recognised from the content; compression with gzip always is.
//
// Errors name the file, the line, the field, its value, and what is expected.
func Open(path string, format Format) (*Trace, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("trace %s: %w", path, cause(err))
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.IsDir() {
		return nil, fmt.Errorf("trace %s: is a directory: want a file", path)
	}
	return Read(path, f, format)
}

// cause removes the path from an error of the operating system, since our message already names the file. Other errors
// are returned as they are.
func cause(err error) error {
	var of *fs.PathError
	if errors.As(err, &of) {
		return of.Err
	}
	return err
}

// Read is Open for a reader; name is used in errors.
func Read(name string, r io.Reader, format Format) (*Trace, error) {
	format, err := ParseFormat(string(format))
	if err != nil {
		return nil, place{name: name}.errorf("%w", err)
	}
	text, err := unpack(name, r)
	if err != nil {
		return nil, err
	}
	head, err := text.Peek(headSize)
	// A file shorter than headSize is no error.
	if err != nil && err != io.EOF {
		return nil, place{name: name}.stopped(err)
	}
	if why := unreadableReason(head); why != "" {
		return nil, place{name: name}.errorf("%s", why)
	}
	if format == "" {
		if format, err = recognise(name, head); err != nil {
			return nil, err
		}
	}
	t, err := readers[format](name, text)
	if err != nil {
		return nil, err
	}
	t.Name, t.Format = name, format
	if err := t.checkNotEmpty(); err != nil {
		return nil, err
	}
	return t, nil
}

// readers has the reader of each format.
var readers = map[Format]func(name string, r io.Reader) (*Trace, error){
	Recorded:  readRecorded,
	Philly:    readPhilly,
	Condensed: readCondensed,
	Openb:     readOpenb,
	Sacct:     readSacct,
}

// unpack removes one layer of gzip, and a byte order mark, so that readers get plain text. Errors of Peek are ignored:
// a file with fewer bytes has no mark, and an error of reading comes again at the next read.
func unpack(name string, r io.Reader) (*bufio.Reader, error) {
	text := bufio.NewReaderSize(r, headSize)
	if magic, _ := text.Peek(2); bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		unzipped, err := gzip.NewReader(text)
		if err == io.EOF {
			err = io.ErrUnexpectedEOF // stopped then says that the file ends in the middle
		}
		if err != nil {
			return nil, place{name: name}.stopped(err)
		}
		text = bufio.NewReaderSize(unzipped, headSize)
	}
	if mark, _ := text.Peek(3); string(mark) == "\ufeff" {
		text.Discard(3)
	}
	return text, nil
}

// checkNotEmpty returns an error for a trace without jobs, since its statistics would be NaN. It says why jobs were
// left out, which in an sacct log is often that Slurm did not track GPUs.
func (t *Trace) checkNotEmpty() error {
	if len(t.Jobs)+len(t.Entries) > 0 {
		return nil
	}
	var reasons []string
	for _, d := range t.Dropped {
		reasons = append(reasons, fmt.Sprintf("%d: %s", d.Count, d.Why))
	}
	if len(reasons) == 0 {
		return place{name: t.Name}.errorf("has no job: want at least one")
	}
	want := "at least one"
	if t.Format == Sacct {
		want = "one with gres/gpu in AllocTRES or ReqTRES, which Slurm keeps with AccountingStorageTRES=gres/gpu"
	}
	return place{name: t.Name}.errorf("has no job that could be simulated (%s): want %s", strings.Join(reasons, "; "),
		want)
}
