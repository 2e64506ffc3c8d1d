package slurmrest

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
)

// maxToken bounds a token file; a JWT of slurmctld has 150 bytes.
const maxToken = 16 << 10

// tokenFile is a token that somebody else renews. Errors name the file and never what is in it.
type tokenFile struct {
	path string

	mu       sync.Mutex
	value    string
	modified time.Time
	size     int64
}

// read returns the token as it is now. The file is opened each time, so that a rename and a change of its mode are
// seen, but read only when it changed.
func (t *tokenFile) read() (string, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	// mode and time are then those of what is read, whatever is renamed to this path meanwhile
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

// last is the token as it was read last; empty before that.
func (t *tokenFile) last() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.value
}

// parseToken takes a bare token, or the line that scontrol token prints.
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

// notInToken is what no JWT has and what would end a header line, or begin another.
func notInToken(r rune) bool { return r <= ' ' || r > '~' }
