package tests

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

func TestEveryLinkOfTheDocumentationLeadsSomewhere(t *testing.T) {
	d := ours(t)
	if err := d.check(); err != nil {
		t.Error(err)
	}
	links := 0
	for _, p := range d.Pages {
		links += len(p.Links)
	}
	if links < 150 {
		t.Errorf("%d links: the pages were not understood", links)
	}
}

func TestTheEntranceNamesEveryPageOnce(t *testing.T) {
	d := ours(t)
	var named []string
	sections := map[string]int{}
	for _, l := range d.page(entrance).Links {
		p, err := d.resolve(d.page(entrance), l.To)
		if err != nil || p == nil || strings.Contains(l.To, "#") || l.Under == "" {
			continue
		}
		named = append(named, p.Path)
		sections[l.Under]++
	}
	for title, count := range sections {
		if count < 2 {
			t.Errorf("section %q has %d pages", title, count)
		}
	}
	for _, p := range d.Pages {
		if p.Path != entrance && !slices.Contains(named, p.Path) {
			t.Errorf("%s is not among the %d pages that %s names", p.Path, len(named), entrance)
		}
	}
	slices.Sort(named)
	if unique := slices.Compact(slices.Clone(named)); len(unique) != len(named) {
		t.Errorf("%s names a page twice: %v", entrance, named)
	}
}

func TestTheReadmeNamesEveryPageOfTheDocumentation(t *testing.T) {
	d := ours(t)
	for _, p := range d.Pages {
		if p.Path != entrance && strings.HasPrefix(p.Path, "docs/") &&
			!slices.ContainsFunc(d.page("README.md").Links, func(l link) bool { return l.To == p.Path }) {
			t.Errorf("README.md does not name %s", p.Path)
		}
	}
}

// wrong are pages with one fault each, and what is said of it.
var wrong = map[string]struct{ page, said string }{
	"a page that is not there":    {"# A\n[x](y.md)", `link "y.md": `},
	"an anchor that is not there": {"# A\n[x](#b)", "docs/index.md has no heading #b"},
	"one of another page":         {"# A\n[x](b.md#c)", "docs/b.md has no heading #c"},
	"a file that is not there":    {"# A\n[x](../etc/no)", `link "../etc/no": `},
	"out of the repository":       {"# A\n[x](../../x)", `link "../../x": `},
	"a path of this host":         {"# A\n[x](/etc/passwd)", "want https"},
	"without encryption":          {"# A\n[x](http://a.example)", "want https"},
	"a script":                    {"# A\n[x](javascript:alert)", "want https"},
	"an image that is not there":  {"# A\n![x](a.png)", `link "a.png": `},
	"no word to click on":         {"# A\n[](b.md)", "shows no word"},
	"no heading":                  {"text", "has no heading"},
	"a level left out":            {"# A\n## B\n#### C", `heading "C" is of level 4 behind one of level 2`},
	"two titles":                  {"# A\n# B", `heading "B"`},
	"Markdown that is no page":    {"# A\n[x](../etc/x.md)", "is no page of the documentation"},
}

func TestAPageWithAFaultIsToldWhatItIs(t *testing.T) {
	for name, c := range wrong {
		d := small(t, c.page)
		if err := d.check(); err == nil || !strings.Contains(err.Error(), c.said) {
			t.Errorf("%s: %v, want %q", name, err, c.said)
		}
	}
	good := "# A\n## B c\n[x](#b-c), [y](b.md#b), [z](../etc/x.sh), [w](https://a.example)"
	if err := small(t, good).check(); err != nil {
		t.Errorf("a page without a fault: %v", err)
	}
}

// small is a documentation whose entrance has this text.
func small(t *testing.T, text string) documentation {
	t.Helper()
	files := fstest.MapFS{"etc/x.md": {Data: []byte("# X")}, "etc/x.sh": {Data: []byte("echo '<b>'")}}
	for _, name := range []string{"README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md",
		"contrib/deft/README.md", "docs/b.md"} {
		files[name] = &fstest.MapFile{Data: []byte("# B")}
	}
	files[entrance] = &fstest.MapFile{Data: []byte(text)}
	d, err := readPages(files)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestAnAnchorIsWhatGitHubMakesOfAHeading(t *testing.T) {
	p := parsePage("x.md", []byte("# Stock Lightning, and `submit_it`\n## Why?\n## Why!\n## Why?\n"+
		"## Über 2 – *drei*\n"))
	want := []string{"stock-lightning-and-submit_it", "why", "why-1", "why-2", "über-2--drei"}
	for i, h := range p.Headings {
		if h.Anchor != want[i] || h.Line != i+1 {
			t.Errorf("heading %q: #%s in line %d, want #%s in line %d", h.Text, h.Anchor, h.Line, want[i], i+1)
		}
	}
	if len(p.Headings) != len(want) {
		t.Errorf("%d headings, want %d", len(p.Headings), len(want))
	}
}

func TestABlockIsInTheLinesInWhichItStands(t *testing.T) {
	p := parsePage("x.md", []byte("# A\n\n    one\n    two\n\n1. b\n\n       three\n\n"+
		"```bash\nfour\n```\nsee `five`\n"))
	want := []codeBlock{{"", []string{"one", "two"}, 3}, {"", []string{"three"}, 8}, {"bash", []string{"four"}, 11}}
	if !slices.EqualFunc(p.Blocks, want, func(a, b codeBlock) bool {
		return a.Language == b.Language && a.Line == b.Line && slices.Equal(a.Lines, b.Lines)
	}) {
		t.Errorf("%+v, want %+v", p.Blocks, want)
	}
	if len(p.Spans) != 1 || p.Spans[0] != (codeSpan{Text: "five", Line: 13}) {
		t.Errorf("spans: %+v", p.Spans)
	}
}

func FuzzParsePage(f *testing.F) {
	for _, p := range ours(f).Pages {
		text, err := fs.ReadFile(os.DirFS(".."), p.Path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text[:min(len(text), 2000)])
	}
	f.Add([]byte("#\n# \n    \n``` `\n[](<\n![`"))
	f.Fuzz(func(t *testing.T, source []byte) {
		lines := 1 + strings.Count(string(source), "\n")
		p := parsePage("x.md", source)
		for _, b := range p.Blocks {
			if len(b.Lines) > 0 && (b.Line < 1 || b.Line+len(b.Lines)-1 > lines) {
				t.Errorf("a block of lines %d to %d of %d", b.Line, b.Line+len(b.Lines)-1, lines)
			}
		}
		for _, h := range p.Headings {
			if h.Level < 1 || h.Level > 6 || h.Line > lines {
				t.Errorf("%+v", h)
			}
		}
	})
}

// TestTheGlossaryIsInOrderAndOfWordsThatAreUsed: each of its words stands in another page, or in the sources of rounds.
func TestTheGlossaryIsInOrderAndOfWordsThatAreUsed(t *testing.T) {
	glossary, err := os.ReadFile("../docs/glossary.md")
	if err != nil {
		t.Fatal(err)
	}
	var others strings.Builder
	for _, p := range ours(t).Pages {
		if p.Path != "docs/glossary.md" {
			text, err := os.ReadFile("../" + p.Path)
			if err != nil {
				t.Fatal(err)
			}
			others.WriteString(strings.ToLower(strings.Join(strings.Fields(string(text)), " ")))
		}
	}
	sources, _ := filepath.Glob("../bridge/*.go")
	planner, _ := filepath.Glob("../policy/*.go")
	for _, source := range append(sources, planner...) {
		text, err := os.ReadFile(source)
		if err != nil {
			t.Fatal(err)
		}
		others.WriteString(strings.ToLower(string(text)))
	}
	last, words := "", regexp.MustCompile(`(?m)^\| ([a-z][a-z -]*?)(?: \(.*\))? \| \S`).FindAllStringSubmatch(
		string(glossary), -1)
	if len(words) < 40 || len(words) != strings.Count(string(glossary), "\n| ") {
		t.Errorf("%d words: the glossary was not understood", len(words))
	}
	for _, m := range words[1:] { // behind the heading of the table
		if m[1] <= last {
			t.Errorf("%q stands behind %q", m[1], last)
		}
		last = m[1]
		if !strings.Contains(others.String(), m[1]) &&
			!strings.Contains(others.String(), strings.ReplaceAll(m[1], " ", "")) {
			t.Errorf("%q stands in no other page", m[1])
		}
	}
}
