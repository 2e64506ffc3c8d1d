package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/rs/zerolog"

	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurmrest"
	"github.com/synergy-slurmd/synergy-slurmd/preflight"
	"github.com/synergy-slurmd/synergy-slurmd/share"
)

// lookLimit bounds the whole check, since an administrator waits for it.
const lookLimit = 2 * time.Minute

// runPreflight is --check: it prints whether Slurm and this host are ready for the daemon, and returns the exit code.
func runPreflight(f flags, config Config, stdout, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, lookLimit)
	defer cancel()
	lines := append(preflight.All(gather(ctx, f, config)), stageLines(ctx, f, config)...)
	if err := showLines(stdout, f, lines); err != nil {
		fmt.Fprintln(stderr, "synergy-slurmd:", err)
		return exitFailed
	}
	if !preflight.Ready(lines) {
		return exitFailed
	}
	return exitGood
}

// showLines writes the lines of the check, and as text their counts by verdict.
func showLines(out io.Writer, f flags, lines []preflight.Line) error {
	if f.asJSON {
		encoder := json.NewEncoder(out)
		encoder.SetIndent("", "  ")
		return encoder.Encode(lines)
	}
	counts := map[preflight.Verdict]int{}
	for _, line := range lines {
		counts[line.Verdict]++
		if _, err := fmt.Fprintln(out, oneLine(line.String())); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(out, "%d ok, %d warn, %d fail, %d skip\n", counts[preflight.OK], counts[preflight.Warn],
		counts[preflight.Fail], counts[preflight.Skip])
	return err
}

// gather collects the facts for the check. In Slurm it only submits held jobs for the rehearsal, and cancels them
// again.
func gather(ctx context.Context, f flags, config Config) preflight.Facts {
	facts := preflight.Facts{Wanted: wanted(f, config), Here: here(f, config)}
	facts.Scontrol = configOf(ctx, f)
	folder := slurmFolder(facts.Scontrol.Value)
	facts.Settings, facts.Options = settingsIn(folder), pluginIn(folder)
	if f.slurmPlugin != "" {
		askPlugin(ctx, &facts, f, config)
		return facts
	}
	facts.Token = tokenOf(f)
	askSlurm(ctx, &facts, f, config)
	return facts
}

// factOf is a value as a fact, or its error as the reason why it is unknown.
func factOf[T any](value T, err error) preflight.Known[T] {
	if err != nil {
		return preflight.Unknown[T](err.Error())
	}
	return preflight.Known[T]{Value: value}
}

// tokenOf is whose the token is, and for how long it is good; 0: it does not end.
func tokenOf(f flags) preflight.Known[preflight.Token] {
	user, ends, err := slurmrest.ReadToken(f.tokenFile)
	token := preflight.Token{User: user}
	if !ends.IsZero() {
		token.Left = time.Until(ends)
	}
	return factOf(token, err)
}

// askPlugin collects what a plugin in Slurm's place can tell. The rest is unknown.
func askPlugin(ctx context.Context, facts *preflight.Facts, f flags, config Config) {
	const its = "a plugin drives the workload manager"
	facts.Level = preflight.Unknown[string](its)
	facts.Names = preflight.Unknown[preflight.Names](its)
	facts.Gates = preflight.Unknown[map[string]preflight.Gate](its)
	facts.Threads = preflight.Unknown[int](its)
	facts.Weights = preflight.Unknown[map[string]string](its)
	facts.Scontrol = preflight.Unknown[map[string]string](its)
	client, err := (&connector{flags: f, log: zerolog.Nop()}).dialPlugin(ctx, config)
	if err != nil {
		facts.Slurm, facts.Partitions = preflight.Unknown[preflight.Slurm](err.Error()),
			preflight.Unknown[map[string]int](its)
		facts.Nodes = preflight.Unknown[[]preflight.Node](its)
		return
	}
	defer client.close()
	all, err := client.Observe(ctx)
	facts.Slurm, facts.Partitions = slurmFact(all, err), factOf(gpusBehind(all), err)
	facts.Nodes = factOf(nodesOf(all), err)
}

// askSlurm collects the facts from slurmrestd. If it does not answer at all, all of them are unknown.
func askSlurm(ctx context.Context, facts *preflight.Facts, f flags, config Config) {
	client, err := slurmrest.Open(ctx, (&connector{flags: f}).options(config))
	if err == nil {
		defer client.Close()
		all, err := client.Observe(ctx)
		facts.Slurm, facts.Nodes = slurmFact(all, err), factOf(nodesOf(all), err)
	} else {
		facts.Slurm = preflight.Unknown[preflight.Slurm](err.Error())
	}
	if facts.Slurm.Why != "" {
		const silent = "Slurm did not answer"
		facts.Level, facts.Partitions = preflight.Unknown[string](silent), preflight.Unknown[map[string]int](silent)
		facts.Names = preflight.Unknown[preflight.Names](silent)
		facts.Gates, facts.Threads = preflight.Unknown[map[string]preflight.Gate](silent),
			preflight.Unknown[int](silent)
		facts.Nodes = preflight.Unknown[[]preflight.Node](silent)
		facts.Weights = preflight.Unknown[map[string]string](silent)
		return
	}
	facts.Wanted.Requeues = client.Version() >= requeues
	facts.Level = factOf(client.Level(ctx, f.user))
	accounts, users, err := client.Accounting(ctx)
	facts.Names = factOf(preflight.Names{Accounts: accounts, Users: users}, err)
	facts.Threads = factOf(client.ThreadsPerCore(ctx))
	partitions, release, err := client.Partitions(ctx)
	facts.Slurm.Value.API, facts.Slurm.Value.Release = client.Version(), release
	facts.Partitions, facts.Weights = factOf(gpusOf(partitions), err), factOf(weightsOf(partitions), err)
	facts.Gates = rehearse(ctx, client, facts, f)
}

// requeues is the first version of the API that can requeue jobs. Versions compare as texts, since all are written with
// as many digits.
const requeues = "v0.0.45"

// slurmFact is what an observation says. It takes a valid token to get one.
func slurmFact(all slurm.Observed, err error) preflight.Known[preflight.Slurm] {
	answer := preflight.Slurm{Nodes: len(all.Nodes), Ahead: time.Until(all.At)}
	for _, job := range all.Jobs {
		if job.State != slurm.Finished {
			answer.Jobs++
		}
		// Jobs that Slurm could start now if there were room.
		if job.State == slurm.Pending && !job.Held && !job.Dependency && job.Lease == 0 && !job.Begin.After(all.At) {
			answer.Eligible++
		}
	}
	return factOf(answer, err)
}

// gpusBehind is the number of GPUs by partition, as the nodes say.
func gpusBehind(all slurm.Observed) map[string]int {
	gpus := make(map[string]int)
	for _, node := range all.Nodes {
		for _, name := range node.Partitions {
			gpus[name] += node.Total.GPUs
		}
	}
	return gpus
}

// nodesOf are the nodes with GPUs, and whether these can be shared.
func nodesOf(all slurm.Observed) (nodes []preflight.Node) {
	for _, n := range all.Nodes {
		if n.Total.GPUs == 0 {
			continue
		}
		node := preflight.Node{Name: n.Name, Features: n.Features, Partitions: n.Partitions, GPUs: n.Total.GPUs,
			Broker: slices.Contains(n.Features, share.Announced)}
		for _, d := range n.Devices {
			node.Shards = append(node.Shards, d.Shards)
		}
		nodes = append(nodes, node)
	}
	return nodes
}

// gpusOf is the number of GPUs by partition, as Slurm's list of partitions has it.
func gpusOf(partitions []slurmrest.Partition) map[string]int {
	all := make(map[string]int)
	for _, p := range partitions {
		all[p.Name] = p.GPUs
	}
	return all
}

// weightsOf are the billing weights by partition (TRESBillingWeights).
func weightsOf(partitions []slurmrest.Partition) map[string]string {
	all := make(map[string]string)
	for _, p := range partitions {
		all[p.Name] = p.Weights
	}
	return all
}

// trials is how many partitions beside the managed ones the gate is tried in.
const trials = 30

// rehearse submits a held job in each partition of the cluster to try the gate: it must gate the managed partitions and
// leave the others alone. The comment of that job is one that the gate accepts, so a refusal is the gate's fault. If
// one trial fails nothing is known of the gate.
func rehearse(ctx context.Context, client *slurmrest.Client, facts *preflight.Facts,
	f flags) preflight.Known[map[string]preflight.Gate] {
	switch {
	case f.shadow:
		return preflight.Unknown[map[string]preflight.Gate]("--shadow changes nothing, and a trial submits a held job")
	case f.alone:
		return preflight.Unknown[map[string]preflight.Gate]("--alone: the daemon's user submits no jobs")
	}
	gates := make(map[string]preflight.Gate)
	for _, name := range trialPartitions(facts) {
		r, err := client.Rehearse(ctx, name, rehearsed(facts))
		switch {
		case err != nil && r.Left != 0:
			err = fmt.Errorf("%w: the held job %d of this check is still there: scancel %[2]d", err, r.Left)
		case err != nil:
			err = fmt.Errorf("%w: should a held job %s be there, scancel it", err, slurmrest.RehearsalName)
		}
		if err != nil {
			return preflight.Unknown[map[string]preflight.Gate](err.Error())
		}
		gates[name] = gateOf(r, isAway(facts))
	}
	return preflight.Known[map[string]preflight.Gate]{Value: gates}
}

// trialPartitions are the managed partitions that exist, and at most trials of the others. Each trial is a job that is
// submitted, so a cluster with many partitions is not tried whole.
func trialPartitions(facts *preflight.Facts) (ours []string) {
	var others []string
	for name := range facts.Partitions.Value {
		if slices.Contains(facts.Wanted.Partitions, name) {
			ours = append(ours, name)
		} else {
			others = append(others, name)
		}
	}
	slices.Sort(ours)
	slices.Sort(others)
	return append(ours, others[:min(len(others), trials)]...)
}

// rehearsed is a comment that the gate accepts.
func rehearsed(facts *preflight.Facts) string {
	name := "check.json"
	for _, folder := range facts.Here.Profiles {
		if len(folder.Names) > 0 {
			name = folder.Names[0]
			break
		}
	}
	return "synergy-profile=" + name + " synergy-checkpoint"
}

// notSupported is Slurm's ESLURM_NOT_SUPPORTED, the error with which the gate refuses.
const notSupported = 2036

// gateOf is what a rehearsal says of the gate. away: the gate lets all jobs pass, since the heartbeat is stale.
func gateOf(r slurmrest.Rehearsal, away bool) preflight.Gate {
	g := preflight.Gate{Annotated: r.Annotated, Lease: r.Lease, Left: r.Left, Away: away}
	if failure := (*slurmrest.Failure)(nil); errors.As(r.Refused, &failure) {
		g.Lua = failure.Number == notSupported
	}
	if r.Refused != nil {
		g.Refused = r.Refused.Error()
	}
	if r.Update != nil {
		g.Untrusted = r.Update.Error()
	}
	return g
}

// staleAfter is from which age of the heartbeat the gate lets everything pass, in the settings as shipped.
const staleAfter = 15 * time.Minute

// isAway reports whether the gate looks for a heartbeat and finds none that is recent. Where the heartbeat is looked
// for is in the gate's settings. If these are on another host, it is where the daemon writes it.
func isAway(facts *preflight.Facts) bool {
	path := facts.Settings.Value.Heartbeat
	if facts.Settings.Why != "" {
		path = facts.Wanted.Heartbeat
	}
	if path == "" {
		return false
	}
	info, err := os.Stat(path)
	return err != nil || time.Since(info.ModTime()) > staleAfter
}

// maxConfig bounds the output of scontrol, in bytes.
const maxConfig = 1 << 20

// configOf is slurm.conf as scontrol shows it. scontrol gets only the environment that it needs.
func configOf(ctx context.Context, f flags) preflight.Known[map[string]string] {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	program := exec.CommandContext(ctx, f.scontrol, "show", "config")
	program.Env = []string{"PATH=" + os.Getenv("PATH")}
	if conf, set := os.LookupEnv("SLURM_CONF"); set {
		program.Env = append(program.Env, "SLURM_CONF="+conf)
	}
	if f.byToken {
		if token, err := os.ReadFile(f.tokenFile); err == nil {
			program.Env = append(program.Env, "SLURM_JWT="+strings.TrimPrefix(strings.TrimSpace(string(token)),
				"SLURM_JWT="))
		}
	}
	said := &tail{limit: 200}
	program.Stderr, program.WaitDelay = said, time.Second
	setProcessGroup(program)
	text, err := program.Output()
	if err != nil {
		return preflight.Unknown[map[string]string](oneLine(fmt.Sprintf("%s show config: %v: %s", f.scontrol, err,
			said)))
	}
	return preflight.Known[map[string]string]{Value: pairs(text[:min(len(text), maxConfig)])}
}

// pairs reads lines such as "KillWait   = 10 sec".
func pairs(text []byte) map[string]string {
	all := make(map[string]string)
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		if key, value, is := strings.Cut(lines.Text(), "="); is {
			all[strings.TrimSpace(key)] = oneLine(strings.TrimSpace(value))
		}
	}
	return all
}

// slurmFolder is the folder of slurm.conf.
func slurmFolder(config map[string]string) string {
	for _, path := range []string{os.Getenv("SLURM_CONF"), config["SLURM_CONF"]} {
		if filepath.IsAbs(path) {
			return filepath.Dir(path)
		}
	}
	return "/etc/slurm"
}

// maxSettings bounds a file of settings, in bytes.
const maxSettings = 64 << 10

// settingsIn reads the gate's settings, if this is slurmctld's host.
func settingsIn(folder string) preflight.Known[preflight.Settings] {
	path := filepath.Join(folder, "synergy_settings.lua")
	text, err := readSome(path, maxSettings)
	if err != nil {
		return preflight.Unknown[preflight.Settings]("not on this host: " + err.Error())
	}
	return factOf(parseSettings(path, string(text)))
}

// readSome reads at most so many bytes of a file.
func readSome(path string, bytes int64) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return io.ReadAll(io.LimitReader(file, bytes))
}

var (
	luaComment = regexp.MustCompile(`--[^\n]*`)
	luaText    = regexp.MustCompile(`["']([^"'\n]*)["']`)
	luaKey     = regexp.MustCompile(`\b(managed_partitions|heartbeat_file|profiles_file|keep_shards)\s*=`)
	luaSwitch  = regexp.MustCompile(`\bkeep_shards\s*=\s*(true|false)\b[ \t]*(?:[,;}\n]|return\b|$)`)
	luaPair    = regexp.MustCompile(`\b(\w+)\s*=\s*(\{[^{}]*\}|"[^"\n]*"|'[^'\n]*')[ \t]*(?:[,;}\n]|return\b|$)`)
	luaList    = regexp.MustCompile(`^\{\s*(?:(?:"[^"\n]*"|'[^'\n]*')\s*(?:[,;]\s*|\}$))*\}?$`)
)

// parseSettings reads the values that the Lua file writes out. It is an error if a value is computed by the file. A key
// that is missing has its default.
func parseSettings(path, text string) (preflight.Settings, error) {
	s := preflight.Settings{Path: path, Partitions: []string{"synergy"}}
	text = luaComment.ReplaceAllString(text, "")
	// Keys that the file sets, until their values are found written out: the rest is computed by the file.
	worked := make(map[string]bool)
	for _, key := range luaKey.FindAllStringSubmatch(text, -1) {
		worked[key[1]] = true
	}
	if is := luaSwitch.FindStringSubmatch(text); is != nil {
		delete(worked, "keep_shards")
		s.KeepShards = is[1] == "true"
	}
	for _, pair := range luaPair.FindAllStringSubmatch(text, -1) {
		if pair[2][0] != '{' || luaList.MatchString(pair[2]) {
			delete(worked, pair[1])
		}
		var texts []string
		for _, found := range luaText.FindAllStringSubmatch(pair[2], -1) {
			texts = append(texts, found[1])
		}
		switch key := pair[1]; {
		case key == "managed_partitions":
			s.Partitions = texts
		case key == "heartbeat_file" && len(texts) == 1:
			s.Heartbeat = texts[0]
		case key == "profiles_file" && len(texts) == 1:
			s.ProfilesFile = texts[0]
		}
	}
	for _, key := range slices.Sorted(maps.Keys(worked)) {
		return s, fmt.Errorf("%s works %s out, which is not known from here", path, key)
	}
	return s, nil
}

// plugged matches a line of plugstack.conf that loads the plugin and is no comment.
var plugged = regexp.MustCompile(`(?m)^[^#\n]*synergy\.so`)

// pluginIn reports whether the SPANK plugin is set up on this host.
func pluginIn(folder string) preflight.Known[bool] {
	paths, _ := filepath.Glob(filepath.Join(folder, "plugstack.conf.d", "*")) // the pattern is valid
	for _, path := range append(paths, filepath.Join(folder, "plugstack.conf")) {
		text, err := readSome(path, maxSettings)
		if err == nil && plugged.Match(text) {
			return preflight.Known[bool]{Value: true}
		}
	}
	return preflight.Known[bool]{}
}
