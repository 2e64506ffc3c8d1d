package policy

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The sources of the checker, and of the words that it and the planner have in common.
func isChecker(file string) bool { return file == "check.go" || strings.HasPrefix(file, "check_") }

const vocabulary = "cluster.go"

// A mistake that the planner and Check share is one that nobody finds.
func TestCheckSharesNothingWithThePlannerButTheVocabulary(t *testing.T) {
	checked, uses := 0, usesOf(t)
	for _, u := range uses {
		switch {
		case isChecker(u.in) && u.of == vocabulary && ast.IsExported(u.name):
			checked++
		case isChecker(u.in) && !isChecker(u.of):
			t.Errorf("%s:%d uses %s of %s: want a word that %s exports, or code of its own", u.in, u.line, u.name, u.of,
				vocabulary)
		case isChecker(u.of) && !isChecker(u.in):
			t.Errorf("%s:%d uses %s of %s, which is there to find its mistakes", u.in, u.line, u.name, u.of)
		}
	}
	if checked < 20 {
		t.Errorf("%d words of %s are used by Check: the sources were not understood", checked, vocabulary)
	}
}

// use is a name of the package that one file takes from another.
type use struct {
	name, in, of string
	line         int
}

// usesOf finds what the files of the package take from each other: functions, methods, types, fields, constants.
func usesOf(t *testing.T) []use {
	t.Helper()
	set := token.NewFileSet()
	info := types.Info{Uses: map[*ast.Ident]types.Object{}}
	config := types.Config{Importer: strangers{}, Error: func(error) {}} // other packages are not looked into
	files := sourcesHere(t, set)
	pkg, _ := config.Check("policy", set, files, &info)
	var uses []use
	for ident, object := range info.Uses {
		in, of := set.Position(ident.Pos()), set.Position(object.Pos())
		if object.Pkg() == pkg && in.Filename != of.Filename {
			uses = append(uses, use{object.Name(), in.Filename, of.Filename, in.Line})
		}
	}
	slices.SortFunc(uses, func(x, y use) int { return strings.Compare(x.in+x.name, y.in+y.name) })
	return uses
}

func sourcesHere(t *testing.T, set *token.FileSet) []*ast.File {
	t.Helper()
	names, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	var files []*ast.File
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(set, name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	return files
}

// strangers are packages of which nothing is known.
type strangers struct{}

func (strangers) Import(path string) (*types.Package, error) {
	p := types.NewPackage(path, path[strings.LastIndex(path, "/")+1:])
	p.MarkComplete()
	return p, nil
}
