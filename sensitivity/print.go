package sensitivity

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
)

// Print writes p as Parse reads it, laid out for people: one field a line, and the matrix one row a line; in the first
// version of the format that has all of its fields. It fails on what is no number in JSON, which no valid Profile
// contains.
func (p *Profile) Print() ([]byte, error) {
	versioned := *p
	versioned.Version = Version
	if p.GPUBusy > 0 || p.GPUMemory > 0 {
		versioned.Version = VersionGPU
	}
	document, err := json.MarshalIndent(&versioned, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("print profile of %s: %w", p.Model, err)
	}
	return append(numbersOverLines.ReplaceAllFunc(document, onOneLine), '\n'), nil
}

// numbersOverLines matches a list of numbers as MarshalIndent breaks it, one a line. Text cannot match: a line break in
// it is written as \n.
var numbersOverLines = regexp.MustCompile(`\[\n[-+.eE0-9,\s]*\]`)

func onOneLine(list []byte) []byte {
	items := strings.Fields(strings.Trim(string(list), "[]"))
	return []byte("[" + strings.Join(items, " ") + "]")
}
