package share

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Offence is that a job would not give its turn back on a GPU that it shares, again and again. The broker of its node
// says so in the job's AdminComment, where its user cannot write, beside what others keep there; the daemon then seats
// it beside nobody any more. An administrator who takes the directive out has forgiven it.
type Offence struct {
	GPU int       `json:"gpu"` // index on its node
	At  time.Time `json:"at"`
}

const offenceName = "synergy-offence="

// offence is the directive, with seconds since 1970 behind the @.
var offence = regexp.MustCompile(`^` + offenceName + `([0-9]{1,4})@([0-9]{1,11})$`)

func (o Offence) String() string { return fmt.Sprintf("%s%d@%d", offenceName, o.GPU, o.At.Unix()) }

// ParseOffence reads the last offence of an AdminComment that can be read. What else stands there is others' business.
func ParseOffence(admin string) (found Offence, accused bool) {
	for word := range strings.FieldsSeq(admin) {
		match := offence.FindStringSubmatch(word)
		if match == nil {
			continue
		}
		gpu, _ := strconv.Atoi(match[1])
		at, _ := strconv.ParseInt(match[2], 10, 64)
		found, accused = Offence{GPU: gpu, At: time.Unix(at, 0).UTC()}, true
	}
	return found, accused
}

// AddedTo is an AdminComment with this offence in place of those before. All else stays byte for byte.
func (o Offence) AddedTo(admin string) string {
	var kept strings.Builder
	for rest := admin; rest != ""; {
		space := len(rest) - len(strings.TrimLeft(rest, " \t\n"))
		end := space + strings.IndexAny(rest[space:]+" ", " \t\n")
		if word := rest[space:end]; !strings.HasPrefix(word, offenceName) {
			kept.WriteString(rest[:end])
		}
		rest = rest[end:]
	}
	if kept.Len() == 0 {
		return o.String()
	}
	return kept.String() + " " + o.String()
}
