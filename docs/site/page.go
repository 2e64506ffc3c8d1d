// Package site is the documentation as data and as plain pages of HTML: what a file of Markdown has of headings, links
// and blocks of code, where its links lead, and the pages that need no script. It knows nothing of what is documented,
// and no program that is installed imports it.
package site

import (
	"bytes"
	"strconv"
	"strings"
	"unicode"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/text"
)

// Page is one file of Markdown.
type Page struct {
	Path     string // from the repository's root, as docs/users.md
	Headings []Heading
	Links    []Link
	Blocks   []Block
	Spans    []Span

	source []byte
	tree   ast.Node
}

// Heading is one, and the anchor that leads to it: the same that GitHub makes.
type Heading struct {
	Level  int // 1 to 6
	Text   string
	Anchor string
	Line   int // of the file, from 1
}

// Link is one, with what it shows.
type Link struct {
	To    string // as it is written
	Text  string
	Image bool
	Under string // the text of the last heading of level 2 before it

	place *[]byte // where the tree has its destination
}

// Block is a block of code.
type Block struct {
	Language string // as bash; empty where it is indented, or a fence says none
	Lines    []string
	Line     int // of the file, that Lines begins with
}

// Span is code within a sentence, on one line.
type Span struct {
	Text string
	Line int
}

// Parse reads a file of Markdown. Whatever it holds is a page.
func Parse(path string, source []byte) *Page {
	p := &Page{Path: path, source: source}
	p.tree = markdown.Parser().Parse(text.NewReader(source))
	seen, under := map[string]int{}, ""
	_ = ast.Walk(p.tree, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *ast.Heading:
			p.heading(n, seen)
			if n.Level == 2 {
				under = p.text(n)
			}
		case *ast.Link:
			p.Links = append(p.Links, Link{To: string(n.Destination), Text: p.text(n), Under: under,
				place: &n.Destination})
		case *ast.Image:
			p.Links = append(p.Links, Link{To: string(n.Destination), Text: p.text(n), Image: true, Under: under,
				place: &n.Destination})
		case *ast.CodeBlock:
			p.block("", n.Lines())
		case *ast.FencedCodeBlock:
			p.block(string(n.Language(source)), n.Lines())
		case *ast.CodeSpan:
			p.Spans = append(p.Spans, Span{Text: p.text(n), Line: p.lineOf(n)})
		}
		return ast.WalkContinue, nil
	})
	return p
}

var markdown = goldmark.New(goldmark.WithExtensions(extension.Table, extension.Strikethrough))

// Title is the text of the first heading.
func (p *Page) Title() string {
	if len(p.Headings) == 0 {
		return p.Path
	}
	return p.Headings[0].Text
}

func (p *Page) heading(n *ast.Heading, seen map[string]int) {
	h := Heading{Level: n.Level, Text: p.text(n), Line: p.lineOf(n)}
	h.Anchor = numbered(anchor(h.Text), seen)
	n.SetAttributeString("id", []byte(h.Anchor))
	p.Headings = append(p.Headings, h)
}

func (p *Page) block(language string, lines *text.Segments) {
	b := Block{Language: language}
	for i := range lines.Len() {
		segment := lines.At(i)
		if i == 0 {
			b.Line = p.line(segment.Start)
		}
		b.Lines = append(b.Lines, strings.TrimRight(string(segment.Value(p.source)), "\n"))
	}
	p.Blocks = append(p.Blocks, b)
}

// anchor is what GitHub makes of a heading: small letters, digits, _ and -, with - for each space.
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

// numbered tells apart headings that read alike.
func numbered(name string, seen map[string]int) string {
	count := seen[name]
	seen[name]++
	if count == 0 {
		return name
	}
	return name + "-" + strconv.Itoa(count)
}

// text is what a reader sees of a node, on one line.
func (p *Page) text(n ast.Node) string {
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

// lineOf is the line in which the first text of a node stands.
func (p *Page) lineOf(n ast.Node) int {
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

func (p *Page) line(offset int) int { return 1 + bytes.Count(p.source[:offset], []byte("\n")) }
