package gres

import (
	"fmt"
	"strconv"
	"strings"
)

// Count is one term of Slurm's GRES notation: a name, a type where one was given, how many, and, where Slurm tells, which.
type Count struct {
	Name  string // gpu, shard, …
	Type  string // a100, …; empty where the site has no types
	Count int
	Index string // IDX list as Slurm prints it ("0-1,3"); empty where not given
}

// ParseCounts reads Slurm's GRES notation in any of the forms that slurmctld prints or sbatch takes:
//
//	gpu:8   gpu:a100:4(S:0-1)   gres/gpu:2   gres/gpu=2   gres:gpu:1   gpu   gpu:g0:1(IDX:0),shard:0
//
// The empty string and (null) are no resources. Counts may carry the suffixes k and M. Errors name the term.
func ParseCounts(text string) ([]Count, error) {
	if text == "" || text == "(null)" || text == "N/A" {
		return nil, nil
	}
	var counts []Count
	for _, term := range splitTerms(text) {
		count, err := parseCount(term)
		if err != nil {
			return nil, fmt.Errorf("gres %q: %w", text, err)
		}
		counts = append(counts, count)
	}
	return counts, nil
}

// splitTerms cuts at the commas that are not inside parentheses: gpu:2(IDX:0,2) is one term.
func splitTerms(text string) []string {
	var terms []string
	depth, start := 0, 0
	for i, r := range text {
		switch r {
		case '(':
			depth++
		case ')':
			depth--
		case ',':
			if depth == 0 {
				terms = append(terms, text[start:i])
				start = i + 1
			}
		}
	}
	return append(terms, text[start:])
}

func parseCount(term string) (Count, error) {
	body, index, err := cutIndex(term)
	if err != nil {
		return Count{}, err
	}
	body = strings.TrimPrefix(strings.TrimPrefix(body, "gres/"), "gres:")
	parts := strings.Split(strings.Replace(body, "=", ":", 1), ":")
	count := Count{Name: parts[0], Count: 1, Index: index}
	if count.Name == "" || len(parts) > 3 {
		return Count{}, fmt.Errorf("term %q: want name[:type][:count]", term)
	}
	last := parts[len(parts)-1]
	if len(parts) > 1 {
		if count.Count, err = parseAmount(last); err != nil && len(parts) == 3 {
			return Count{}, fmt.Errorf("term %q: count %q: want a whole number", term, last)
		}
	}
	switch {
	case len(parts) == 3:
		count.Type = parts[1]
	case len(parts) == 2 && err != nil:
		count.Type, count.Count = last, 1
	}
	return count, nil
}

// cutIndex takes the parenthesis off a term and returns the IDX list in it; a socket list (S:0-1) says nothing about which
// devices are in use and is dropped.
func cutIndex(term string) (body, index string, err error) {
	body, rest, found := strings.Cut(strings.TrimSpace(term), "(")
	if !found {
		return body, "", nil
	}
	inside, tail, closed := strings.Cut(rest, ")")
	if !closed || tail != "" {
		return "", "", fmt.Errorf("term %q: parenthesis not closed at the end", term)
	}
	if list, is := strings.CutPrefix(inside, "IDX:"); is && list != "N/A" {
		return body, list, nil
	}
	return body, "", nil
}

// maxCount bounds what one term may claim: no node has a million GPUs, and sums of sane counts cannot overflow.
const maxCount = 1 << 20

func parseAmount(text string) (int, error) {
	scale := 1
	switch {
	case strings.HasSuffix(text, "k"), strings.HasSuffix(text, "K"):
		text, scale = text[:len(text)-1], 1<<10
	case strings.HasSuffix(text, "M"):
		text, scale = text[:len(text)-1], 1<<20
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || n > maxCount/scale {
		return 0, fmt.Errorf("count %q: want a whole number from 0 to %d", text, maxCount)
	}
	return n * scale, nil
}

// GPUs sums the terms named gpu and tells their type: the common one, or empty where there is none or more than one.
func GPUs(counts []Count) (n int, gpuType string) {
	first := true
	for _, c := range counts {
		if c.Name != "gpu" || c.Count == 0 {
			continue
		}
		if first {
			gpuType, first = c.Type, false
		}
		if c.Type != gpuType {
			gpuType = ""
		}
		n += c.Count
	}
	return n, gpuType
}

// String prints c as sbatch --gres and slurmrestd's tres_per_node take it: gres/gpu:a100:2.
func (c Count) String() string {
	if c.Type == "" {
		return fmt.Sprintf("gres/%s:%d", c.Name, c.Count)
	}
	return fmt.Sprintf("gres/%s:%s:%d", c.Name, c.Type, c.Count)
}
