package cluster

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// maxFile bounds a cluster file, in bytes. A thousand groups fit.
const maxFile = 256 << 10

// Open reads a cluster from a file: the artifact's ini or our YAML, by the file's extension, or for any other
// extension, by its first line. The error names the file.
func Open(path string) (Cluster, error) {
	text, err := readFile(path)
	if err != nil {
		return Cluster{}, fmt.Errorf("cluster: %w", err)
	}
	c, err := readerFor(path, text)(text)
	if err != nil {
		return Cluster{}, fmt.Errorf("cluster %s: %w", path, err)
	}
	return c, nil
}

// readFile reads a file of at most maxFile bytes; one byte more shows that it is longer.
func readFile(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	if err == nil && len(text) > maxFile {
		err = fmt.Errorf("%s: longer than %d bytes: want the description of a cluster", path, maxFile)
	}
	return text, err
}

// readerFor returns the function that reads the file, by its extension or else by its first line: only an ini begins
// with a bracket.
func readerFor(path string, text []byte) func(text []byte) (Cluster, error) {
	switch strings.ToLower(filepath.Ext(path)) {
	case ".yaml", ".yml":
		return ReadYAML
	case ".ini":
		return ReadINI
	}
	if firstLine(text)[0] == '[' {
		return ReadINI
	}
	return ReadYAML
}

// firstLine returns the first line that is neither blank nor a comment. If there is none, it returns a line end, so
// that the caller can always look at the first byte.
func firstLine(text []byte) []byte {
	for line := range bytes.Lines(text) {
		if line = bytes.TrimSpace(line); len(line) > 0 && line[0] != '#' && line[0] != ';' {
			return line
		}
	}
	return []byte("\n")
}
