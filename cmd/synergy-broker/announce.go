package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/share"
)

// announcer tells Slurm that the node has a broker, by a word in the node's Comment beside what others wrote there. The
// daemon places jobs on a shared GPU only on nodes with that word. A note (file) in the broker's folder has the name of
// the node to whose Comment a broker added the word. Only then may a broker remove it: a word that an administrator
// wrote stays.
type announcer struct {
	slurmPrograms
	node string
	note string // path
	log  *slog.Logger
}

// The times of an announcement. It is repeated, since a slurmctld that has lost its state has lost the word, too.
const (
	announceEvery = 5 * time.Minute
	announceAgain = 30 * time.Second // after a failure
	retractWithin = 5 * time.Second  // when the broker ends
)

// mostNodeComment is the longest Comment of a node to which the word is added, in bytes.
const mostNodeComment = 4000

func notePath(dir string) string { return filepath.Join(dir, "announced") }

var nodeName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$`)

// announcer returns the announcer for the command line, or nil if the broker announces nothing.
func (f *flags) announcer(log *slog.Logger) (*announcer, error) {
	if !f.announce {
		return nil, nil
	}
	node := f.node
	if node == "" {
		host, err := os.Hostname()
		if err != nil {
			return nil, err
		}
		node, _, _ = strings.Cut(host, ".")
	}
	if !nodeName.MatchString(node) {
		return nil, fmt.Errorf("--node %.70q: want the node's name in slurm.conf", node)
	}
	programs, err := onPath()
	if err != nil {
		log.Warn("the daemon is not told of this broker: want Slurm's programs on the PATH, or Feature="+
			share.Announced+" of this node in slurm.conf and --announce=false", "error", err)
		return nil, nil
	}
	return &announcer{slurmPrograms: programs, node: node, note: notePath(f.dir), log: log}, nil
}

// keep announces until the context ends, and then removes the announcement. An error that stays the same is logged
// once.
func (a *announcer) keep(ctx context.Context) {
	said := ""
	for {
		err := a.announce(ctx)
		wait := announceEvery
		if err != nil && ctx.Err() == nil {
			wait = announceAgain
			if said != err.Error() {
				a.log.Warn("announce: nobody is put on a GPU of this node that another job uses", "node", a.node,
					"error", err)
			}
			said = err.Error()
		} else if said != "" && err == nil {
			said = ""
			a.log.Info("announced", "node", a.node)
		}
		select {
		case <-ctx.Done():
			if err := retract(a.slurmPrograms, a.note); err != nil {
				a.log.Warn("take the announcement back", "node", a.node, "error", err)
			}
			return
		case <-time.After(wait):
		}
	}
}

// announce adds the word to the node's Comment if it is missing. The note is written first, so that the word is removed
// even if the broker dies in between.
func (a *announcer) announce(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, slurmWithin)
	defer cancel()
	comment, err := a.nodeComment(ctx, a.node)
	if err != nil || slices.Contains(strings.Fields(comment), share.Announced) {
		return err
	}
	if err := os.WriteFile(a.note, []byte(a.node), 0o600); err != nil {
		return err
	}
	return a.setNodeComment(ctx, a.node, strings.TrimLeft(comment+" "+share.Announced, " "))
}

// retract removes the word that a broker with this note has announced. Without a note it does nothing.
func retract(a slurmPrograms, note string) error {
	node, err := os.ReadFile(note)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil && !nodeName.Match(node) {
		err = fmt.Errorf("%s: want the name of a node", note)
	}
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), retractWithin)
	defer cancel()
	comment, err := a.nodeComment(ctx, string(node))
	if err != nil {
		return err
	}
	if without := withoutWord(comment); without != comment {
		if err := a.setNodeComment(ctx, string(node), without); err != nil {
			return err
		}
	}
	return os.Remove(note)
}

// withoutWord removes the announced word from a comment, and the space before it. All else stays byte for byte.
func withoutWord(comment string) string {
	at := strings.Index(" "+comment+" ", " "+share.Announced+" ")
	if at < 0 {
		return comment
	}
	before, after := comment[:max(0, at-1)], comment[at+len(share.Announced):]
	return strings.TrimLeft(before+after, " ")
}

// nodeComment reads a node's Comment. sinfo prints it once for each partition of the node. It is read a little wider
// than the longest that is changed, so that a longer one is seen as such and never cut.
func (a slurmPrograms) nodeComment(ctx context.Context, node string) (string, error) {
	var lines []string
	err := eachLine(ctx, func(line string) { lines = append(lines, strings.TrimRight(line, " \n")) },
		a.sinfo, "--noheader", "--Node", "--nodes="+node, fmt.Sprintf("--Format=Comment:%d", mostNodeComment+100))
	if err != nil {
		return "", err
	}
	lines = slices.Compact(lines)
	switch {
	case len(lines) == 0:
		return "", fmt.Errorf("there is no node %s: say its name in slurm.conf by --node", node)
	case len(lines) > 1 || len(lines[0]) > mostNodeComment:
		return "", fmt.Errorf("the Comment of node %s has several lines or more than %d bytes, and is left as it is: "+
			"say %s there, or as its Feature in slurm.conf", node, mostNodeComment, share.Announced)
	case lines[0] == "(null)":
		return "", nil
	}
	return lines[0], nil
}

// setNodeComment replaces a node's whole Comment.
func (a slurmPrograms) setNodeComment(ctx context.Context, node, comment string) error {
	return eachLine(ctx, func(string) {}, a.scontrol, "update", "NodeName="+node, "Comment="+comment)
}
