package slurmrest

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
)

// maxToken limits the size of a token file; a JWT of slurmctld has 150 bytes.
const maxToken = 16 << 10

// tokenFile is a token that is renewed from outside. Errors name the file, never its content.
type tokenFile struct {
	path string

	mu       sync.Mutex
	value    string
	modified time.Time
	size     int64
}

// read returns the present token. The file is opened each time, so that a new file in its place and a changed mode are
// noticed, but it is read only if its size or time has changed. A file that others may read is an error.
func (t *tokenFile) read() (string, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	// Mode and time are then those of the file that is read, even if another is renamed to this path meanwhile.
	file, err := os.Open(t.path)
	if err != nil {
		return "", fmt.Errorf("token: %w", err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return "", fmt.Errorf("token: %w", err)
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		return "", fmt.Errorf("token file %s: mode %04o lets others read it: want 0600", t.path, mode)
	}
	if t.value != "" && info.ModTime().Equal(t.modified) && info.Size() == t.size {
		return t.value, nil
	}
	text, err := io.ReadAll(io.LimitReader(file, maxToken))
	if err != nil {
		return "", fmt.Errorf("token: %w", err)
	}
	value, err := parseToken(string(text))
	if err != nil {
		return "", fmt.Errorf("token file %s: %w", t.path, err)
	}
	t.value, t.modified, t.size = value, info.ModTime(), info.Size()
	return t.value, nil
}

// last is the token as last read; empty before that.
func (t *tokenFile) last() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.value
}

// parseToken accepts a bare token or the output of scontrol token, and nothing that could end a header line.
func parseToken(text string) (string, error) {
	token := strings.TrimPrefix(strings.TrimSpace(text), "SLURM_JWT=")
	if token == "" {
		return "", fmt.Errorf("is empty")
	}
	if strings.ContainsFunc(token, notInToken) {
		return "", fmt.Errorf("want one token and nothing else")
	}
	return token, nil
}

// notInToken reports whether a character is in no JWT. Such characters could end a header line and start another.
func notInToken(r rune) bool { return r <= ' ' || r > '~' }
