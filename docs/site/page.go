// Package site is the documentation as data and as plain HTML pages: the headings, links and code blocks of each
// Markdown file, the targets of its links, and pages that need no script. It does not depend on the subject of the
// documentation, and no installed program imports it.
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

// Page is one Markdown file.
type Page struct {
	Path     string // from the repository's root, such as docs/users.md
	Headings []Heading
	Links    []Link
	Blocks   []Block
	Spans    []Span

	source []byte
	tree   ast.Node
}

// Heading is a heading and the anchor that leads to it, made as GitHub makes it.
type Heading struct {
	Level  int // 1 to 6
	Text   string
	Anchor string
	Line   int // in the file, from 1
}

// Link is a link with its text.
type Link struct {
	To    string // the destination as written
	Text  string
	Image bool
	Under string // the text of the last heading of level 2 before it

	place *[]byte // the destination in the syntax tree, so that it can be replaced
}

// Block is a block of code.
type Block struct {
	Language string // such as bash; empty for an indented block and a fence without a language
	Lines    []string
	Line     int // number of the first of Lines in the file
}

// Span is inline code on one line.
type Span struct {
	Text string
	Line int
}

// Parse reads a Markdown file. Any input is a valid page.
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

// lineOf returns the line of a node's first text.
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
