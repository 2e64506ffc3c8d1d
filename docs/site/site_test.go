package site_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/synergy-slurmd/synergy-slurmd/docs/site"
)

// ours is the documentation of this repository.
func ours(t testing.TB) *site.Site {
	t.Helper()
	s, err := site.Read(os.DirFS("../.."))
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Pages) < 20 {
		t.Fatalf("%d pages: the documentation was not found", len(s.Pages))
	}
	return s
}

func TestEveryLinkOfTheDocumentationLeadsSomewhere(t *testing.T) {
	s := ours(t)
	if err := s.Check(); err != nil {
		t.Error(err)
	}
	links := 0
	for _, p := range s.Pages {
		links += len(p.Links)
	}
	if links < 150 {
		t.Errorf("%d links: the pages were not understood", links)
	}
}

func TestTheEntranceNamesEveryPageOnce(t *testing.T) {
	s := ours(t)
	var named []string
	for _, section := range s.Sections() {
		if len(section.Links) < 2 {
			t.Errorf("section %q has %d pages", section.Title, len(section.Links))
		}
		for _, link := range section.Links {
			named = append(named, link.To)
		}
	}
	for _, p := range s.Pages[1:] {
		if count := len(named); slices.Index(named, p.Path) < 0 {
			t.Errorf("%s is not among the %d pages that %s names", p.Path, count, site.Entrance)
		}
	}
	slices.Sort(named)
	if unique := slices.Compact(slices.Clone(named)); len(unique) != len(named) {
		t.Errorf("%s names a page twice: %v", site.Entrance, named)
	}
}

func TestTheReadmeNamesEveryPageOfTheDocumentation(t *testing.T) {
	s := ours(t)
	for _, p := range s.Pages[1:] {
		if strings.HasPrefix(p.Path, "docs/") &&
			!slices.ContainsFunc(s.Page("README.md").Links, func(l site.Link) bool { return l.To == p.Path }) {
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
		s := small(t, c.page)
		if err := s.Check(); err == nil || !strings.Contains(err.Error(), c.said) {
			t.Errorf("%s: %v, want %q", name, err, c.said)
		}
		folder := filepath.Join(t.TempDir(), "site")
		if err := s.Write(folder); err == nil {
			t.Errorf("%s: was written all the same", name)
		}
		if _, err := os.Stat(folder); err == nil {
			t.Errorf("%s: left a folder behind", name)
		}
	}
	good := "# A\n## B c\n[x](#b-c), [y](b.md#b), [z](../etc/x.sh), [w](https://a.example)"
	if err := small(t, good).Check(); err != nil {
		t.Errorf("a page without a fault: %v", err)
	}
}

// small is a documentation whose entrance has this text.
func small(t *testing.T, entrance string) *site.Site {
	t.Helper()
	files := fstest.MapFS{"etc/x.md": {Data: []byte("# X")}, "etc/x.sh": {Data: []byte("echo '<b>'")}}
	for _, name := range []string{"README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs/b.md"} {
		files[name] = &fstest.MapFile{Data: []byte("# B")}
	}
	files[site.Entrance] = &fstest.MapFile{Data: []byte(entrance)}
	s, err := site.Read(files)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestAnAnchorIsWhatGitHubMakesOfAHeading(t *testing.T) {
	p := site.Parse("x.md", []byte("# Stock Lightning, and `submit_it`\n## Why?\n## Why!\n## Why?\n"+
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
	p := site.Parse("x.md", []byte("# A\n\n    one\n    two\n\n1. b\n\n       three\n\n"+
		"```bash\nfour\n```\nsee `five`\n"))
	want := []site.Block{{"", []string{"one", "two"}, 3}, {"", []string{"three"}, 8}, {"bash", []string{"four"}, 11}}
	if !slices.EqualFunc(p.Blocks, want, func(a, b site.Block) bool {
		return a.Language == b.Language && a.Line == b.Line && slices.Equal(a.Lines, b.Lines)
	}) {
		t.Errorf("%+v, want %+v", p.Blocks, want)
	}
	if len(p.Spans) != 1 || p.Spans[0] != (site.Span{Text: "five", Line: 13}) {
		t.Errorf("spans: %+v", p.Spans)
	}
}

// written is the site of this repository, by the names of its files.
func written(t *testing.T) map[string]string {
	t.Helper()
	folder := t.TempDir()
	if err := ours(t).Write(folder); err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	entries, err := os.ReadDir(folder)
	for _, entry := range entries {
		text, err := os.ReadFile(filepath.Join(folder, entry.Name()))
		if err != nil {
			t.Fatal(err)
		}
		files[entry.Name()] = string(text)
	}
	if err != nil || len(files) < 30 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	return files
}

var (
	hrefs   = regexp.MustCompile(`(?:href|src)="([^"]*)"`)
	scripts = regexp.MustCompile(`(?i)<script|<iframe|<object|<form|\son[a-z]+=|style="`)
)

// TestEveryPageOfTheSiteStandsByItself: each link of the HTML leads to a file and an anchor of the site, and no page
// has a script or takes anything from elsewhere.
func TestEveryPageOfTheSiteStandsByItself(t *testing.T) {
	files := written(t)
	for name, text := range files {
		if !strings.HasSuffix(name, ".html") {
			continue
		}
		code := regexp.MustCompile(`(?s)<code.*?</code>`)
		if bad := scripts.FindString(code.ReplaceAllString(text, "")); bad != "" {
			t.Errorf("%s has %q", name, bad)
		}
		if strings.Count(text, "<h1") != 1 || !strings.Contains(text, "default-src 'none'") ||
			strings.Contains(text, "raw HTML omitted") {
			t.Errorf("%s: want one title, its policy, and no HTML of its own", name)
		}
		for _, m := range hrefs.FindAllStringSubmatch(text, -1) {
			file, anchor, _ := strings.Cut(m[1], "#")
			if strings.HasPrefix(file, "https://") {
				continue
			}
			if file == "" {
				file = name
			}
			if _, is := files[file]; !is {
				t.Errorf("%s leads to %q, which is no file of the site", name, m[1])
			}
			if anchor != "" && anchor != "content" && !strings.Contains(files[file], `id="`+unescaped(anchor)+`"`) {
				t.Errorf("%s leads to %q, and nothing there has that name", name, m[1])
			}
		}
	}
	if !strings.Contains(files["users.html"], `<a href="users.html" aria-current="page">`) {
		t.Error("users.html does not say in its navigation that it is that page")
	}
	if !strings.Contains(files["etc-examples-train.sh.html"], "#SBATCH") {
		t.Error("a script that a page links to is not shown")
	}
}

func unescaped(anchor string) string { return strings.ReplaceAll(anchor, "%C3%BC", "ü") }

func TestHTMLInMarkdownIsNotLetThrough(t *testing.T) {
	folder := t.TempDir()
	page := "# A\n<img src=x onerror=alert()>\n\n[x](../etc/x.sh)\n\n<div onclick=x>"
	if err := small(t, page).Write(folder); err != nil {
		t.Fatal(err)
	}
	text, _ := os.ReadFile(filepath.Join(folder, "index.html"))
	if strings.Contains(string(text), "onerror") || strings.Contains(string(text), "onclick") {
		t.Errorf("%s", text)
	}
	if text, _ := os.ReadFile(filepath.Join(folder, "etc-x.sh.html")); !strings.Contains(string(text), "&lt;b&gt;") {
		t.Errorf("a script is not shown as it is: %s", text)
	}
}

func TestTheSameDocumentationGivesTheSamePages(t *testing.T) {
	a, b := written(t), written(t)
	for name := range a {
		if a[name] != b[name] {
			t.Errorf("%s differs", name)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, p := range ours(f).Pages {
		text, err := fs.ReadFile(os.DirFS("../.."), p.Path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text[:min(len(text), 2000)])
	}
	f.Add([]byte("#\n# \n    \n``` `\n[](<\n![`"))
	f.Fuzz(func(t *testing.T, source []byte) {
		lines := 1 + strings.Count(string(source), "\n")
		p := site.Parse("x.md", source)
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
	glossary, err := os.ReadFile("../glossary.md")
	if err != nil {
		t.Fatal(err)
	}
	var others strings.Builder
	for _, p := range ours(t).Pages {
		if p.Path != "docs/glossary.md" {
			text, err := os.ReadFile("../../" + p.Path)
			if err != nil {
				t.Fatal(err)
			}
			others.WriteString(strings.ToLower(strings.Join(strings.Fields(string(text)), " ")))
		}
	}
	sources, _ := filepath.Glob("../../bridge/*.go")
	planner, _ := filepath.Glob("../../policy/*.go")
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
