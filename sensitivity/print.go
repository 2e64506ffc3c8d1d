package sensitivity

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
)

// Print formats p as Parse reads it, laid out for people: one field per line, and one row of the matrix per line. It
// uses the first version of the format that has all of p's fields. It fails for numbers that JSON does not have, which
// no valid Profile contains.
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

// numbersOverLines matches a list of numbers as MarshalIndent writes it, one per line. It cannot match text, where a
// line break is written as \n.
var numbersOverLines = regexp.MustCompile(`\[\n[-+.eE0-9,\s]*\]`)

func onOneLine(list []byte) []byte {
	items := strings.Fields(strings.Trim(string(list), "[]"))
	return []byte("[" + strings.Join(items, " ") + "]")
}
