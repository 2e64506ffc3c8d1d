package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/policy"
	"github.com/synergy-slurmd/synergy-slurmd/share"
)

const fiveMinutes = 5 * time.Minute

func TestAConfigurationThatNamesItsPartitionsIsEnough(t *testing.T) {
	config, err := parseConfig([]byte("partitions: [gpu]"), fiveMinutes)
	if err != nil {
		t.Fatal(err)
	}
	want := defaults(fiveMinutes)
	want.Partitions = []string{"gpu"}
	if describe(config) != describe(want) {
		t.Errorf("it is\n%s, want\n%s", describe(config), describe(want))
	}
}

// describe writes a configuration so that two can be compared: policies hold functions, which cannot.
func describe(c Config) string {
	names := c.Policy.Name + ", " + c.Allocator.Name
	c.Policy, c.Allocator = policy.Policy{}, policy.Allocator{}
	return fmt.Sprintf("%s: %+v", names, c)
}

func TestEverySettingOfTheFileIsTakenOver(t *testing.T) {
	config, err := parseConfig([]byte(`
partitions: [gpu, big]
policy: srtf
allocator: greedy
profile_dirs:
  - /a
  - /b
learned: /var/lib/learned
match:
  - {user: ann, job_name: "img-*", profile: res50.json, checkpoint: true}
  - {account: ml, partition: big, profile: auto}
savings: /var/lib/savings
history: {path: /var/lib/history, keep: 90d, max_gib: 7}
lease: 20m
ahead: 7
rules:
  min_run: 1m
  max_preemptions: 3
  max_restarts: 7
  horizon: 2h
  payback: 20m
  patience: 3h
  stranded: 0.25
preempt_without_checkpoint: true
save_at_limit: false
estimate_starts: false
restart_cost: 7s
audit_window: 9s
checkpoint_hook:
  before: [/bin/echo, a b]
  after: [/bin/true]
  timeout: 5s
start_timeout: 8s
concurrency: 2
rate: 1.5
heartbeat: /run/synergy/heartbeat
profiles_file: /run/synergy/profiles
keep:
  cores: true
  memory: false
  steps: false
share:
  gpu_memory: 79.5GiB
  by_feature:
    h100: 81559MiB
    a100: 40GiB
  mode: fill
  mode_by_feature: {a100: turns}
canary:
  partitions: [big]
  accounts: [ml, vision]
`), fiveMinutes)
	if err != nil {
		t.Fatal(err)
	}
	want := Config{
		Partitions: []string{"gpu", "big"}, Policy: policy.SRTF(), Allocator: policy.Greedy(),
		ProfileDirs: []string{"/a", "/b"},
		Learned:     "/var/lib/learned",
		Match: []bridge.Match{{User: "ann", Name: "img-*", Profile: "res50.json", Saves: true},
			{Account: "ml", Partition: "big"}},
		Savings: "/var/lib/savings",
		History: historyConfig{Path: "/var/lib/history", Keep: 90 * day, MostGiB: 7},
		Lease:   20 * time.Minute, Ahead: 7,
		Rules: policy.Rules{MinRun: time.Minute, MaxPreemptions: 3, MaxRestarts: 7, Horizon: 2 * time.Hour,
			Payback: 20 * time.Minute, Patience: 3 * time.Hour, Stranded: 0.25},

		PreemptWithoutCheckpoint: true, RestartCost: 7 * time.Second, Audit: 9 * time.Second,
		Hook:         hook{[]string{"/bin/echo", "a b"}, []string{"/bin/true"}, 5 * time.Second},
		StartTimeout: 8 * time.Second, Concurrency: 2, Rate: 1.5, Heartbeat: "/run/synergy/heartbeat",
		ProfilesFile: "/run/synergy/profiles", Keep: bridge.Keep{Cores: true},
		Sharing: bridge.Sharing{GPUMemory: 81408,
			ByFeature: map[string]gres.Memory{"h100": 81559, "a100": 40960},
			Mode:      share.Fill, ModeByFeature: map[string]share.Mode{"a100": share.Turns}},
		Canary: bridge.Canary{Partitions: []string{"big"}, Accounts: []string{"ml", "vision"}},
	}
	if describe(config) != describe(want) {
		t.Errorf("it is\n%s, want\n%s", describe(config), describe(want))
	}
}

func TestAWrongConfigurationIsRefusedWithLineKeyValueAndRemedy(t *testing.T) {
	for text, want := range map[string]string{
		"partitions: [a]\npolcy: las":                              `^line 2: polcy: unknown key: did you mean policy\?$`,
		"partitions: [a]\nrules: {min_rum: 1s}":                    `^line 2: rules\.min_rum: unknown key: did you mean rules\.min_run\?$`,
		"partitions: [a]\npolicy: lifo":                            `^line 2: policy: .*"lifo": want one of fifo, srtf, srsf, las, ftf, drf, tetris, slurm$`,
		"partitions: [a]\nallocator: all":                          `^line 2: allocator: .*"all": want one of proportional, greedy, tune, opt`,
		"partitions: [a]\npolicy: [las]":                           `^line 2: policy: want one value, not a list`,
		"partitions: [a]\npolicy: &x las":                          ``,
		"partitions: [a]\npolicy:":                                 `^line 2: policy: has no value: give it one, or remove the key`,
		"partitions: [a]\npolicy: ''":                              `^line 2: policy: has no value`,
		"partitions: [a]\npartitions: [b]":                         `^line 2: partitions: is already set in line 1: remove one$`,
		"policy: las":                                              `^partitions: none is named: .*partitions: \[gpu\]$`,
		"partitions: []":                                           `^line 1: partitions: want a list of at least one, as \[a, b\]$`,
		"partitions: gpu":                                          `^line 1: partitions: want a list`,
		"partitions: [a, a]":                                       `^line 1: partitions: "a" stands there twice`,
		"partitions: ['a,b']":                                      `^line 1: partitions: "a,b" is not the name of one partition: list them`,
		"partitions: [[a]]":                                        `^line 1: partitions: want one value`,
		"partitions: [a]\nprofile_dirs: [profiles]":                `^line 2: profile_dirs: "profiles" is not an absolute path`,
		"partitions: [a]\nlease: 900":                              `^line 2: lease: "900" has no unit: want 900s for seconds`,
		"partitions: [a]\nlease: 25h":                              `^line 2: lease: 25h is out of range: want 1s to 24h$`,
		"partitions: [a]\nlease: 9m":                               `^lease: 9m0s is less than 2 rounds of 5m0s: make it at least 10m0s, or the rounds shorter`,
		"partitions: [a]\nlease: 10m":                              ``,
		"partitions: [a]\nrules: 7":                                `^line 2: rules: has no keys below it: want some of min_run`,
		"partitions: [a]\nrules: {stranded: nan}":                  `^line 2: rules\.stranded: "nan": want a number from 0.001 to 1$`,
		"partitions: [a]\nrules: {stranded: 2}":                    `^line 2: rules\.stranded: "2": want a number`,
		"partitions: [a]\nconcurrency: 0":                          `^line 2: concurrency: "0": want a whole number from 1 to 64$`,
		"partitions: [a]\nconcurrency: 2.5":                        `^line 2: concurrency: "2.5": want a whole number`,
		"partitions: [a]\nheartbeat: here":                         `^line 2: heartbeat: "here" is not an absolute path`,
		"partitions: [a]\nprofiles_file: here":                     `^line 2: profiles_file: "here" is not an absolute path`,
		"partitions: [a]\nkeep: {core: true}":                      `^line 2: keep\.core: unknown key: did you mean keep\.cores\?$`,
		"partitions: [a]\nkeep: {steps: 1}":                        `^line 2: keep\.steps: "1": want true or false$`,
		"partitions: [a]\nshare: {gpu_memory: 80}":                 `^line 2: share\.gpu_memory: "80": want the memory of one GPU, 1MiB to 1024GiB, as`,
		"partitions: [a]\nshare: {gpu_memory: -1GiB}":              `^line 2: share\.gpu_memory: "-1GiB": want`,
		"partitions: [a]\nshare: {gpu_memory: 1025GiB}":            `^line 2: share\.gpu_memory: "1025GiB": want`,
		"partitions: [a]\nshare: {gpu_memory: 0.9MiB}":             `^line 2: share\.gpu_memory: "0.9MiB": want`,
		"partitions: [a]\nshare: {by_feature: 80GiB}":              `^line 2: share\.by_feature: want 1 to 100 features`,
		"partitions: [a]\nshare: {by_feature: {}}":                 `^line 2: share\.by_feature: want 1 to 100 features`,
		"partitions: [a]\nshare: {by_feature: {a: 1}}":             `^line 2: share\.by_feature: a: "1": want`,
		"partitions: [a]\nshare: {by_feature: {'a,b': 1GiB}}":      `^line 2: share\.by_feature: "a,b" is not the name`,
		"partitions: [a]\nshare: {by_feature: {a: 1GiB, a: 2GiB}}": `^line 2: share\.by_feature: "a" stands there twice`,
		"partitions: [a]\nshare: {mem: 80GiB}":                     `^line 2: share\.mem: unknown key: did you mean share\.mode\?$`,
		"partitions: [a]\nshare: {mode: mps}":                      `^line 2: share\.mode: "mps": want turns or fill$`,
		"partitions: [a]\nshare: {mode: lookahead}":                `^line 2: share\.mode: "lookahead": want turns or fill$`,
		"partitions: [a]\nshare: {mode: [fill]}":                   `^line 2: share\.mode: want one value`,
		"partitions: [a]\nshare: {mode_by_feature: fill}":          `^line 2: share\.mode_by_feature: want 1 to 100 features of nodes with the mode there, as {h100: fill}$`,
		"partitions: [a]\nshare: {mode_by_feature: {a: Fill}}":     `^line 2: share\.mode_by_feature: a: "Fill": want turns or fill$`,
		"partitions: [a]\ncanary: {}":                              `^line 2: canary: names nobody: give it accounts or`,
		"partitions: [a]\ncanary:":                                 `^line 2: canary: has no keys below it: want some of part`,
		"partitions: [a]\ncanary: {accounts: ML}":                  `^line 2: canary\.accounts: want a list`,

		"partitions: [a]\ncanary: {accounts: [ML]}":  `^line 2: canary\.accounts: "ML" is not the name of one account`,
		"partitions: [a]\ncanary: {partitions: [b]}": `^canary\.partitions: "b" is none of partitions: name some`,

		"partitions: [a]\nsavings: here":         `^line 2: savings: "here" is not an absolute path`,
		"partitions: [a]\nrate: fast":            `^line 2: rate: "fast": want a number from 0.1 to 10000$`,
		"partitions: [a]\nhistory: {keep: 9600}": `^line 2: history\.keep: "9600" has no unit: want 9600s`,
		"partitions: [a]\nhistory: {path: here}": `^line 2: history\.path: "here" is not an absolute path`,
		"partitions: [a]\nhistory: {max_gib: 0}": `^line 2: history\.max_gib: "0": want a whole number from 1`,

		"partitions: [a]\npreempt_without_checkpoint: yes":       `^line 2: preempt_without_checkpoint: "yes": want true or false$`,
		"partitions: [a]\ncheckpoint_hook: {before: save}":       `^line 2: checkpoint_hook\.before: want a list`,
		"partitions: [a]\ncheckpoint_hook: {before: [save, -a]}": `^line 2: checkpoint_hook\.before: "save" is not an absolute path: name the program as`,

		"":                     `^is empty: name the partitions`,
		"# nothing":            `^is empty`,
		"- a":                  `^line 1: want keys with values`,
		"partitions: [":        `^line \d: `,
		"a: 1\n---\nb: 1":      `^line 2: a second document begins`,
		"a: 1\n---\nb: [":      `^line [34]: `,
		"rate: x\nlease: soon": `(?s)^line 1: rate.*\nline 2: lease`,
	} {
		_, err := parseConfig([]byte(text), fiveMinutes)
		switch {
		case want == "" && err != nil:
			t.Errorf("%q: %v", text, err)
		case want == "":
		case err == nil:
			t.Errorf("%q was taken", text)
		case !regexp.MustCompile(want).MatchString(err.Error()):
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

func TestTheLeaseFollowsTheRound(t *testing.T) {
	for round, want := range map[time.Duration]time.Duration{time.Second: 15 * time.Minute,
		fiveMinutes: 15 * time.Minute, time.Hour: 3 * time.Hour} {
		if lease := defaults(round).Lease; lease != want {
			t.Errorf("rounds of %s have leases of %s, want %s", round, lease, want)
		}
	}
}

// The example says that what is commented out is the default, so without its comment signs it must change nothing.
func TestTheExampleShowsTheDefaults(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "etc", "synergy-slurmd.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	plain, err := parseConfig(text, fiveMinutes)
	if err != nil {
		t.Fatal(err)
	}
	shown := regexp.MustCompile(`(?m)^#(\S|  \S)`).ReplaceAllString(string(text), "$1")
	full, err := parseConfig([]byte(shown), fiveMinutes)
	if err != nil {
		t.Fatalf("%v in\n%s", err, shown)
	}
	// the example's programs and files
	full.Hook.before, full.Hook.after, full.Heartbeat, full.ProfilesFile, full.Learned = nil, nil, "", "", ""
	full.Match, full.Canary, full.Sharing = nil, bridge.Canary{}, bridge.Sharing{}
	theDefaults(t, &full.Rules)
	if describe(full) != describe(plain) {
		t.Errorf("uncommented it is\n%s, want\n%s", describe(full), describe(plain))
	}
	for _, k := range keys() {
		if own := k.name[strings.LastIndex(k.name, ".")+1:]; !strings.Contains(shown, own+":") {
			t.Errorf("%s is missing", k.name)
		}
	}
}

// theDefaults checks the rules whose zero value stands for a default, and puts the zero values in their places.
func theDefaults(t *testing.T, rules *policy.Rules) {
	t.Helper()
	if rules.Horizon != policy.DefaultHorizon || rules.Payback != policy.DefaultPayback ||
		rules.Patience != policy.DefaultPatience ||
		rules.Stranded != policy.DefaultStranded {
		t.Errorf("the rules are not the planner's defaults: %+v", rules)
	}
	rules.Horizon, rules.Payback, rules.Patience, rules.Stranded = 0, 0, 0, 0
}

func TestTheManualNamesEveryKey(t *testing.T) {
	manual := read(t, "operations.md")
	for _, k := range keys() {
		if !strings.Contains(manual, "`"+k.name+"`") {
			t.Errorf("docs/operations.md does not explain %s", k.name)
		}
	}
}

func read(t *testing.T, manual string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", manual))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Whatever the file holds, it is taken over within the limits or refused; nothing panics.
func FuzzParseConfig(f *testing.F) {
	f.Add([]byte("partitions: [gpu]\npolicy: las\nlease: 15m\nrules: {min_run: 10m}\n"))
	f.Add([]byte("partitions: [gpu]\n<<: *a\nrules:\n  stranded: .nan\n"))
	f.Add([]byte("- 1\n--- \n? {}"))
	f.Fuzz(func(t *testing.T, text []byte) {
		config, err := parseConfig(text, time.Minute)
		if err != nil {
			return
		}
		if len(config.Partitions) == 0 || config.Lease < 2*time.Minute || config.Lease > day ||
			config.Concurrency < 1 || config.Rules.Stranded > 1 {
			t.Errorf("%q is taken over as %+v", text, config)
		}
	})
}
