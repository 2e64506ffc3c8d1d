package tests

import (
	"go/scanner"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"
)

const columns = 120 // of a line; a tab is four

// wider is how many lines are longer all the same, as closures of one line in tables are: a figure that only ever goes
// down.
const wider = 95

// TestLinesHaveAtMost120Columns looks at all Go that is written by hand. Texts in backquotes are as long as they are.
func TestLinesHaveAtMost120Columns(t *testing.T) {
	files, err := filepath.Glob("../*/*.go")
	for _, deeper := range []string{"../*/*/*.go", "../*/*/*/*.go", "../*/*/*/*/*.go"} {
		more, _ := filepath.Glob(deeper)
		files = append(files, more...)
	}
	if err != nil || len(files) < 500 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	found := 0
	for _, file := range files {
		if strings.HasSuffix(file, ".pb.go") || strings.HasSuffix(file, ".gen.go") {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		raw := quoted(text)
		for n, line := range strings.Split(string(text), "\n") {
			if width := utf8.RuneCountInString(line) + 3*strings.Count(line, "\t"); width > columns && !raw[n+1] {
				if found++; found > wider {
					t.Errorf("%s:%d has %d columns", file, n+1, width)
				}
			}
		}
	}
	if found < wider {
		t.Errorf("%d lines are longer by now: lower the figure of %d", found, wider)
	}
}

// quoted are the lines that lie within a text in backquotes.
func quoted(text []byte) map[int]bool {
	files := token.NewFileSet()
	var s scanner.Scanner
	s.Init(files.AddFile("", -1, len(text)), text, nil, 0)
	lines := map[int]bool{}
	for {
		pos, tok, literal := s.Scan()
		if tok == token.EOF {
			return lines
		}
		if tok == token.STRING && literal[0] == '`' {
			first := files.Position(pos).Line
			for n := range strings.Count(literal, "\n") + 1 {
				lines[first+n] = true
			}
		}
	}
}
