package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/gres/inventory"
)

// verdict is the result of --check as JSON.
type verdict struct {
	Version     int                    `json:"version"`
	Node        string                 `json:"node"`
	States      []string               `json:"state"`   // of the node in Slurm
	Reason      string                 `json:"reason"`  // why it is drained or down, if it is
	Sources     []string               `json:"sources"` // the programs asked: slurmctld, and slurmd if possible
	Differences []inventory.Difference `json:"differences"`
}

// checkNode writes where Slurm is wrong about the node. A difference is an error, for the exit status. If slurmd cannot
// be asked or cannot read its gres.conf, the comparison with slurmctld is still made, and that error is returned at the
// end. A wrong file or flag (an error that is not unseen) ends the check at once.
func (o *gresOptions) checkNode(ctx context.Context, n inventory.Node, stdout, stderr io.Writer) error {
	records, blind := o.gresRecords(ctx, stderr)
	if blind != nil && !errors.As(blind, new(unseen)) {
		return blind
	}
	belief, err := askController(ctx, n.Name)
	if err != nil {
		return unseen{err}
	}
	v := verdict{inventory.Version, n.Name, belief.States, belief.Reason, []string{"slurmctld"},
		inventory.Compare(n, o.layout, belief)}
	if records != nil {
		v.Sources = append(v.Sources, "slurmd")
		v.Differences = append(v.Differences, inventory.CompareRecords(n, records)...)
	}
	if err := o.deliverVerdict(v, stdout); err != nil {
		return err
	}
	if len(v.Differences) > 0 {
		return failed{fmt.Errorf("node %s: %s between the node and what Slurm believes", n.Name,
			countOrNo(len(v.Differences), "difference"))}
	}
	return blind
}

// deliverVerdict writes the verdict as text or JSON. In JSON no difference is [] and not null, and signs such as < are
// left as they are.
func (o *gresOptions) deliverVerdict(v verdict, stdout io.Writer) error {
	if o.json == "" {
		return asFailed(writeVerdict(stdout, v))
	}
	if v.Differences == nil {
		v.Differences = []inventory.Difference{}
	}
	return save("json", o.json, stdout, func(w io.Writer) error {
		e := json.NewEncoder(w)
		e.SetEscapeHTML(false)
		e.SetIndent("", "  ")
		return e.Encode(v)
	})
}

// writeVerdict prints each difference, or that there is none, and why Slurm has the node drained or down, if it has.
func writeVerdict(w io.Writer, v verdict) error {
	var b strings.Builder
	for _, d := range v.Differences {
		fmt.Fprintln(&b, d)
	}
	if len(v.Differences) == 0 {
		fmt.Fprintf(&b, "node %s: its GPUs are as %s\n", v.Node, sourcesText(v.Sources))
	}
	if v.Reason != "" {
		fmt.Fprintf(&b, "node %s is %s in Slurm: %s\n", v.Node, strings.Join(v.States, "+"), v.Reason)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// sourcesText says that these sources have the GPUs as they are, as the end of a sentence.
func sourcesText(sources []string) string {
	if len(sources) == 1 {
		return sources[0] + " has them"
	}
	return strings.Join(sources, " and ") + " have them"
}

// slurmTimeout is how long a program of Slurm may take. slurmd waits about twenty seconds for device files that do not
// appear.
const slurmTimeout = 40 * time.Second

// askController asks slurmctld about the node by scontrol, which works wherever a user can submit a job.
func askController(ctx context.Context, node string) (inventory.Belief, error) {
	stdout, stderr, err := slurmCommand(ctx, "scontrol", "--json", "show", "node", node)
	if err != nil {
		return inventory.Belief{}, fmt.Errorf("scontrol show node %s: %w%s", node, err, lastLine(stdout+"\n"+stderr))
	}
	return inventory.ParseBelief([]byte(stdout), node)
}

// gresRecords returns gres.conf as slurmd reads it, from a file or from slurmd itself. It returns nil without an error
// if the inventory is from a file, so that this may be another node, or if there is no slurmd here. Then gres.conf is
// not compared.
func (o *gresOptions) gresRecords(ctx context.Context, stderr io.Writer) ([]inventory.Record, error) {
	if o.slurmd != "" {
		text, err := readFile(o.slurmd)
		if err != nil {
			return nil, fmt.Errorf("--slurmd: %w", err)
		}
		records, err := inventory.ParseRecords(text)
		if err != nil {
			return nil, fmt.Errorf("--slurmd %s: %w", o.slurmd, err)
		}
		return records, nil
	}
	if o.inventory != "" {
		return nil, nil
	}
	args := []string{"-G"}
	if o.node != "" {
		args = append(args, "-N", o.node)
	}
	out, log, err := slurmCommand(ctx, "slurmd", args...)
	if errors.Is(err, exec.ErrNotFound) {
		fmt.Fprintln(stderr, "synergy: gres.conf was not compared: there is no slurmd here")
		return nil, nil
	}
	if err != nil {
		return nil, unseen{fmt.Errorf("gres.conf was not compared: slurmd -G: %w%s", err, lastLine(log))}
	}
	records, err := inventory.ParseRecords([]byte(out + "\n" + log))
	if err != nil {
		return nil, unseen{fmt.Errorf("gres.conf was not compared: %w", err)}
	}
	return records, nil
}

// slurmCommand runs one of Slurm's programs and returns its output. It is an error if the program takes longer than
// slurmTimeout, or if it writes more than maxFile; what it writes beyond that is dropped.
func slurmCommand(ctx context.Context, name string, args ...string) (stdout, stderr string, err error) {
	ctx, cancel := context.WithTimeout(ctx, slurmTimeout)
	defer cancel()
	command := exec.CommandContext(ctx, name, args...)
	// A child that keeps the pipes open must not hold the command after its end.
	command.WaitDelay = time.Second
	var out, log boundedBuffer
	command.Stdout, command.Stderr = &out, &log
	err = command.Run()
	if ctx.Err() != nil {
		err = fmt.Errorf("no answer within %v", slurmTimeout)
	}
	return out.String(), log.String(), cmp.Or(err, out.err(), log.err())
}

// boundedBuffer keeps the first maxFile bytes that are written to it, and notes whether there were more.
type boundedBuffer struct {
	bytes.Buffer
	isTruncated bool // something was dropped
}

// Write takes all that it is given, so that a program that writes too much still ends by itself.
func (b *boundedBuffer) Write(p []byte) (int, error) {
	room := min(len(p), maxFile-b.Len())
	b.isTruncated = b.isTruncated || room < len(p)
	b.Buffer.Write(p[:room])
	return len(p), nil
}

// err is the error of a program that wrote more than is kept. It is nil if all of its output is there.
func (b *boundedBuffer) err() error {
	if b.isTruncated {
		return fmt.Errorf("wrote more than %d bytes", maxFile)
	}
	return nil
}

// lastLine is the last line that a program wrote, behind a colon, to be added to an error. It is empty if the program
// wrote nothing.
func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	if last := inventory.Printable(strings.TrimSpace(lines[len(lines)-1])); last != "" {
		return ": " + last
	}
	return ""
}
