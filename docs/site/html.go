package site

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
)

//go:embed style.css
var style []byte

//go:embed page.html
var frame string

var pages = template.Must(template.New("page").Parse(frame))

// view is the data of the page template.
type view struct {
	Title    string
	Sections []Section // To is a page's file name in the site
	Here     string
	Contents []Heading
	Body     template.HTML // rendered from the repository's Markdown; goldmark's default drops raw HTML
}

// Write writes all pages into a folder, which it creates if necessary. Files of an older site that are no longer pages
// remain there.
func (s *Site) Write(folder string) error {
	if err := s.Check(); err != nil {
		return err
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	files, err := s.render()
	if err != nil {
		return err
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(folder, name), content, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// render returns every file of the site by its name: the style sheet, the pages, and the repository files that they
// link to.
func (s *Site) render() (map[string][]byte, error) {
	files := map[string][]byte{"style.css": style}
	shown := map[string]bool{}
	for _, p := range s.Pages {
		content, err := s.html(p, shown)
		if err != nil {
			return nil, fmt.Errorf("render %s: %w", p.Path, err)
		}
		files[fileOf(p.Path)] = content
	}
	for len(shown) > 0 {
		for name := range shown {
			delete(shown, name)
			if files[fileOf(name)] != nil {
				continue
			}
			content, err := s.exhibit(name, shown)
			if err != nil {
				return nil, fmt.Errorf("show %s: %w", name, err)
			}
			files[fileOf(name)] = content
		}
	}
	return files, nil
}

// fileOf returns the HTML file of a repository file: users.html for docs/users.md, etc-examples-train.sh.html for
// etc/examples/train.sh.
func fileOf(name string) string {
	if bare, is := strings.CutSuffix(name, ".md"); is {
		return strings.ToLower(strings.TrimPrefix(bare, "docs/")) + ".html"
	}
	return strings.ReplaceAll(name, "/", "-") + ".html"
}

// html renders a page. Repository files that the page links to and that are no pages are added to shown.
func (s *Site) html(p *Page, shown map[string]bool) ([]byte, error) {
	fresh := Parse(p.Path, p.source) // parsed anew, since the link destinations of its tree are replaced below
	for _, link := range fresh.Links {
		where, err := s.resolve(fresh, link.To)
		if err != nil {
			return nil, err
		}
		if where.file != "" {
			shown[where.file] = true
		}
		if href := where.href(); href != "" {
			*link.place = []byte(href)
		}
	}
	var body bytes.Buffer
	if err := markdown.Renderer().Render(&body, fresh.source, fresh.tree); err != nil {
		return nil, err
	}
	// Wide tables and code blocks scroll on their own; the tabindex lets keys scroll them.
	wide := strings.NewReplacer("<table>", `<div class="wide" role="region" aria-label="Table" tabindex="0"><table>`,
		"</table>", "</table></div>", "<pre>", `<pre tabindex="0">`)
	v := view{Title: p.Title(), Here: fileOf(p.Path), Body: template.HTML(wide.Replace(body.String()))}
	for _, h := range p.Headings {
		if h.Level == 2 {
			v.Contents = append(v.Contents, h)
		}
	}
	return s.framed(v)
}

// href is the link's destination in the site; empty for a link elsewhere, which stays as written.
func (t target) href() string {
	switch {
	case t.page != nil && t.anchor != "":
		return fileOf(t.page.Path) + "#" + t.anchor
	case t.page != nil:
		return fileOf(t.page.Path)
	case t.file != "":
		return fileOf(t.file)
	}
	return ""
}

// exhibit renders a repository file as it is, or the list of files in a folder. Files of a folder are added to shown.
func (s *Site) exhibit(name string, shown map[string]bool) ([]byte, error) {
	entries, err := fs.ReadDir(s.root, name)
	if err != nil {
		text, err := fs.ReadFile(s.root, name)
		if err != nil {
			return nil, err
		}
		return s.framed(view{Title: name, Body: markup(exhibits, "file", string(text))})
	}
	var files []Link
	for _, entry := range entries {
		if entry.Type().IsRegular() {
			file := path.Join(name, entry.Name())
			shown[file] = true
			files = append(files, Link{To: fileOf(file), Text: entry.Name()})
		}
	}
	return s.framed(view{Title: name, Body: markup(exhibits, "folder", files)})
}

var exhibits = template.Must(template.New("").Parse(
	`{{define "file"}}<pre tabindex="0"><code>{{.}}</code></pre>{{end}}` +
		`{{define "folder"}}<ul>{{range .}}<li><a href="{{.To}}">{{.Text}}</a></li>{{end}}</ul>{{end}}`))

// markup executes a named template, whose result is safe HTML.
func markup(t *template.Template, name string, of any) template.HTML {
	var b bytes.Buffer
	if err := t.ExecuteTemplate(&b, name, of); err != nil {
		panic(err) // cannot happen: a constant template over strings
	}
	return template.HTML(b.String())
}

// framed puts a view into the page template, with the navigation of all pages.
func (s *Site) framed(v view) ([]byte, error) {
	v.Sections = s.Sections()
	for _, section := range v.Sections {
		for i := range section.Links {
			section.Links[i].To = fileOf(section.Links[i].To)
		}
	}
	var out bytes.Buffer
	err := pages.Execute(&out, v)
	return out.Bytes(), err
}
