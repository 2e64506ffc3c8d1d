package gres

import (
	"fmt"
	"strconv"
	"strings"
)

// Count is one term of Slurm's GRES notation: a name, an optional type, how many, and, if Slurm says so, which ones and
// where.
type Count struct {
	Name    string // gpu, shard, …
	Type    string // a100, …; empty if the site has no types
	Count   int
	Index   string // IDX list as Slurm prints it ("0-1,3"); empty if not given
	Sockets string // S list as Slurm prints it ("0-1"), the sockets whose cores may use them; empty if not given
}

// ParseCounts parses Slurm's GRES notation in any of the forms that slurmctld prints or sbatch accepts:
//
//	gpu:8   gpu:a100:4(S:0-1)   gres/gpu:2   gres/gpu=2   gres:gpu:1   gpu   gpu:g0:1(IDX:0),shard:0
//	gpu:(null):3(IDX:0-2)   bandwidth:lustre:no_consume:4G   shard:2(0/4,2/4)
//
// The empty string and (null) mean no resources. A last part of digits, or of digits and one of the suffixes k M G T,
// is a count; anything else is a type. Errors name the term.
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

// splitTerms splits at commas outside of parentheses: gpu:2(IDX:0,2) is one term.
func splitTerms(text string) []string {
	var terms []string
	depth, start := 0, 0
	for i, r := range text {
		switch {
		case r == '(':
			depth++
		case r == ')':
			depth--
		case r == ',' && depth == 0:
			terms = append(terms, text[start:i])
			start = i + 1
		}
	}
	return append(terms, text[start:])
}

// parseCount parses one term.
func parseCount(term string) (Count, error) {
	body, inside, err := cutInside(dropNoise(strings.TrimSpace(term)))
	if err != nil {
		return Count{}, fmt.Errorf("term %q: %w", term, err)
	}
	parts, err := nameParts(body)
	if err != nil {
		return Count{}, fmt.Errorf("term %q: %w", term, err)
	}
	count := Count{Name: parts[0], Count: 1, Index: listed(inside, "IDX:"), Sockets: listed(inside, "S:")}
	if rest := parts[1:]; len(rest) > 0 {
		if err := count.fill(rest); err != nil {
			return Count{}, fmt.Errorf("term %q: %w", term, err)
		}
	}
	return count, nil
}

// dropNoise removes what Slurm inserts and what has no effect here: (null) for "no type", and the mark of resources
// that jobs do not consume.
func dropNoise(term string) string {
	return strings.Replace(strings.Replace(term, ":(null)", "", 1), ":no_consume", "", 1)
}

// cutInside removes the parenthesis from a term and returns its content.
func cutInside(term string) (body, inside string, err error) {
	body, rest, found := strings.Cut(term, "(")
	if !found {
		return body, "", nil
	}
	inside, tail, closed := strings.Cut(rest, ")")
	if !closed || tail != "" {
		return "", "", fmt.Errorf("parenthesis not closed at the end")
	}
	return body, inside, nil
}

// listed returns the list after the prefix: IDX:0-2 lists devices, S:0-1 sockets. A list of shares, 0/4,2/4, has
// neither prefix and is dropped.
func listed(inside, prefix string) string {
	list, is := strings.CutPrefix(inside, prefix)
	if !is || list == "N/A" {
		return ""
	}
	return list
}

// nameParts splits name[:type][:count] after removing the word gres, and checks each part.
func nameParts(body string) ([]string, error) {
	if rest, found := strings.CutPrefix(body, "gres"); found && rest != "" && strings.Contains("/:", rest[:1]) {
		body = rest[1:]
	}
	parts := strings.Split(strings.Replace(body, "=", ":", 1), ":")
	if len(parts) > 3 {
		return nil, fmt.Errorf("want name[:type][:count]")
	}
	for _, part := range parts {
		if !isWord(part) {
			return nil, fmt.Errorf("part %q: want letters, digits and . _ - +", part)
		}
	}
	return parts, nil
}

// maxWord is the longest node name in DNS, and so in Slurm.
const maxWord = 253

// isWord reports whether text could be the name or type of a resource, or of a node.
func isWord(text string) bool {
	return text != "" && len(text) <= maxWord && strings.IndexFunc(text,
		func(r rune) bool { return !isWordRune(r) }) < 0
}

func isWordRune(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._-+", r)
}

// fill sets type and count from the one or two parts after the name. A single part is a count if it looks like one:
// Slurm, too, reads gpu:3090 as 3090 GPUs.
func (c *Count) fill(rest []string) (err error) {
	last := rest[len(rest)-1]
	switch {
	case len(rest) == 2:
		c.Type = rest[0]
		c.Count, err = parseAmount(last)
	case looksLikeAmount(last):
		c.Count, err = parseAmount(last)
	default:
		c.Type = last
	}
	return err
}

// maxCount bounds the count of a term: it allows resources counted in bytes, and sums of such counts cannot overflow.
const maxCount = 1 << 40

// suffixes are Slurm's multipliers, each 1024 times the one before.
const suffixes = "kmgt"

// cutAmount splits 4G into its digits and the exponent of 1024. Suffixes may have either case; |0x20 makes a letter
// lower case.
func cutAmount(text string) (digits string, exponent int) {
	if text == "" {
		return "", 0
	}
	last := len(text) - 1
	if k := strings.IndexByte(suffixes, text[last]|0x20); k >= 0 {
		return text[:last], k + 1
	}
	return text, 0
}

func looksLikeAmount(text string) bool {
	digits, _ := cutAmount(text)
	return digits != "" && strings.Trim(digits, "0123456789") == ""
}

// parseAmount parses a whole number with an optional suffix.
func parseAmount(text string) (int, error) {
	digits, exponent := cutAmount(text)
	scale := 1 << (10 * exponent)
	n, err := strconv.ParseUint(digits, 10, 62)
	if err != nil || n > uint64(maxCount/scale) {
		return 0, fmt.Errorf("count %q: want a whole number from 0 to %d", text, maxCount)
	}
	return int(n) * scale, nil
}

// Retyped returns a request with GPUs of another type, or of any type if that is empty: gres/gpu:2 for a100 becomes
// gres/gpu:a100:2.
func Retyped(text, gpuType string) (string, error) {
	if text == "" {
		return "", nil
	}
	terms := splitTerms(text)
	for i, term := range terms {
		count, err := parseCount(term)
		if err != nil {
			return "", fmt.Errorf("gres %q: %w", text, err)
		}
		if count.Name == "gpu" && count.Type != gpuType {
			count.Type = gpuType
			terms[i] = count.String()
		}
	}
	return strings.Join(terms, ","), nil
}

// GPUs returns the sum of the terms named gpu, and their common type; empty if there is none or more than one. A term
// of 0 GPUs says nothing about the type.
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

// String formats c as sbatch --gres and slurmrestd's tres_per_node accept it: gres/gpu:a100:2.
func (c Count) String() string {
	if c.Type == "" {
		return fmt.Sprintf("gres/%s:%d", c.Name, c.Count)
	}
	return fmt.Sprintf("gres/%s:%s:%d", c.Name, c.Type, c.Count)
}
