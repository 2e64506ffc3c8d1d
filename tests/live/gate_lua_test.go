//go:build live

package live

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/synergy-slurmd/synergy-slurmd/bridge/directive"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/directive/corpus"
)

// stubSlurmctld is as much of it as the gate asks for: the gate is read, and submit submits a job with what differs
// from an ordinary one.
func (c *Cluster) stubSlurmctld() string {
	c.t.Helper()
	text, err := os.ReadFile(filepath.Join(testdata, "slurmctld.lua"))
	if err != nil {
		c.t.Fatal(err)
	}
	return string(text)
}

// testdata has the comments by which all readers of one are tested.
const testdata = "../../bridge/directive/testdata"

func TestTheGateUnderstandsEachCommentOfTheCorpusInTheLuaOfItsSlurm(t *testing.T) {
	c := OpenCluster(t)
	cases := corpus.Read(t, filepath.Join(testdata, "comments.json"))
	// The list has each profile that is named.
	profiles := map[string]bool{}
	for _, each := range cases {
		for word := range strings.FieldsSeq(each.Means) {
			if name, is := strings.CutPrefix(word, "profile="); is {
				profiles[name] = true
			}
		}
	}
	corpus.CheckGate(t, cases, c.gate(corpus.Submissions(cases), slices.Sorted(maps.Keys(profiles))...))
}

// gate runs a program behind that, in the Lua of the image, with a list of these profiles.
func (c *Cluster) gate(program string, profiles ...string) string {
	c.t.Helper()
	return c.gateThatSays("", program, profiles...)
}

// gateThatSays is one with further settings.
func (c *Cluster) gateThatSays(settings, program string, profiles ...string) string {
	c.t.Helper()
	const run = `set -e; dir=$(mktemp -d); trap 'rm -rf "$dir"' EXIT; cp /opt/synergy/etc/job_submit.lua "$dir"
		echo "return { profiles_file = '$dir/profiles', $SETTINGS }" > "$dir/synergy_settings.lua"
		{ date +%s; printf '%s\n' "$@"; } > "$dir/profiles"
		{ echo "GATE = '$dir'"; cat; } > "$dir/main.lua"
		lua5.4 "$dir/main.lua" 2>&1`
	said, err := c.ExecInput("slurmctld", "slurm", c.stubSlurmctld()+program,
		append([]string{"env", "SETTINGS=" + settings, "bash", "-c", run, "bash"}, profiles...)...)
	if err != nil {
		c.t.Fatalf("%v: %s", err, said)
	}
	return said
}

func TestTheGateLooksForTheProfileThatTheJobNamesAndForNoOther(t *testing.T) {
	c := OpenCluster(t)
	for comment, want := range map[string]string{
		"note=synergy-profile=zzz.json synergy-profile=a.json,synergy-checkpoint": `0 {"v":1`,
		"note=synergy-profile=a.json synergy-profile=zzz.json":                    "there is no profile zzz.json",
	} {
		if said := c.gate(fmt.Sprintf("submit { comment = %q }", comment), "a.json", "b.json"); !strings.Contains(said,
			want) {
			t.Errorf("%s: %q, want %q", comment, said, want)
		}
	}
}

func TestTheGateSeesASizedStepInAVariableAndBehindOne(t *testing.T) {
	c := OpenCluster(t)
	for script, sized := range map[string]bool{
		`RUN="srun -n 4"; $RUN ./a`: true, "LAUNCH=/usr/bin/srun -c 4": true, "srun $OPTIONS -n 4 ./a": true,
		"srun $(cat options) -c 4 ./a": true,
		"srun -lc 4 ./a":               true, "srun -luc4 ./a": true, "srun -c srun -c 4": true,
		"srun $PROGRAM data -n 4": false, "srun -l $OPTIONS ./a -n 4": false, "srun -K1 ./a": false,
		"srun -I60 ./a": false, "srun - ./a": false,
		"RUN=mysrun -c 4": false, "srun -c ./a -n1": false,
	} {
		if said := c.gate(fmt.Sprintf("submit { script = %q }", script), "a.json"); strings.Contains(said,
			`"steps":1`) != sized {
			t.Errorf("%s: %s", script, said)
		}
	}
}

// TestNobodyButTheDaemonSaysWhatANodeBelievesOfAJob: in whichever partition, since a node asks nobody where a job is.
func TestNobodyButTheDaemonSaysWhatANodeBelievesOfAJob(t *testing.T) {
	c := OpenCluster(t)
	const forged = `{"v":1,"lua":0,"job":7,"round":1,"share":{"class":"high"}}`
	for program, want := range map[string]string{
		`submit { partition = "plain", comment = false, extra = [[%s]] }`:                 "what the daemon",
		`submit { extra = [[%s]] }`:                                                       "what the daemon",
		`submit { partition = "plain", comment = false, extra = "mine, as " .. [[%s]] }`:  "0 mine",
		`print(slurm_job_submit({ partition = "plain", extra = [[%s]] }, {}, 0))`:         "0",
		`print(slurm_job_modify({ extra = [[%s]] }, { partition = "plain" }, nil, 1000))`: "what the daemon",
		`print(slurm_job_modify({ extra = [[%s]] }, { partition = "plain" }, nil, 0))`:    "0",
		`print(slurm_job_modify({ extra = "x %s" }, { partition = "plain" }, nil, 1000))`: "0",
	} {
		text := forged
		if strings.Contains(program, `"x %s"`) {
			text = "mine"
		}
		if said := c.gate(fmt.Sprintf(program, text), "a.json"); !strings.Contains(said, want) ||
			want[0] == '0' && !strings.HasPrefix(said, "0") {
			t.Errorf("%s: %s, want %s", program, said, want)
		}
	}
}

// What a user may send, slurmctld stands still for. The counts are the gate's own steps, since a clock says as much of
// the machine.
func TestWhatAUserSendsCostsTheGateBoundedWork(t *testing.T) {
	c := OpenCluster(t)
	const count = `
local steps, words = 0, %s
debug.sethook(function() steps = steps + 1 end, "", 1000)
submit(words)
debug.sethook()
print(steps < 2000 and "bounded" or steps .. " thousand steps")`
	for name, job := range map[string]string{
		"many words and many options": `{ comment = ("synergy-x "):rep(100000) .. "synergy-profile=a.json",
			spank_job_env = (function() local all = {} for i = 1, 1000 do all[i] = "_SLURM_SPANK_OPTION_synergy_synergy_profile=a" end return all end)() }`,
		"a comment of others' words": `{ comment = ("a "):rep(1000000) }`,
		"options of sruns of sruns":  `{ script = (("srun -c "):rep(127) .. "\n"):rep(32) }`,
		"the same in a job that shares a GPU": `{ comment = "synergy-profile=a.json synergy-share=low",
			script = (("srun -c "):rep(127) .. "\n"):rep(32) }`,
		"amounts without end": `{ comment = "synergy-profile=a.json synergy-share=low" ..
			(",mem=1"):rep(100000) }`,
		"as many that are no part of the word": `{ comment = "synergy-profile=a.json synergy-share=low" ..
			(",mem"):rep(1000) }`,
		"as many amounts as are looked at": `{ comment = "synergy-profile=a.json synergy-share=low" ..
			(",mem="):rep(800) }`,
	} {
		if said := c.gate(fmt.Sprintf(count, job), "a.json"); !strings.Contains(said, "bounded") {
			t.Errorf("%s: %s", name, said)
		}
	}
}

// sharingComments are comments that opt into a shared GPU, right and wrong, with whatever stands around the amounts.
func sharingComments(count int) []string {
	chance := rand.New(rand.NewPCG(15, 15))
	pieces := []string{"synergy-share=high", "synergy-share=low", "synergy-share=", "synergy-share",
		"synergy-share=mem",
		"mem=6", "mem=0.5", "mem=0", "mem=1024", "mem=1024.001", "mem=01", "mem=0000001", "mem=.5", "mem=5.",
		"mem=1.2345", "mem=1e3",
		"mem=", "mem", "slo=50", "slo=600000", "slo=600001", "slo=0", "slo=1.5", "slo==1", "slo", "mine", "=",
		"Mem=6", "MEM=", "SLO=50", "memory=6", "gpu_mem=6", "GPU-Memory=6", "gpu__mem=6", "gpumem", "Level=1",
		"levels=1", "-mem=6", "_mem=6", "xmem=6", "mem:6", "mem_=6", "memo=1", "project=42", "synergy-length=2h",
		"\u017flo=5", "mem\u00a0=6", "'mem=6'"}
	parts := []string{",", ",", ",", ",", " ", ", ", ",,", "=", "", " ,", ", ,"}
	var comments []string
	for range count {
		comment := "synergy-profile=a.json " + pieces[chance.IntN(3)]
		for range chance.IntN(5) {
			comment += parts[chance.IntN(len(parts))] + pieces[chance.IntN(len(pieces))]
		}
		comments = append(comments, comment)
	}
	return comments
}

// TestTheGateTakesTheCommentsThatTheDaemonUnderstands: one that only the gate took would be a job that waits for
// nothing, and one that only the daemon took could not be submitted.
func TestTheGateTakesTheCommentsThatTheDaemonUnderstands(t *testing.T) {
	c := OpenCluster(t)
	comments := sharingComments(3000)
	var program strings.Builder
	for _, comment := range comments {
		fmt.Fprintf(&program, "submit { comment = \"%s\" }\n", comment)
	}
	var taken []bool
	for line := range strings.Lines(c.gate(program.String(), "a.json")) {
		if strings.HasPrefix(line, "0 ") || strings.HasPrefix(line, "2036 ") {
			taken = append(taken, line[0] == '0')
		}
	}
	if len(taken) != len(comments) {
		t.Fatalf("%d answers about %d comments", len(taken), len(comments))
	}
	right := 0
	for k, comment := range comments {
		says := directive.Parse(comment)
		err := says.Err()
		if taken[k] != (err == nil) {
			t.Errorf("%q: the gate takes it: %t, the daemon: %v", comment, taken[k], err)
		}
		if err == nil {
			right++
		}
	}
	if right < len(comments)/10 || right > len(comments)*9/10 {
		t.Errorf("%d of %d comments are right: that tries little", right, len(comments))
	}
}

// TestAnAmountThatIsNoPartOfTheDirectiveIsRefusedByGateAndDaemonInTheSameWords, and what reads like none by neither.
func TestAnAmountThatIsNoPartOfTheDirectiveIsRefusedByGateAndDaemonInTheSameWords(t *testing.T) {
	c := OpenCluster(t)
	for behind, word := range map[string]string{", mem=6": "mem=6", " mem=6": "mem=6", ",,mem=6": "mem=6",
		",memory=6": "memory=6", ",Mem=6": "Mem=6", ",mem=6,mine,SLO=x": "SLO=x", " gpu_mem=6": "gpu_mem=6",
		" GPU-Memory=6": "GPU-Memory=6", ",synergy-length=2h level=1": "level=1", " project=42 memo=x mem": "",
		" -mem=6 levels=1": ""} {
		comment := "synergy-profile=a.json synergy-share=low" + behind
		said := c.gate(fmt.Sprintf("submit { comment = %q }", comment), "a.json")
		says := directive.Parse(comment)
		err := says.Err()
		if word == "" {
			if err != nil || !strings.Contains("\n"+said, "\n0 ") {
				t.Errorf("%s: the gate says %q, the daemon %v", comment, said, err)
			}
			continue
		}
		if err == nil || !strings.HasPrefix(err.Error(), `"`+word+`" `) {
			t.Errorf("%s: the daemon says %v", comment, err)
			continue
		}
		want := "synergy: the word " + word + strings.TrimPrefix(err.Error(), `"`+word+`"`) + ".\n"
		if !strings.Contains(said, want) {
			t.Errorf("%s: the gate says %q, want %q", comment, said, want)
		}
	}
}

func TestOnlyABatchJobWithOneGPUOfAnyKindSharesIt(t *testing.T) {
	c := OpenCluster(t)
	const one, part = "is for a job with one GPU on one node", "a step cannot ask for a whole one"
	for job, want := range map[string]string{
		``:                             `0 {"v":1`,
		`, tres_per_node = "gres:gpu"`: `0 {"v":1`,
		`, tres_per_node = "", tres_per_job = "gres/gpu=1"`:  `0 {"v":1`,
		`, tres_per_node = "", tres_per_task = "gres/gpu:1"`: one,
		`, tres_per_node = "gres/gpu:2"`:                     one,
		`, tres_per_node = "gres/gpu:10"`:                    one,
		`, tres_per_node = "gres/gpu:h100:1"`:                "without a type",
		`, tres_per_node = "gres/gpu:h100"`:                  "without a type",
		`, min_nodes = 2, max_nodes = 2`:                     one,
		`, cpus_per_tres = "gres/gpu:3"`:                     "say -c for --cpus-per-gpu",
		`, mem_per_tres = "gres/gpu:4000"`:                   "say -c for --cpus-per-gpu",
		`, ntasks_per_tres = 1`:                              "say -c for --cpus-per-gpu",
		`, ntasks_per_tres = slurm.NO_VAL16`:                 `0 {"v":1`,
		`, script = false`:                                   "is for batch jobs",
		`, script = "srun -u --gres=gpu:1 ./a"`:              part,
		`, script = "srun -lG1 ./a"`:                         part,
		`, script = "RUN=srun --gpus 1\n$RUN ./a"`:           part,
		`, script = "srun --gres=none ./a"`:                  `0 {"v":1`,
		`, script = "srun ./a --gpus 1"`:                     `0 {"v":1`,
		`, script = "# srun --gpus=1 ./a\nsrun ./a"`:         `0 {"v":1`,
	} {
		comment := "synergy-profile=a.json synergy-share=low"
		if said := c.gate(fmt.Sprintf("submit { comment = %q%s }", comment, job), "a.json"); !strings.Contains(said,
			want) {
			t.Errorf("%s: %q, want %q", job, said, want)
		}
	}
}

func TestTheOwnerOfASharingJobChangesNothingOfHowItShares(t *testing.T) {
	c := OpenCluster(t)
	const modify = `
		local job = { comment = "synergy-profile=a.json,synergy-share=low,mem=6,mine", partition = "synergy" }
		print(slurm_job_modify({ comment = %q }, job, nil, 1000))`
	for comment, want := range map[string]string{
		"synergy-share=low,mem=6 other synergy-profile=a.json": "0",
		"synergy-share=low,mem=7 synergy-profile=a.json":       "stay as they were submitted",
		"synergy-share=low mem=6 synergy-profile=a.json":       "stay as they were submitted",
		"synergy-share=high,mem=6 synergy-profile=a.json":      "stay as they were submitted",
		"synergy-profile=a.json mem=6":                         "stay as they were submitted",
	} {
		if said := c.gate(fmt.Sprintf(modify, comment), "a.json"); !strings.HasPrefix(strings.TrimPrefix(said,
			"synergy: the synergy words of a comment "), want) {
			t.Errorf("%s: %q, want %q", comment, said, want)
		}
	}
}

// shardRequests are the ways in which Slurm's commands and clients of slurmrestd write a request for a part of a GPU,
// each with whether it is one. A hostile user chooses among them.
var shardRequests = map[string]bool{
	"gres/shard": true, "gres/shard:1": true, "gres:shard:1": true, "gres:shard": true, "gres/shard=2": true,
	"gres/shard:g1": true, "gres/shard:g1:1": true, "gres:shard:g1:1": true, "shard:1": true, "shard": true,
	"gres/gpu:1,gres/shard:1": true, "gres/gpu:1, gres/shard:g1:1": true, "cpu=2,gres/shard=1": true,
	"gres/SHARD:1": true, "gres/shard:0,gres/shard:g1:1": true, "gres/shard:1(S:0)": true, "gres/shard:1K": true,
	"gres/gpu": false, "gres/gpu:1": false, "gres/gpu:shard:1": false, "gres/shards:1": false, "gres/shard:0": false,
	"gres/craynetwork:1": false, "cpu=2": false, "": false, "none": false,
}

const keepShards = "keep_shards = true"

func TestAPartOfAGPUIsNobodysToAskForWhereTheDaemonGivesIt(t *testing.T) {
	c := OpenCluster(t)
	var program strings.Builder
	var want []string
	for asked, part := range shardRequests {
		code := "0"
		if part {
			code = "2036"
		}
		for _, field := range []string{"tres_per_node", "tres_per_job", "tres_per_task", "tres_per_socket"} {
			fmt.Fprintf(&program, "submit { comment = \"\", tres_per_node = \"\", %s = %q }\n", field, asked)
			want = append(want, code)
		}
	}
	got := c.gateThatSays(keepShards, program.String())
	for k, code := range strings.Fields(numbers(got)) {
		if line := strings.Split(program.String(), "\n")[k]; k >= len(want) || code != want[k] {
			t.Errorf("%s: ends with %s", line, code)
		}
	}
	if n := len(strings.Fields(numbers(got))); n != len(want) {
		t.Fatalf("%d answers to %d requests", n, len(want))
	}
	const opted = `submit { comment = "synergy-profile=a.json synergy-share=low", tres_per_node = "gres/shard:1" }`
	said := c.gateThatSays(keepShards, opted, "a.json")
	if !strings.Contains(said, "ask for --gres=gpu:1 without shard") ||
		!strings.Contains(said, `synergy-share=low" to share one`) {
		t.Errorf("whoever opts in and asks for a shard all the same is told %q", said)
	}
	const other = `submit { comment = "", partition = "other", tres_per_node = "gres/shard:1" }
		submit { comment = "", partition = "other,synergy", tres_per_node = "gres/shard:1" }
		print(slurm_job_submit({ partition = "synergy", tres_per_node = "gres/shard:1" }, {}, 0))
		print(slurm_job_submit({ tres_per_node = "gres/shard:1" }, { synergy = { flag_default = 1 } }, 1000))`
	if said := strings.Fields(numbers(c.gateThatSays(keepShards, other))); strings.Join(said, " ") != "0 2036 0 2036" {
		t.Errorf("in another partition, in that and ours, of root, and by default it ends with %v", said)
	}
	if said := c.gate(`submit { comment = "", tres_per_node = "gres/shard:1" }`); !strings.HasPrefix(said, "0 ") {
		t.Errorf("where nobody says keep_shards: %q", said)
	}
}

// numbers are the codes in what the gate says.
func numbers(said string) string {
	var all strings.Builder
	for line := range strings.Lines(said) {
		if code, _, _ := strings.Cut(strings.TrimSpace(line), " "); strings.Trim(code, "0123456789") == "" {
			all.WriteString(code + " ")
		}
	}
	return all.String()
}

func TestAJobThatWaitsDoesNotCrawlUnderAGPUThatOthersShare(t *testing.T) {
	c := OpenCluster(t)
	const away = `heartbeat_file = "/nowhere", ` + keepShards
	for _, x := range []struct{ change, job, want string }{
		{`tres_per_node = "gres/shard:g1:1"`, `partition = "synergy"`, "2002"},
		{`tres_per_task = "gres:shard"`, `partition = "synergy"`, "2002"},
		{`partition = "synergy"`, `partition = "other", tres_per_node = "gres/shard:1"`, "2002"},
		{`partition = "synergy", tres_per_node = "gres/gpu:1"`, `partition = "other", tres_per_node = "gres/shard:1"`,
			"0"},
		{`partition = "synergy"`, `partition = "other", tres_per_node = "gres/gpu:1"`, "0"},
		{`tres_per_node = "gres/shard:1"`, `partition = "other"`, "0"},
		{`name = "mine"`, `partition = "synergy", tres_per_node = "gres/shard:g1:1"`, "0"},
		// The daemon itself has put this one on a shared GPU; its owner may rename it, and no more.
		{`name = "mine"`,
			`partition = "synergy", comment = "synergy-profile=a.json", tres_per_node = "gres/shard:g1:1"`, "0"},
		{`tres_per_node = "gres/shard:g1:9"`, `partition = "synergy", comment = "synergy-profile=a.json"`, "2002"},
	} {
		program := fmt.Sprintf("print(slurm_job_modify({ %s }, { %s }, nil, 1000))", x.change, x.job)
		for _, settings := range []string{keepShards, away} { // who shares runs on without the daemon
			if got := strings.TrimSpace(numbers(c.gateThatSays(settings, program))); got != x.want {
				t.Errorf("%s of %s, %s: ends with %s, want %s", x.change, x.job, settings, got, x.want)
			}
		}
	}
}

func TestALongRequestForGPUsCostsTheGateNoMoreThanAnother(t *testing.T) {
	c := OpenCluster(t)
	const count = `
local steps = 0
debug.sethook(function() steps = steps + 1 end, "", 1000)
submit { comment = "", tres_per_node = %s }
debug.sethook()
print(steps < 200 and "bounded" or steps .. " thousand steps")`
	for _, tres := range []string{`("gres/gpu:1,"):rep(100000)`, `("gres/gpu:1,"):rep(100000) .. "gres/shard:1"`,
		`("gres/shard:0,"):rep(100000)`} {
		said := c.gateThatSays(keepShards, fmt.Sprintf(count, tres))
		if !strings.Contains(said, "bounded") || strings.Contains(tres, "shard:1") != strings.Contains(said, "2036") &&
			!strings.Contains(tres, "shard:0") {
			t.Errorf("%s: %q", tres, said)
		}
	}
}
