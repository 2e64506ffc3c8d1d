package tests

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// runner is who runs commands that need a Slurm, a GPU, root, another's programs or minutes: a test, or where it has no
// name a script by which tests are run.
type runner struct {
	file, test string
	has        string   // what of the commands stands in that file
	commands   []string // how they begin, in the pages
}

// elsewhere are the commands that are run, but not here. The longest beginning that fits counts.
var elsewhere = []runner{
	// In the queue, as users.
	{"tests/live/auto_test.go", "TestAJobThatNobodyKnowsIsMeasuredAndGrowsAndTheNextOfItsNameStartsAsThat",
		"--comment=synergy-profile=auto synergy-checkpoint=", []string{
			"sbatch --comment=synergy-profile=auto",
			`sbatch --comment="synergy-profile=auto synergy-checkpoint"`,
			`sbatch --open-mode=append --comment="synergy-profile=auto`,
			"synergy measure &",
		}},
	{"tests/live/hostile_test.go", "TestALyingProfileIsFoundOutAndItsJobGetsTheShare",
		`word(profile) + " synergy-progress"`, []string{
			`sbatch --open-mode=append --comment="synergy-profile=res18.json`,
		}},
	{"tests/live/rounds_test.go", "TestAJobRunsWithinOneRoundWithItsDemandAndSeesIt",
		"--comment=synergy-profile=res18.json", []string{
			"sbatch --comment=synergy-profile=res18.json",
			"sbatch --gres=gpu:1 --comment=synergy-profile=res18.json",
			"sbatch --partition=synergy --gres=gpu:1 --comment=synergy-profile=res18.json",
		}},
	{"tests/live/lua_test.go", "TestGoodWordsAreAccepted",
		`"synergy-profile=res18.json synergy-share=low,mem=6"`, []string{
			`sbatch --gres=gpu:1 --comment="synergy-profile=res18.json synergy-share=`,
		}},
	{"tests/live/rounds_test.go", "TestAJobRunsWithinOneRoundWithItsDemandAndSeesIt",
		`"sacct", "-X", "-n", "-P", "-j"`, []string{
			"sacct -j",
		}},
	{"tests/live/rounds_test.go", "TestJobsThatAreNotOursAreLeftExactlyAlone",
		`"scontrol", "show", "job"`, []string{
			"sbatch train.sh",
			"scontrol show job",
		}},
	{"tests/live/rounds_test.go", "TestAJobGrowsWhenTheRoomIsThere",
		`"scancel"`, []string{
			"scancel 4711",
		}},
	{"tests/live/node_test.go", "TestOptionsMeanWhatTheirWordsMean",
		"--synergy-profile=res18.json --synergy-checkpoint", []string{
			"sbatch --synergy-profile=res18.json",
		}},
	{"tests/live/interactive_test.go", "TestWhatIsTypedAtATerminalIsSizedAtItsStart",
		"srun --pty --gres=gpu:1 --comment=synergy-profile=res18.json", []string{
			"srun --gres=gpu:1 --comment=",
		}},
	{"tests/live/interactive_test.go", "TestASessionIsNeverMovedAndOneThatGivesUpIsGone",
		`"squeue"`, []string{
			"squeue",
		}},
	{"tests/live/daemon_test.go", "",
		`"sinfo"`, []string{
			"sinfo",
		}},
	{"tests/live/backfill_test.go", "TestTheBackfillThatIsSimulatedAgreesWithSlurms",
		`"import", "sacct", "--days"`, []string{
			`sh -c "$(synergy import sacct`,
		}},
	// Inside of a job.
	{"tests/live/examples_test.go", "TestTheExamplesSaveAreRequeuedAndGoOn",
		"train.sh", []string{
			"trap ",
			"./train --resume",
			`wait "$pid"`,
		}},
	{"tests/live/examples_test.go", "TestTheExamplesSaveAreRequeuedAndGoOn",
		"train.py", []string{
			"exec python train.py",
		}},
	{"tests/live/frameworks_test.go", "TestATrainerOfEachFrameworkGivesWayAndGoesOnWithTheLinesOfTheManual",
		"USR1@20/steps", []string{
			"#SBATCH --nodes=2",
			"#SBATCH --comment=",
		}},
	{"tests/live/frameworks_test.go", "TestATrainerOfEachFrameworkGivesWayAndGoesOnWithTheLinesOfTheManual",
		"srun python3 lightning.py", []string{
			"srun python train.py",
		}},
	{"tests/live/frameworks_test.go", "TestATrainerOfEachFrameworkGivesWayAndGoesOnWithTheLinesOfTheManual",
		"srun synergy run -- python3", []string{
			"srun synergy run",
		}},
	{"tests/live/frameworks_test.go", "TestATrainerOfEachFrameworkGivesWayAndGoesOnWithTheLinesOfTheManual",
		"exec synergy run --steps -- srun python3", []string{
			"exec synergy run --steps",
		}},
	{"tests/live/frameworks_test.go", "TestATrainerOfEachFrameworkGivesWayAndGoesOnWithTheLinesOfTheManual",
		"exec synergy run --send USR1 -- srun python3", []string{
			"exec synergy run --send USR1",
		}},
	{"tests/live/frameworks_test.go", "TestATrainerOfEachFrameworkGivesWayAndGoesOnWithTheLinesOfTheManual",
		"exec synergy run --children --accept 1 -- python3 torchrun", []string{
			"exec synergy run --children",
		}},
	{"tests/cuda/harness_test.go", "TestMain",
		`"LD_PRELOAD="+b.path("synergy.so")`, []string{
			"export LD_PRELOAD=/shared/lib/libsynergy_cuda.so",
		}},
	// On a node.
	{"cmd/synergy-broker/main_test.go", "TestAJobIsStampedSentToTheSocketSeenAndForgotten",
		`"status", "--run-dir", dir, "--metrics"`, []string{
			"/usr/lib/synergy/node/synergy-broker status",
		}},
	{"cmd/synergy-broker/main_test.go", "TestThawSaysWhomItThawed",
		`"thaw", "--run-dir", dir`, []string{
			"/usr/lib/synergy/node/synergy-broker thaw",
		}},
	// A trainer that is measured, and GPUs.
	{"tests/live/profile_test.go", "TestSynergyProfileOnTheCluster",
		"c.profile(", []string{
			"synergy profile --batch",
		}},
	{"cmd/synergy/profile_test.go", "TestTheProfileCommand",
		"testdata/profile", []string{
			"synergy profile --local",
		}},
	{"tests/live/gres_test.go", "TestSlurmctldIsRightAboutANodeAsItIs",
		`"--check"`, []string{
			"synergy gres --check",
			"synergy gres --inventory n1.json --check",
		}},
	{"cmd/synergy/gres_test.go", "TestASampleIsATableOrALineOfJSON",
		"", []string{
			"synergy gres --gpus",
			"synergy gres --json=n1.json",
		}},
	{"cmd/synergy/gres_test.go", "TestAJobIsWatchedUntilItHasEnded",
		"", []string{
			"synergy gres --job 17",
		}},
	// On nodes.
	{"tests/live/node_test.go", "TestTasksAreToldWhatTheyHoldByPluginAndByScripts",
		"optional /usr/local/lib/slurm/synergy.so", []string{
			"install -D -m 0644 bin/synergy.so",
			"mv /usr/local/lib/slurm/synergy.so.new",
			"echo 'optional /usr/local/lib/slurm/synergy.so'",
		}},
	{"tests/node/plugin_test.go", "TestATaskThatIsToBeMeasuredIsAndNoOther",
		"measure", []string{
			"ln -s /usr/local/bin/synergy /etc/synergy/node/measure",
		}},
	// The daemon on its host.
	{"tests/live/systemd_test.go", "TestUnderSystemdTheUnitDoesAllThatAnAdministratorExpects",
		"--round", []string{
			"synergy-slurmd --round 300s",
		}},
	{"tests/live/check_test.go", "TestOnAClusterThatIsSetUpEverythingIsWell",
		`"--check"`, []string{
			"synergy-slurmd --check --",
		}},
	{"tests/live/planner_test.go", "TestAPolicyOfTwentyLinesDecidesWhoGoesFirst",
		"--planner-plugin", []string{
			"synergy-slurmd --planner-plugin",
		}},
	{"tests/live/slurmplugin_test.go", "TestKilledInTheMiddleOfRoundsAPluginThatDrivesSlurmLosesNothing",
		"--slurm-plugin-config", []string{
			"synergy-slurmd --slurm-plugin",
		}},
	{"tests/live/cluster_test.go", "TestTheDaemonsUserIsAnOperatorAndNoMore",
		`"sacctmgr"`, []string{
			"sacctmgr -i add user synergy",
		}},
	{"tests/live/check_test.go", "TestEachFaultOfASiteIsFoundBeforeTheDaemonIsSwitchedOn",
		"scontrol token username=synergy lifespan=", []string{
			"scontrol token",
		}},
	{"tests/live/preempt_test.go", "TestAJobOfAHigherTierHasThePlaceThatSlurmPreemptsForIt",
		"scontrol reconfigure", []string{
			"scontrol reconfigure",
		}},
	{"tests/live/packages_test.go", "TestPackagesAreInstalledUpgradedRemovedAndPurgedBesideARunningSlurm",
		"systemctl enable --now synergy-token.timer", []string{
			"systemctl enable --now synergy-token.timer",
		}},
	{"tests/live/packages_test.go", "TestPackagesAreInstalledUpgradedRemovedAndPurgedBesideARunningSlurm",
		`"systemctl enable --now " + unit`, []string{
			"systemctl enable --now synergy-slurmd",
		}},
	{"tests/live/packages_test.go", "TestPackagesAreInstalledUpgradedRemovedAndPurgedBesideARunningSlurm",
		"apt-get", []string{
			"apt install ./",
		}},
	{"tests/live/packages_test.go", "TestPackagesAreInstalledUpgradedRemovedAndPurgedBesideARunningSlurm",
		`"purge synergy-slurmd`, []string{
			"apt purge synergy-slurmd",
		}},
	{"tests/live/packages_test.go", "TestPackagesAreInstalledUpgradedRemovedAndPurgedBesideARunningSlurm",
		`"purge synergy-slurmd`, []string{
			"systemctl disable --now",
		}},
	{"tests/live/systemd_test.go", "TestUnderSystemdTheUnitDoesAllThatAnAdministratorExpects",
		"systemctl", []string{
			"systemctl ",
		}},
	{"tests/live/systemd_test.go", "TestUnderSystemdTheUnitDoesAllThatAnAdministratorExpects",
		"journalctl", []string{
			"journalctl",
		}},
	{"tests/live/rollout_test.go", "TestASiteGoesFromTheShadowToEverybodyAndTheDaemonsDeathOpensIt",
		"prove-failing-open", []string{
			"/usr/lib/synergy/prove-failing-open",
		}},
	{"tests/live/backfill_test.go", "TestTheBackfillThatIsSimulatedAgreesWithSlurms",
		"sacct", []string{
			"SLURM_TIME_FORMAT=%FT%T%z sacct",
		}},
	// What builds, and what tests.
	{".ci/run", "",
		"make test", []string{
			"make test",
		}},
	{"Makefile", "",
		"test-live: build build-nvml", []string{
			"make build",
		}},
	{"Makefile", "",
		"test-live: build build-nvml deft", []string{
			"make deft",
		}},
	{"tests/live/with-cluster.sh", "",
		`"$cluster" up`, []string{
			"make cluster-up",
		}},
	{"tests/live/with-cluster.sh", "",
		`"$cluster" down`, []string{
			"make cluster-down",
		}},
	{"tests/live/with-cluster.sh", "",
		`"$cluster" logs`, []string{
			"make cluster-logs",
		}},
	{"tests/live/with-cluster.sh", "",
		"SYNERGY_CLUSTER=$1", []string{
			"SYNERGY_CLUSTER=synergy go test",
		}},
	{"tests/live/packages_test.go", "TestPackagesAreInstalledUpgradedRemovedAndPurgedBesideARunningSlurm",
		"dist", []string{
			"make packages",
		}},
	{"tests/paper/main.go", "",
		"func main", []string{
			"make paper",
		}},
}

// never are the commands that nothing runs, and why.
var never = map[string]string{
	"curl -H \"X-SLURM-USER-TOKEN":     "asks a slurmrestd for its document, which is committed",
	"cd bridge/slurmrest":              "the same",
	"go generate ../slurmctld":         "the same; CI compiles what it wrote",
	"pip install ./python":             "changes the machine's Python; what is in the wheel is tested by python/tests",
	"python3 -m venv":                  "the same",
	"~/train/bin/pip":                  "the same",
	"export MASTER_ADDR=":              "two nodes with torch; the other lines are tested by python/tests_torch",
	"make test-faults":                 "twenty minutes; make test runs a part of it",
	"systemctl enable --now synergy-b": "its commands are run by cmd/synergy-broker",
	"make shell":                       "waits for a person",
	"make daemon":                      "ends with ^C; the live tests start the daemon with the same flags",
	"make cluster-status":              "only looks",
	"make spank":                       "the image of the cluster is built with the same makefile of spank/",
	"contrib/docker-slurm/cluster.sh":  "has words of a manual for arguments; the live tests call it",
}

// rowOf says which row of elsewhere a command is in, and how it begins there; the beginning of never with -1; or that
// it is in neither.
func rowOf(c command) (row int, begins string, found bool) {
	for i, r := range elsewhere {
		for _, prefix := range r.commands {
			if strings.HasPrefix(c.text, prefix) && len(prefix) > len(begins) {
				row, begins, found = i, prefix, true
			}
		}
	}
	for prefix := range never {
		if strings.HasPrefix(c.text, prefix) && len(prefix) > len(begins) {
			row, begins, found = -1, prefix, true
		}
	}
	return row, begins, found
}

func TestWhatIsRunElsewhereIsRunByATestThatThereIs(t *testing.T) {
	for _, row := range elsewhere {
		text, err := os.ReadFile("../" + row.file)
		if err != nil {
			t.Error(err)
			continue
		}
		if row.test != "" && !regexp.MustCompile(`(?m)^func `+row.test+`\(`).Match(text) {
			t.Errorf("%q: %s has no %s", row.commands, row.file, row.test)
		}
		if !strings.Contains(string(text), row.has) {
			t.Errorf("%q: %s has nothing of %q", row.commands, row.file, row.has)
		}
	}
}

// beside are files that belong to the test of a row: scripts that it runs, and what writes the command for it.
var beside = map[string][]string{
	"synergy gres --gpus":             {"cmd/synergy/testdata/gres/show.txtar"},
	"synergy gres --json=n1.json":     {"cmd/synergy/testdata/gres/show.txtar"},
	"synergy gres --job 17":           {"cmd/synergy/testdata/gres/show.txtar"},
	"synergy profile --local":         {"cmd/synergy/testdata/profile/local.txtar"},
	"synergy profile --batch":         {"cmd/synergy/testdata/profile/slurm.txtar"},
	"SLURM_TIME_FORMAT=%FT%T%z sacct": {"sim/trace/replayable.go"},
	"make test":                       {"Makefile", "mk/python.mk", "mk/packages.mk"},
	"make cluster-up":                 {"mk/cluster.mk"},
	"make cluster-down":               {"mk/cluster.mk"},
	"make cluster-logs":               {"mk/cluster.mk"},
	"make packages":                   {"mk/packages.mk"},
	"make paper":                      {"mk/paper.mk"},
	"systemctl disable --now":         {"packaging/scripts/slurmd-preremove.sh"},
}

// without are words of a command that the test of its row does without, and why.
var without = map[string]map[string]string{
	"squeue": {"--me": "it looks at another user's jobs", "--partition": "there is one",
		"--Format": "it asks for other columns, with --format"},
	"sbatch --comment=synergy-profile=res18.json": {"--wrap": "its job is a script on the standard input"},
	"sbatch --gres=gpu:1 --comment=synergy-profile=res18.json": {
		"--wrap": "its job is a script on the standard input"},
	"sbatch --partition=synergy --gres=gpu:1 --comment=synergy-profile=res18.json": {
		"--partition": "it is the default of its cluster", "--wrap": "its job is a script on the standard input"},
	"#SBATCH --nodes=2":            {"--nodes": "it is said as -N", "--gpus-per-node": "it is said as --gres"},
	"./train --resume":             {"--resume": "what its scripts train goes on by itself where it stopped"},
	"sacctmgr -i add user synergy": {"add": "the cluster's entrypoint adds him; the test is of what he then may"},
}

// verbs are the programs whose first word says what they do.
var verbs = map[string]bool{"synergy": true, "synergy-slurmd": true, "scontrol": true, "systemctl": true,
	"sacctmgr": true, "apt": true, "make": true, "deft": true}

// ownWords are those by which a command can be known: what its program is to do, and its long options.
func ownWords(c command) (words []string) {
	program, verb := c.program(), false
	for k, word := range c.args {
		switch {
		case word == "--": // what follows is another program's
			return words
		case strings.HasPrefix(word, "--"):
			name, _, _ := strings.Cut(word, "=")
			words = append(words, name)
		case k > 0 && !verb && verbs[program] && !strings.HasPrefix(word, "-") && plainWord.MatchString(word):
			words, verb = append(words, word), true
		}
	}
	return words
}

var plainWord = regexp.MustCompile(`^[a-z][a-z-]*$`)

// sourceOf is what a row's test is made of: its own function, what its file has beside tests, and the files beside it.
func sourceOf(t *testing.T, row runner, begins string) string {
	t.Helper()
	var all strings.Builder
	for _, file := range append([]string{row.file}, beside[begins]...) {
		text, err := os.ReadFile("../" + file)
		if err != nil {
			t.Error(err)
		}
		if row.test == "" {
			all.Write(text)
			continue
		}
		all.WriteString(otherTests.ReplaceAllStringFunc(string(text), func(function string) string {
			if strings.HasPrefix(function, "func "+row.test+"(") {
				return function
			}
			return ""
		}))
	}
	return all.String()
}

var otherTests = regexp.MustCompile(`(?ms)^func Test\w+\(.*?^}\n`)

// TestWhatRunsACommandElsewhereHasItsOwnWords: a test that runs synergy trace convert has convert, and each option that
// the page has, or the row says why not.
func TestWhatRunsACommandElsewhereHasItsOwnWords(t *testing.T) {
	used := map[string]bool{}
	looked := 0
	for _, c := range documented(t) {
		i, begins, found := rowOf(c)
		if !found || i < 0 || c.span {
			continue
		}
		source := sourceOf(t, elsewhere[i], begins)
		for _, word := range ownWords(c) {
			looked++
			why := without[begins][word]
			used[begins+" "+word] = true
			switch has := strings.Contains(source, word); {
			case !has && why == "":
				t.Errorf("%s: %s has nothing of %s", c, elsewhere[i].file, word)
			case has && why != "":
				t.Errorf("%s: %s has %s, which the row says it does without", c, elsewhere[i].file, word)
			}
		}
	}
	for begins, words := range without {
		for word := range words {
			if !used[begins+" "+word] {
				t.Errorf("%s: no page has %s there any more", begins, word)
			}
		}
	}
	for begins := range beside {
		if !slices.ContainsFunc(elsewhere, func(r runner) bool { return slices.Contains(r.commands, begins) }) {
			t.Errorf("%s: no row has it", begins)
		}
	}
	if looked < 100 {
		t.Errorf("%d words were looked for: the pages were not understood", looked)
	}
}
