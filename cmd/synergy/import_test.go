package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf16"
)

// What a person may have in a file instead of, or beside, what sacct printed.
func TestWhatIsOddAboutAListingOfSacctIsReadOrRefusedInASentenceAndNeverPassedOver(t *testing.T) {
	const header = "JobID|User|JobName|Partition|State|Submit|Start|End|ElapsedRaw|TimelimitRaw|AllocTRES|ReqTRES\n"
	const job = "1|ann|vision|gpu|COMPLETED|2026-03-01T08:00:00|2026-03-01T08:05:00|2026-03-01T10:05:00|7200|180|" +
		"cpu=8,gres/gpu=2|\n"
	good := header + job
	with := func(old, put string) string { return strings.ReplaceAll(good, old, put) }
	wide := make([]byte, 0, 4*len(good))
	for _, unit := range utf16.Encode([]rune("\ufeff" + good)) {
		wide = append(wide, byte(unit), byte(unit>>8))
	}
	for _, c := range []struct{ name, text, want string }{
		{"as it is", good, "1  jobs in the trace"},
		{"of another system", with("\n", "\r\n"), "1  jobs in the trace"},
		{"with a mark", "\ufeff" + good, "1  jobs in the trace"},
		{"in another alphabet", with("vision", "caf\xe9"), "1  jobs in the trace"},
		{"twice, with the header", good + good, "1  jobs in the trace"},
		{"ends in the middle", good + job[:60], "1  refused: more or fewer fields than the header"},
		{"--parsable", with("\n", "|\n"), "1  jobs in the trace"},
		{"nothing", "", "is empty: want at least one job"},
		{"blank lines", "\n\n\n", "is empty: want at least one job"},
		{"the header alone", header, "has no job: want at least one"},
		{"no header", job, "is a record: want the header before it"},
		{"few columns", "JobID|User\n1|ann\n", "no column Submit among JobID|User: want it in the header"},
		{"a column twice", with("User", "JobID"), "column jobid stands there twice: want it once"},
		{"commas", with("|", ","), "has no | between its columns: want what sacct prints with --parsable2"},
		{"semicolons", with("|", ";"), "has no | between its columns"},
		{"tabs", with("|", "\t"), "has no | between its columns"},
		{"for people", "JobID    User   State\n------- ----- ------\n1 ann COMPLETED\n",
			"has no | between its columns"},
		{"an error of sacct's", "sacct: error: no such cluster\n", "no column JobID among"},
		{"no GPU", with(",gres/gpu=2", ""), "has no job that could be simulated (1: no GPU)"},
		{"a time in words", with("2026-03-01T08:00:00", "yesterday"), "Submit = yesterday: want a time"},
		{"noise", "\x7fELF\x00\x01\x02" + good, "is no text: want one of the formats"},
		{"zeros", strings.Repeat("\x00", 1<<16), "is no text: want one of the formats"},
		{"UTF-16", string(wide), "is no text: want one of the formats"},
		{"a line without an end", good + "2|" + strings.Repeat("x", 2<<20), "line 3: is longer than 1048576 bytes"},
	} {
		path := filepath.Join(t.TempDir(), "sacct.txt")
		if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		out, said, code := ran("import", "sacct", path)
		refused := code == exitUsage && out == "" && strings.Count(said, "\n") == 1 &&
			strings.HasPrefix(said, "synergy: trace "+path+": ")
		if read := code == exitGood && said == ""; !read && !refused || !strings.Contains(out+said, c.want) {
			t.Errorf("%s: ends with %d, %q and %q, want %q", c.name, code, out, said, c.want)
		}
	}
}
