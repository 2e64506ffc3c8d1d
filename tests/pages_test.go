package tests

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/text"
)

// page is one Markdown file.
type page struct {
	Path     string // from the repository's root, such as docs/users.md
	Headings []heading
	Links    []link
	Blocks   []codeBlock
	Spans    []codeSpan

	source []byte
}

// heading is a heading and the anchor that leads to it, made as GitHub makes it.
type heading struct {
	Level  int // 1 to 6
	Text   string
	Anchor string
	Line   int // in the file, from 1
}

// link is a link with its text.
type link struct {
	To    string // the destination as written
	Text  string
	Under string // the text of the last heading of level 2 before it
}

// codeBlock is a block of code.
type codeBlock struct {
	Language string // such as bash; empty for an indented block and a fence without a language
	Lines    []string
	Line     int // number of the first of Lines in the file
}

// codeSpan is inline code on one line.
type codeSpan struct {
	Text string
	Line int
}

// parsePage reads a Markdown file. Any input is a valid page.
func parsePage(path string, source []byte) *page {
	p := &page{Path: path, source: source}
	seen, under := map[string]int{}, ""
	tree := markdown.Parser().Parse(text.NewReader(source))
	_ = ast.Walk(tree, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *ast.Heading:
			text := p.text(n)
			p.Headings = append(p.Headings, heading{Level: n.Level, Text: text, Anchor: numbered(anchor(text), seen),
				Line: p.lineOf(n)})
			if n.Level == 2 {
				under = text
			}
		case *ast.Link:
			p.Links = append(p.Links, link{To: string(n.Destination), Text: p.text(n), Under: under})
		case *ast.Image:
			p.Links = append(p.Links, link{To: string(n.Destination), Text: p.text(n), Under: under})
		case *ast.CodeBlock:
			p.block("", n.Lines())
		case *ast.FencedCodeBlock:
			p.block(string(n.Language(source)), n.Lines())
		case *ast.CodeSpan:
			p.Spans = append(p.Spans, codeSpan{Text: p.text(n), Line: p.lineOf(n)})
		}
		return ast.WalkContinue, nil
	})
	return p
}

var markdown = goldmark.New(goldmark.WithExtensions(extension.Table, extension.Strikethrough))

func (p *page) block(language string, lines *text.Segments) {
	b := codeBlock{Language: language}
	for i := range lines.Len() {
		segment := lines.At(i)
		if i == 0 {
			b.Line = p.line(segment.Start)
		}
		b.Lines = append(b.Lines, strings.TrimRight(string(segment.Value(p.source)), "\n"))
	}
	p.Blocks = append(p.Blocks, b)
}

// anchor makes an anchor from a heading as GitHub does: lower-case letters, digits, _ and -, with - for each space.
func anchor(heading string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ' || r == '-':
			return '-'
		case unicode.IsLetter(r) || unicode.IsDigit(r) || r == '_':
			return unicode.ToLower(r)
		}
		return -1
	}, strings.TrimSpace(heading))
}

// numbered adds a counter to an anchor that the page already has.
func numbered(name string, seen map[string]int) string {
	count := seen[name]
	seen[name]++
	if count == 0 {
		return name
	}
	return name + "-" + strconv.Itoa(count)
}

// text returns the visible text of a node, on one line.
func (p *page) text(n ast.Node) string {
	var b strings.Builder
	_ = ast.Walk(n, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if leaf, is := n.(*ast.Text); is && entering {
			b.Write(bytes.ReplaceAll(leaf.Value(p.source), []byte("\n"), []byte(" ")))
			if leaf.SoftLineBreak() {
				b.WriteByte(' ')
			}
		}
		return ast.WalkContinue, nil
	})
	return b.String()
}

// lineOf returns the line of a node's first text.
func (p *page) lineOf(n ast.Node) int {
	line := 0
	_ = ast.Walk(n, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if leaf, is := n.(*ast.Text); is && entering {
			line = p.line(leaf.Segment.Start)
			return ast.WalkStop, nil
		}
		return ast.WalkContinue, nil
	})
	return line
}

func (p *page) line(offset int) int { return 1 + bytes.Count(p.source[:offset], []byte("\n")) }

// check requires one title, at the beginning, and headings whose level never rises by more than one.
func (p *page) check() error {
	level := 0
	for i, h := range p.Headings {
		if h.Level > level+1 || h.Level == 1 && i > 0 {
			return fmt.Errorf("%s:%d: heading %q is of level %d behind one of level %d", p.Path, h.Line, h.Text,
				h.Level, level)
		}
		level = h.Level
	}
	if level == 0 {
		return fmt.Errorf("%s: has no heading", p.Path)
	}
	return nil
}

// entrance is the page that lists all others by reader.
const entrance = "docs/index.md"

// besides are the pages outside docs/.
var besides = []string{"README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "contrib/deft/README.md"}

// documentation is the set of all pages.
type documentation struct {
	Pages []*page

	root fs.FS
}

// ours is the documentation of this repository.
func ours(t testing.TB) documentation {
	t.Helper()
	d, err := readPages(os.DirFS(".."))
	if err != nil {
		t.Fatal(err)
	}
	if len(d.Pages) < 20 {
		t.Fatalf("%d pages: the documentation was not found", len(d.Pages))
	}
	return d
}

// readPages reads all pages of a repository.
func readPages(root fs.FS) (documentation, error) {
	paths, err := fs.Glob(root, "docs/*.md")
	if err != nil {
		return documentation{}, err
	}
	d := documentation{root: root}
	for _, name := range append(slices.Clone(besides), paths...) {
		source, err := fs.ReadFile(root, name)
		if err != nil {
			return documentation{}, err
		}
		d.Pages = append(d.Pages, parsePage(name, source))
	}
	return d, nil
}

// page returns the page of a file, or nil.
func (d documentation) page(name string) *page {
	for _, p := range d.Pages {
		if p.Path == name {
			return p
		}
	}
	return nil
}

// check reports every fault of headings and links.
func (d documentation) check() error {
	var wrong []error
	for _, p := range d.Pages {
		wrong = append(wrong, p.check())
		for _, l := range p.Links {
			if _, err := d.resolve(p, l.To); err != nil {
				wrong = append(wrong, fmt.Errorf("%s: link %q: %w", p.Path, l.To, err))
			}
			if strings.TrimSpace(l.Text) == "" {
				wrong = append(wrong, fmt.Errorf("%s: link %q shows no word", p.Path, l.To))
			}
		}
	}
	return errors.Join(wrong...)
}

// resolve finds the page that a link of a page leads to; nil for a file that is no page, and for a link out of the
// repository, which is not checked. A link must be https, mailto, or a path relative to the page.
func (d documentation) resolve(from *page, to string) (*page, error) {
	parsed, err := url.Parse(to)
	switch {
	case err != nil:
		return nil, err
	case parsed.Scheme == "https" || parsed.Scheme == "mailto":
		return nil, nil
	case parsed.Scheme != "" || parsed.Host != "" || path.IsAbs(parsed.Path):
		return nil, errors.New("want https://…, or a path from this file")
	case parsed.Path == "":
		return from, from.has(parsed.Fragment)
	}
	name := path.Join(path.Dir(from.Path), parsed.Path)
	if p := d.page(name); p != nil {
		return p, p.has(parsed.Fragment)
	}
	if _, err := fs.Stat(d.root, name); err != nil {
		return nil, err
	}
	if strings.HasSuffix(name, ".md") {
		return nil, fmt.Errorf("%s is no page of the documentation", name)
	}
	return nil, nil
}

// has requires a heading with this anchor; none is the page itself.
func (p *page) has(anchor string) error {
	if anchor != "" && !slices.ContainsFunc(p.Headings, func(h heading) bool { return h.Anchor == anchor }) {
		return fmt.Errorf("%s has no heading #%s", p.Path, anchor)
	}
	return nil
}
