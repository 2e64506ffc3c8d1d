package trace_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/synergy-slurmd/synergy-slurmd/sim/trace"
)

const (
	condensedHeader = "timestamp,duration,num_gpus,gpu_time,cluster\n"
	openbHeader     = "name,num_gpu,gpu_milli,pod_phase,creation_time,deletion_time,scheduled_time\n"
	sacctHeader     = "JobID|Submit|Start|End|Elapsed|AllocTRES\n"
)

// refused are files that cannot be read, and what is said of them behind "trace a: ".
var refused = []struct{ text, want string }{
	{"", "is empty: want at least one job"},
	{" \n\n", "is empty: want at least one job"},
	{"# nothing\n",
		`line 1: cannot tell the format from "": want one of recorded, philly, condensed, openb, sacct; say which if it is one`},
	{"# nothing\njobs, many\n",
		`line 2: cannot tell the format from "jobs, many": want one of recorded, philly, condensed, openb, sacct; say which if it is one`},
	{"\x00\x01", "is no text: want one of the formats recorded, philly, condensed, openb, sacct"},
	{"BZh91AY&SY", "is compressed with bzip2: want a text, plain or compressed with gzip"},
	{"\xfd7zXZ\x00", "is compressed with xz: want a text, plain or compressed with gzip"},
	{"PK\x03\x04x", "is a zip archive: want a text, plain or compressed with gzip"},
	{"\x28\xb5\x2f\xfdx", "is compressed with zstd: want a text, plain or compressed with gzip"},
	{"cluster_job_log" + strings.Repeat("\x00", 242) + "ustar",
		"is a tar archive: want the one file in it that has the jobs, such as Philly's cluster_job_log"},
	{zipped(zipped("0,m,0,1,1\n")), "is no text: want one of the formats recorded, philly, condensed, openb, sacct"},
	{zipped("0,m,0,1,1\n")[:26], "the compressed file ends in the middle: want it whole"},

	{"\x1f\x8b", "the compressed file ends in the middle: want it whole"},
	{"\x1f\x8b1234567890", "gzip: invalid header"},

	{"0,m,0,1,1\n1,m,0,1\n", "line 2: has 4 fields: want 5: job_id,model,arrival,iterations,gpus"},
	{"0,m,0,1,1,ann\n", "line 1: has 6 fields: want 5: job_id,model,arrival,iterations,gpus"},
	{"0,m,0,1,1\n\n0,m,0,1,1\n", "line 3: job_id = 0: want each once, and it is on line 1 already"},
	{"0,m,0,1,1\nx,m,0,1,1\n", "line 2: job_id = x: want a whole number from 0 to 2147483647"},
	{"0,m,0,1,1\n-1,m,0,1,1\n", "line 2: job_id = -1: want a whole number from 0 to 2147483647"},
	{"0,,0,1,1\n", `line 1: model = "": want the name of a model`},
	{"0,a\tb,0,1,1\n", `line 1: model = "a\tb": want printable text of at most 256 bytes`},
	{"0,a\xffb,0,1,1\n", `line 1: model = "a\xffb": want printable text of at most 256 bytes`},
	{"0,m,-1,1,1\n", "line 1: arrival = -1: want seconds, not negative and before the year 2200"},
	{"0,m,1e308,1,1\n", "line 1: arrival = 1e308: want seconds, not negative and before the year 2200"},
	{"0,m,NaN,1,1\n", "line 1: arrival = NaN: want seconds, not negative and before the year 2200"},
	{"0,m,0,0,1\n", "line 1: iterations = 0: want a whole number from 1 to 1000000000000"},
	{"0,m,0,9223372036854775807,1\n",
		"line 1: iterations = 9223372036854775807: want a whole number from 1 to 1000000000000"},
	{"0,m,0,1,3x\n", "line 1: gpus = 3x: want a whole number from 1 to 1000000"},
	{"0,m,0,1,0\n", "line 1: gpus = 0: want a whole number from 1 to 1000000"},
	{"0,m,0,1,\n", `line 1: gpus = "": want a whole number from 1 to 1000000`},
	{"job_id,model,arrival,gpus\n0,m,0,1\n",
		"line 1: no column iterations among job_id,model,arrival,gpus: want it in the header"},
	{"job_id,model,arrival,gpus,GPUs,iterations\n0,m,0,1\n", "line 1: column gpus stands there twice: want it once"},
	{"job_id,model,arrival,iterations,gpus\n", "has no job: want at least one"},
	{"# cpus per gpu: 3.5\n0,m,0,1,1\n", "line 1: cpus per gpu = 3.5: want a whole number from 1 to 1000"},
	{`0,"m,0,1,1` + "\n", `line 1: 0,"m,0,1,1: want quotes in pairs, around whole fields`},
	{"0,m,0,1,1\n" + strings.Repeat("x", 1<<20) + "\n",
		"line 2: is longer than 1048576 bytes: want one job on each line"},

	{"timestamp,num_gpus,duration\n2017-13-09 07:01:55,1,1\n",
		"line 2: timestamp = \"2017-13-09 07:01:55\": want a time from 1970 on, such as 2026-03-31T23:59:59"},
	{condensedHeader + "1969-12-31 23:59:59,1,1,1,c\n",
		`line 2: timestamp = "1969-12-31 23:59:59": want a time from 1970 on, such as 2026-03-31T23:59:59`},
	{condensedHeader + "2200-01-01 00:00:00,1,1,1,c\n",
		`line 2: timestamp = "2200-01-01 00:00:00": want a time from 1970 on, such as 2026-03-31T23:59:59`},
	{"num_gpus,timestamp\n1,1\n", "line 1: no column duration among num_gpus,timestamp: want it in the header"},
	{condensedHeader + "2017-10-09 07:01:55,-1,1,1,c\n",
		"line 2: duration = -1: want seconds, not negative and before the year 2200"},
	{condensedHeader + "2017-10-09 07:01:55,1,0.5,1,c\n",
		"line 2: num_gpus = 0.5: want a whole number from 0 to 1000000"},
	{condensedHeader + "2017-10-09 07:01:55,1,1\n",
		"line 2: has 3 fields: want 5: timestamp,duration,num_gpus,gpu_time,cluster"},
	{condensedHeader + "2017-10-09 07:01:55,1,1,1,c\n2017-10-09T07:01:55Z,1,1,1,c\n",
		"line 3: timestamp = 2017-10-09T07:01:55Z: want a time without a zone, as before"},
	{condensedHeader + "2017-10-09 07:01:55,1,1,1,c\n12,1,1,1,c\n",
		"line 3: timestamp = 12: want a time without a zone, as before"},
	{condensedHeader + "2017-10-09 07:01:55,1,0,0,c\n2017-10-09 07:01:55,0,1,0,c\n2017-10-09 07:01:55,1,0,0,c\n",
		"has no job that could be simulated (2: no GPU; 1: ran for no time at all): want at least one"},

	{"name,cpu_milli,memory_mib,num_gpu,gpu_milli\np,1,1,1,1\n",
		"line 1: no column creation_time among name,cpu_milli,memory_mib,num_gpu,gpu_milli: want it in the header"},
	{openbHeader + "p,1,1000,Running,5,9,5\np,1,1000,Running,5,9,5\n",
		"line 3: name = p: want each once, and it is on line 2 already"},
	{openbHeader + ",1,1000,Running,5,9,5\n", `line 2: name = "": want a name`},
	{openbHeader + "p,1,1000,Running,5,9,10\n", "line 2: deletion_time = 9: want no time before scheduled_time 10"},
	{openbHeader + "p,1,1001,Running,5,9,5\n", "line 2: gpu_milli = 1001: want a whole number from 0 to 1000"},
	{openbHeader + "p,1,1000,Running,5,99999999999,5\n",
		"line 2: deletion_time = 99999999999: want a time from 1970 on, such as 2026-03-31T23:59:59"},

	{"1|COMPLETED|gres/gpu=1\n", "line 1: 1|COMPLETED|gres/gpu=1 is a record: want the header before it, as sacct " +
		"prints it without --noheader"},
	{"JobID|Submit|Elapsed\n",
		"line 1: no column AllocTRES or ReqTRES, nor AllocGRES or ReqGRES as before Slurm 20.11: " +
			"want one in the header, for the number of GPUs"},
	{"JobID|Submit|End|AllocTRES\n",
		"line 1: no column ElapsedRaw or Elapsed, and not both Start and End: want them in the header, for how long " +
			"a job ran"},
	{sacctHeader + "x|2026-03-01T08:00:00|||1:00|gres/gpu=1\n",
		"line 2: JobID = x: want the ID of a job, such as 1234, 1234_7 or 1234+0"},
	{sacctHeader + "1|08:00:00-Mar|||1:00|gres/gpu=1\n",
		"line 2: Submit = 08:00:00-Mar: want a time from 1970 on, such as 2026-03-31T23:59:59"},
	{sacctHeader + "1|2026-03-01T08:00:00|||60|gres/gpu=1\n",
		"line 2: Elapsed = 60: want a length of time such as 1-02:03:04"},
	{sacctHeader + "1|2026-03-01T08:00:00|||1:x|gres/gpu=1\n",
		"line 2: Elapsed = 1:x: want a length of time such as 1-02:03:04"},
	{sacctHeader + "1|2026-03-01T08:00:00|||999999999-00:00:00|gres/gpu=1\n",
		"line 2: Elapsed = 999999999-00:00:00: want a length of time such as 1-02:03:04"},
	{sacctHeader + "1|2026-03-01T08:00:00|2026-03-01T08:00:01|2026-03-01T08:00:00||gres/gpu=1\n",
		"line 2: End = 2026-03-01T08:00:00: want no time before Start 2026-03-01T08:00:01"},
	{sacctHeader + "1|2026-03-01T08:00:00|||1:00|gres/gpu:a100=two\n",
		"line 2: AllocTRES = gres/gpu:a100=two: want whole numbers of GPUs from 0, such as gres/gpu=4"},
	{sacctHeader + "1|2026-03-01T08:00:00|||1:00|gres/gpu=-1\n",
		"line 2: AllocTRES = gres/gpu=-1: want whole numbers of GPUs from 0, such as gres/gpu=4"},
	{sacctHeader + "1|2026-03-01T08:00:00|||1:00|gres/gpu=1000001\n",
		"line 2: AllocTRES = gres/gpu=1000001: want whole numbers of GPUs from 0, such as gres/gpu=4"},
	{sacctHeader + "1|2026-03-01T08:00:00|||1:00|cpu=4\n",
		"has no job that could be simulated (1: no GPU): want one with gres/gpu in AllocTRES or ReqTRES, which Slurm " +
			"keeps with AccountingStorageTRES=gres/gpu"},

	{"[]", "has no job: want at least one"},
	{"[", "line 1: the file ends in the middle of the list: want it whole"},
	{"[\n{\n", "line 3: the file ends in the middle of the list: want it whole"},
	{"[1]", "line 1: 1]: want a job: {…}"},
	{"[{}\n{}]", "line 2: {}]: want a comma or the end of the list"},
	{"[{},\n]", "line 2: ]: want a job: {…}"},
	{"[{}]\n[]", "line 2: []: want nothing behind the list"},
	{"[{},\n\n{\"jobid\":\n\"a\" \"b\"}]", "line 4: invalid character '\"' after object key:value pair: want JSON"},
	{"[\n\n{\"jobid\":\n7}]", `line 4: jobid = "a JSON number": want text`},
	{"[{\"attempts\": [{\"detail\": [{\"gpus\": 4}]}]}]",
		`line 1: attempts.detail.gpus = "a JSON number": want a list`},
	{`[{"attempts": [7]}]`, `line 1: attempts = "a JSON number": want an object`},
	{`[{"jobid": "", "submitted_time": "2017-10-07 00:00:00", "attempts": [{}]}]`, `line 1: jobid = "": want a name`},
	{`[{"jobid": "a", "submitted_time": "yesterday", "attempts": [{}]}]`,
		"line 1: submitted_time = yesterday: want a time from 1970 on, such as 2026-03-31T23:59:59"},
	{`[{"jobid": "a", "submitted_time": "2017-10-07 00:00:00", "attempts": [{}]},` + "\n" +
		`{"jobid": "a", "submitted_time": "2017-10-07 00:00:00", "attempts": [{}]}]`,
		"line 2: jobid = a: want each once, and it is on line 1 already"},
	{`[{"jobid": "a", "user": "b\nc", "submitted_time": "2017-10-07 00:00:00", "attempts": [{}]}]`,
		`line 1: user = "b\nc": want printable text of at most 256 bytes`},
	{"[{\"a\": \"" + strings.Repeat("x", 16<<20), "line 1: a job of more than 16777216 bytes: want a list of jobs"},
}

func TestWhatCannotBeReadIsRefusedWithItsPlaceAndARemedy(t *testing.T) {
	for _, r := range refused {
		got, err := trace.Read("a", strings.NewReader(r.text), "")
		if err == nil {
			t.Errorf("%.60q was read: %+v", r.text, got)
		} else if want := "trace a: " + r.want; err.Error() != want {
			t.Errorf("%.60q:\n got %s\nwant %s", r.text, err, want)
		}
		if got != nil {
			t.Errorf("%.60q: an error and a trace", r.text)
		}
	}
}

func TestAFormatThatIsNamedIsBelieved(t *testing.T) {
	_, err := trace.Read("a", strings.NewReader("0,m,0,1,1\n"), trace.Sacct)
	if want := "trace a: line 1: no column JobID among 0,m,0,1,1: want it in the header"; err == nil ||
		err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	_, err = trace.Read("a", strings.NewReader("0,m,0,1,1\n"), "csv")
	if want := "trace a: format = csv: want one of recorded, philly, condensed, openb, sacct"; err == nil ||
		err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestAFileThatIsNotThereIsNamedOnce(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "jobs.csv")
	_, err := trace.Open(missing, "")
	if err == nil || strings.Count(err.Error(), missing) != 1 || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v", err)
	}
	if _, err := trace.Open(t.TempDir(), ""); err == nil || !strings.HasSuffix(err.Error(),
		"is a directory: want a file") {
		t.Errorf("got %v", err)
	}
}

func TestALogThatWasCutOffIsRefusedHoweverLate(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("testdata", "condensed.csv"))
	if err != nil {
		t.Fatal(err)
	}
	long := append(text, bytes.Repeat([]byte("2017-10-09 07:01:55,66.0,1,66.0,11cb48\n"), 100_000)...)
	whole := zipped(string(long))
	_, err = trace.Read("a", strings.NewReader(whole[:len(whole)-20]), "")
	if err == nil || !strings.HasSuffix(err.Error(), "the compressed file ends in the middle: want it whole") {
		t.Errorf("got %v", err)
	}
}
