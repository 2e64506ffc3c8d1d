package trace

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
)

// Format is the file format of a trace.
type Format string

// The formats. All but the first are logs of sites, which contain how long a job ran, but not its model.
const (
	Recorded Format = "recorded" // CSV of the paper's artifact: job_id,model,arrival,iterations,gpus, with no header
	// Philly is cluster_job_log of msr-fiddle/philly-traces: a JSON list of jobs with their attempts.
	Philly Format = "philly"
	// Condensed is CSV with the header timestamp,duration,num_gpus,gpu_time,cluster, as in petuum/adaptdl for Philly.
	Condensed Format = "condensed"
	Openb     Format = "openb" // CSV list of pods of Alibaba's cluster-trace-gpu-v2023
	Sacct     Format = "sacct" // the output of Slurm's sacct --parsable2 or --parsable
)

// Formats lists all formats.
func Formats() []Format { return []Format{Recorded, Philly, Condensed, Openb, Sacct} }

// ParseFormat reads the name of a format. The empty text means that the format is to be recognised.
func ParseFormat(text string) (Format, error) {
	f := Format(strings.ToLower(text))
	if f == "" || slices.Contains(Formats(), f) {
		return f, nil
	}
	return "", fmt.Errorf("format = %s: want one of %s", legible(text), formatNames())
}

// formatNames lists the formats, for errors.
func formatNames() string {
	var names []string
	for _, f := range Formats() {
		names = append(names, string(f))
	}
	return strings.Join(names, ", ")
}

// packedFormats are the first bytes of files that must be unpacked before they can be read.
var packedFormats = []struct{ magic, kind string }{
	{"BZh", "is compressed with bzip2"},
	{"\xfd7zXZ\x00", "is compressed with xz"},
	{"\x28\xb5\x2f\xfd", "is compressed with zstd"},
	{"PK\x03\x04", "is a zip archive"},
}

// unreadableReason says what is wrong with a file that is not readable text, from its beginning. It is empty if the
// file may be read. A tar archive has its mark at byte 257. Text compressed with gzip has been unpacked before.
func unreadableReason(head []byte) string {
	for _, p := range packedFormats {
		if bytes.HasPrefix(head, []byte(p.magic)) {
			return p.kind + ": want a text, plain or compressed with gzip"
		}
	}
	if len(head) >= 262 && string(head[257:262]) == "ustar" {
		return "is a tar archive: want the one file in it that has the jobs, such as Philly's cluster_job_log"
	}
	if len(bytes.TrimSpace(head)) == 0 {
		return "is empty: want at least one job"
	}
	if bytes.IndexByte(head, 0) >= 0 {
		return "is no text: want one of the formats " + formatNames()
	}
	return ""
}

// recognise infers the format from the beginning of a file, when the user names none. The header decides; a recorded
// trace may have none, and then begins with the number of a job. Sacct comes last, because a | may also stand in the
// other formats.
func recognise(name string, head []byte) (Format, error) {
	line, number := firstLine(head)
	columns := map[string]bool{}
	for _, c := range strings.Split(line, ",") {
		columns[columnName(c)] = true
	}
	switch {
	case strings.HasPrefix(line, "["):
		return Philly, nil
	case columns["num_gpus"]:
		return Condensed, nil
	case columns["num_gpu"]:
		return Openb, nil
	case len(columns) > 1 && (columns["job_id"] || isWhole(strings.Split(line, ",")[0])):
		return Recorded, nil
	case strings.Contains(line, "|"):
		return Sacct, nil
	}
	return "", fmt.Errorf("trace %s: line %d: cannot tell the format from %s: want one of %s; say which if it is one",
		name, number, legible(line), formatNames())
}

// firstLine returns the first line that is neither blank nor a remark, and its number.
func firstLine(head []byte) (string, int) {
	number := 0
	for line := range bytes.Lines(head) {
		number++
		if text := strings.TrimSpace(string(line)); text != "" && !strings.HasPrefix(text, "#") {
			return text, number
		}
	}
	return "", number
}
