package share

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Offence records that a job repeatedly did not give the shared GPU back when told to yield. The broker of its node
// writes it as a directive into the job's AdminComment, which its user cannot write, beside what others keep there.
// From then on the daemon places the job beside no other. An administrator forgives it by removing the directive.
type Offence struct {
	GPU int       `json:"gpu"` // index on its node
	At  time.Time `json:"at"`
}

const offencePrefix = "synergy-offence="

// offencePattern matches the directive: the GPU's index, @, and seconds since 1970.
var offencePattern = regexp.MustCompile(`^` + offencePrefix + `([0-9]{1,4})@([0-9]{1,11})$`)

func (o Offence) String() string { return fmt.Sprintf("%s%d@%d", offencePrefix, o.GPU, o.At.Unix()) }

// ParseOffence returns the last readable offence in an AdminComment and ignores everything else there. accused is false
// if there is none: the job may share a GPU.
func ParseOffence(admin string) (found Offence, accused bool) {
	for word := range strings.FieldsSeq(admin) {
		match := offencePattern.FindStringSubmatch(word)
		if match == nil {
			continue
		}
		gpu, _ := strconv.Atoi(match[1])
		at, _ := strconv.ParseInt(match[2], 10, 64)
		found, accused = Offence{GPU: gpu, At: time.Unix(at, 0).UTC()}, true
	}
	return found, accused
}

// AddedTo returns the AdminComment with this offence in place of earlier ones. Everything else stays byte for byte,
// since others keep words there, too.
func (o Offence) AddedTo(admin string) string {
	var kept strings.Builder
	for rest := admin; rest != ""; {
		space := len(rest) - len(strings.TrimLeft(rest, " \t\n"))
		end := space + strings.IndexAny(rest[space:]+" ", " \t\n")
		if word := rest[space:end]; !strings.HasPrefix(word, offencePrefix) {
			kept.WriteString(rest[:end])
		}
		rest = rest[end:]
	}
	if kept.Len() == 0 {
		return o.String()
	}
	return kept.String() + " " + o.String()
}
