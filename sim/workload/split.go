package workload

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Split is the part of the jobs that each family gets. If several parts lag behind equally, the first one is served
// first.
type Split []Part

// Part is a family's part of the jobs. If no class has this family, it is the name of a single model.
type Part struct {
	Family  string
	Percent float64
}

// publishedFamilies are the families of a split with percentages only, as the paper writes it.
var publishedFamilies = [...]string{"image", "language", "speech"}

// ParseSplit parses a split: three percentages for image, language and speech, such as 20,70,10, or families and models
// by name, such as image=50,language=50 or res18=50,gnmt=50. The percentages must add up to 100 ± 1, because 33,33,33
// has been published.
func ParseSplit(text string) (Split, error) {
	split, err := readSplit(text)
	if err != nil {
		return nil, err
	}
	if err := split.check(); err != nil {
		return nil, err
	}
	return split, nil
}

// readSplit parses either form of a split.
func readSplit(text string) (Split, error) {
	if strings.Contains(text, "=") {
		return namedSplit(text)
	}
	percents := strings.Split(text, ",")
	if len(percents) != len(publishedFamilies) {
		return nil, wrong("split", text, "three percentages, of image, language and speech, or FAMILY=PERCENT,…")
	}
	var split Split
	for i, field := range percents {
		percent, ok := positive(field)
		if !ok {
			return nil, wrong("split", text, fmt.Sprintf("percentages from 0 to 100, where it has %q", field))
		}
		split = append(split, Part{publishedFamilies[i], percent})
	}
	return split, nil
}

// namedSplit parses a split of families or models by name.
func namedSplit(text string) (Split, error) {
	list, err := amounts("split", text)
	var split Split
	for _, a := range list {
		split = append(split, Part{a.name, a.number})
	}
	return split, err
}

// String returns the form that ParseSplit parses.
func (s Split) String() string {
	named, bare := make([]string, len(s)), make([]string, len(s))
	families := make([]string, len(s))
	for i, p := range s {
		families[i] = p.Family
		bare[i] = strconv.FormatFloat(p.Percent, 'f', -1, 64)
		named[i] = p.Family + "=" + bare[i]
	}
	if slices.Equal(families, publishedFamilies[:]) {
		return strings.Join(bare, ",")
	}
	return strings.Join(named, ",")
}

// check returns an error for the first invalid part, or if the percentages do not add up to about 100. An empty split
// is valid.
func (s Split) check() error {
	sum, seen := 0.0, make(map[string]bool, len(s))
	for _, p := range s {
		switch {
		case p.Family == "" || seen[p.Family]:
			return wrong("split", s.String(), "each family once, by its name")
		case !inRange(p.Percent, 0, 100):
			return wrong("split", s.String(), "percentages from 0 to 100")
		}
		sum += p.Percent
		seen[p.Family] = true
	}
	if len(s) > 0 && !inRange(sum, 99, 101) {
		return wrong("split", s.String(), fmt.Sprintf("percentages that add up to 100; these to %g", sum))
	}
	return nil
}

// part is a part of the jobs, and the indices of its classes.
type part struct {
	share   float64 // of 1
	classes []int
}

// parts returns the parts of the split over these classes, from which models are assigned. A part without any class is
// an error; an empty split is one part with all classes.
func (s Split) parts(classes []Class) ([]part, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	if len(s) == 0 {
		return []part{{1, classesWhere(classes, func(Class) bool { return true })}}, nil
	}
	parts := make([]part, len(s))
	for i, p := range s {
		members := classesWhere(classes, func(c Class) bool { return c.Family == p.Family })
		if len(members) == 0 {
			members = classesWhere(classes, func(c Class) bool { return c.Name == p.Family })
		}
		if len(members) == 0 {
			return nil, wrong(
				"split",
				s.String(),
				fmt.Sprintf("families and models of %s; %s is none", splitNames(classes),
					p.Family),
			)
		}
		parts[i] = part{p.Percent / 100, members}
	}
	return parts, nil
}

// classesWhere lists the indices of the classes for which has is true.
func classesWhere(classes []Class, has func(Class) bool) []int {
	var members []int
	for i, c := range classes {
		if has(c) {
			members = append(members, i)
		}
	}
	return members
}

// splitNames lists everything that a split can name: all families and models.
func splitNames(classes []Class) string {
	var families, names []string
	for _, c := range classes {
		if c.Family != "" && !slices.Contains(families, c.Family) {
			families = append(families, c.Family)
		}
		names = append(names, c.Name)
	}
	return strings.Join(append(families, names...), ", ")
}
