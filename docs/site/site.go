package site

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"path"
	"slices"
	"strings"
)

// Entrance is the page that lists all others by reader. Its headings of level 2 and the links below them are the
// navigation that every page shows.
const Entrance = "docs/index.md"

// besides are the pages outside docs/.
var besides = []string{"README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"}

// Site is the set of all pages.
type Site struct {
	Pages []*Page // the entrance first

	root fs.FS
}

// Read reads all pages of a repository.
func Read(root fs.FS) (*Site, error) {
	paths, err := fs.Glob(root, "docs/*.md")
	if err != nil {
		return nil, err
	}
	if !slices.Contains(paths, Entrance) {
		return nil, fmt.Errorf("read the documentation: there is no %s", Entrance)
	}
	s := &Site{root: root}
	for _, name := range append(slices.Clone(besides), paths...) {
		source, err := fs.ReadFile(root, name)
		if err != nil {
			return nil, err
		}
		s.Pages = append(s.Pages, Parse(name, source))
	}
	slices.SortStableFunc(s.Pages, func(a, b *Page) int { return rank(a) - rank(b) })
	return s, nil
}

// rank sorts the entrance before all other pages.
func rank(p *Page) int {
	if p.Path == Entrance {
		return 0
	}
	return 1
}

// Page returns the page of a file, or nil.
func (s *Site) Page(name string) *Page {
	for _, p := range s.Pages {
		if p.Path == name {
			return p
		}
	}
	return nil
}

// Section is a part of the navigation: a group of readers and the pages for them.
type Section struct {
	Title string
	Links []Link
}

// Sections returns the navigation in the order of the entrance. Links out of the site and to anchors are left out.
func (s *Site) Sections() []Section {
	var all []Section
	for _, link := range s.Pages[0].Links {
		target, err := s.resolve(s.Pages[0], link.To)
		if err != nil || target.page == nil || target.anchor != "" || link.Under == "" {
			continue
		}
		if len(all) == 0 || all[len(all)-1].Title != link.Under {
			all = append(all, Section{Title: link.Under})
		}
		last := &all[len(all)-1]
		last.Links = append(last.Links, Link{To: target.page.Path, Text: link.Text})
	}
	return all
}

// Check reports every fault of headings and links.
func (s *Site) Check() error {
	var wrong []error
	for _, p := range s.Pages {
		wrong = append(wrong, p.check())
		for _, link := range p.Links {
			if _, err := s.resolve(p, link.To); err != nil {
				wrong = append(wrong, fmt.Errorf("%s: link %q: %w", p.Path, link.To, err))
			}
			if strings.TrimSpace(link.Text) == "" {
				wrong = append(wrong, fmt.Errorf("%s: link %q shows no word", p.Path, link.To))
			}
		}
	}
	return errors.Join(wrong...)
}

// check requires one title, at the beginning, and headings whose level never rises by more than one.
func (p *Page) check() error {
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

// target is what a link leads to. Without a page and a file it is outside the repository and is not checked.
type target struct {
	page   *Page
	file   string // from the root; for a file that is no page
	anchor string
}

// resolve finds the target of a link of a page. A link must be https, mailto, or a path relative to the page.
func (s *Site) resolve(from *Page, to string) (target, error) {
	parsed, err := url.Parse(to)
	switch {
	case err != nil:
		return target{}, err
	case parsed.Scheme == "https" || parsed.Scheme == "mailto":
		return target{}, nil
	case parsed.Scheme != "" || parsed.Host != "" || path.IsAbs(parsed.Path):
		return target{}, errors.New("want https://…, or a path from this file")
	case parsed.Path == "":
		return anchored(from, parsed.Fragment)
	}
	name := path.Join(path.Dir(from.Path), parsed.Path)
	if page := s.Page(name); page != nil {
		return anchored(page, parsed.Fragment)
	}
	if _, err := fs.Stat(s.root, name); err != nil {
		return target{}, err
	}
	if strings.HasSuffix(name, ".md") {
		return target{}, fmt.Errorf("%s is no page of the documentation", name)
	}
	return target{file: name}, nil
}

// anchored is a target on a page, whose heading must exist.
func anchored(page *Page, anchor string) (target, error) {
	if anchor == "" {
		return target{page: page}, nil
	}
	if !slices.ContainsFunc(page.Headings, func(h Heading) bool { return h.Anchor == anchor }) {
		return target{}, fmt.Errorf("%s has no heading #%s", page.Path, anchor)
	}
	return target{page: page, anchor: anchor}, nil
}
