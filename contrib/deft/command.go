package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/synergy-slurmd/synergy-slurmd/contrib/deft/experiment"
	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/printable"
)

// ownOptions are the user's own commands that run in place of emulated jobs.
type ownOptions struct {
	commands []string
	cores    int
	host     float64 // GB of the node's memory
}

func (o *ownOptions) define(c *cobra.Command) {
	flags := c.Flags()
	flags.StringArrayVar(&o.commands, "command", nil,
		"`NAME='SHELL COMMAND'`: what runs in place of the emulated job of the model whose output_file_name is NAME; "+
			"may be repeated")
	flags.IntVar(&o.cores, "cores", 1, "how many `cores` each command has")
	flags.Float64Var(&o.host, "memory", 4, "`GB` of the node's memory that each command has")
}

// Extensions of the files that a command's model has beside those of every model.
const (
	ownJobs = ".jobs" // the command's own CSV file
	ownOver = ".over" // the command has ended
)

const (
	mostCommand = 64 << 10
	mostOfLog   = 16 << 20 // that is searched for the line "model loaded"
	mostOfJobs  = 128 << 20
)

// byName are the commands by the models that they replace. Their size is checked only if there are any.
func (o *ownOptions) byName(t *trial) (map[string]string, error) {
	found := map[string]string{}
	for _, text := range o.commands {
		name, command, _ := strings.Cut(text, "=")
		_, twice := found[name]
		known := false
		for _, m := range t.Models {
			known = known || m.Out == name
		}
		switch {
		case strings.TrimSpace(command) == "":
			return nil, fmt.Errorf("--command %.60q: want NAME='SHELL COMMAND', with both", text)
		case !known:
			return nil, fmt.Errorf("--command %.60q: no model of the file has the output_file_name %.40q", text, name)
		case twice:
			return nil, fmt.Errorf("--command %.60q: there is one of %.40q already: want one of each model", text, name)
		case len(command) > mostCommand:
			return nil, fmt.Errorf("--command %.60q: %d bytes: want at most %d, and the rest in a script", text,
				len(command), mostCommand)
		}
		found[name] = command
	}
	if len(found) == 0 {
		return found, nil
	}
	if o.cores < 1 || o.cores > 1024 {
		return nil, fmt.Errorf("--cores %d: want 1 to 1024", o.cores)
	}
	if !(o.host >= 0.1 && o.host <= 1e5) {
		return nil, fmt.Errorf("--memory %g: want GB, from 0.1 to 100000", o.host)
	}
	return found, nil
}

// size is the size of each command's job.
func (o *ownOptions) size() gres.Vector {
	return gres.Vector{GPUs: 1, CPUs: o.cores, Memory: gres.Memory(1000 * o.host)}
}

// ownScript is the batch script of a user's command. The command gets the line "run" on its standard input when the
// file appears that starts the emulated jobs, too. The command is interpreted by the user's own shell; everything else
// is quoted. If the command ends before that, or the file never appears, the loop that waits for it ends, too.
func (r *clusterRun) ownScript(i int, command string) string {
	name := r.Models[i].Out
	return fmt.Sprintf(`#!/bin/sh
export SYNERGY_SHARE_CSV=%s
export SYNERGY_SHARE_PROGRESS=%s
export SYNERGY_SHARE_RUN=%s
over=%s
{
    n=0
    until [ -e "$SYNERGY_SHARE_RUN" ] || [ -e "$over" ]; do
        n=$((n + 1))
        [ "$n" -lt %d ] || { echo 'nobody said run' >&2; exit 1; }
        sleep 0.1
    done
    [ -e "$over" ] || echo run
} | { sh -c %s; code=$?; : > "$over"; exit "$code"; }
`, forShell(r.inFolder(name+ownJobs)), forShell(r.inFolder(name+".progress")), forShell(r.inFolder("run")),
		forShell(r.inFolder(name+ownOver)),
		int(r.queue/(100*time.Millisecond)), forShell(command))
}

// forShell quotes a text, so that a shell takes it as one word.
func forShell(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

// saysLoaded reports whether a command's log has the line "model loaded". A log that cannot be read yet has none.
// Progress bars end lines with carriage returns.
func saysLoaded(path string) bool {
	text, err := beginning(path, mostOfLog)
	if err != nil {
		return false
	}
	lines := strings.FieldsFunc(string(text), func(c rune) bool { return c == '\n' || c == '\r' })
	for _, line := range lines {
		if strings.TrimSpace(line) == "model loaded" {
			return true
		}
	}
	return false
}

// ownDone reads the jobs in a command's own file. The command may be writing to it, so an incomplete last row is
// ignored.
func ownDone(path string) ([]experiment.Job, error) {
	text, err := beginning(path, mostOfJobs)
	if err != nil {
		return nil, err
	}
	text = text[:bytes.LastIndexByte(text, '\n')+1]
	if len(text) == 0 {
		return nil, nil
	}
	jobs, err := experiment.ReadJobs(bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", printable.Line(path, longestSentence), err)
	}
	return jobs, nil
}

// beginning is the first bytes of a file, at most most.
func beginning(path string, most int64) (text []byte, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	return io.ReadAll(io.LimitReader(file, most))
}
