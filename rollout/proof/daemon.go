package proof

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Answering asks the daemon whether it is there.
type Answering func(ctx context.Context) bool

// Answers says whether it is.
func (a Answering) Answers(ctx context.Context) bool { return a(ctx) }

// Commands is a daemon that is stopped and started by an administrator's own commands, without a shell.
type Commands struct {
	Answering
	Halt, Go []string // programs and their arguments
}

// Stop runs the one.
func (c Commands) Stop(ctx context.Context) error { return tell(ctx, c.Halt...) }

// Start runs the other.
func (c Commands) Start(ctx context.Context) error { return tell(ctx, c.Go...) }

func tell(ctx context.Context, argv ...string) error {
	_, err := run(ctx, "", argv...)
	return err
}

// Unit is a daemon that systemd runs. It is killed, as if its host had died but for the host: systemd is kept from
// starting it again, and nothing hands the jobs back.
type Unit struct {
	Answering
	Name   string // as synergy-slurmd.service
	Folder string // of units for the time until the next boot: /run/systemd/system
}

// stays keeps systemd from starting it again. A boot forgets it.
const stays = "[Service]\nRestart=no\n"

// DropIn is the file that keeps systemd from starting it again.
func (u Unit) DropIn() string { return filepath.Join(u.Folder, u.Name+".d", "synergy-proof.conf") }

// Stop kills it.
func (u Unit) Stop(ctx context.Context) error {
	if err := os.MkdirAll(filepath.Dir(u.DropIn()), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(u.DropIn(), []byte(stays), 0o644); err != nil {
		return err
	}
	if err := tell(ctx, "systemctl", "daemon-reload"); err != nil {
		return err
	}
	return tell(ctx, "systemctl", "kill", "--kill-whom=main", "--signal=KILL", u.Name)
}

// Start takes back what kept systemd from it, and has systemd start it. Each step is taken whatever became of the one
// before.
func (u Unit) Start(ctx context.Context) error {
	err := os.Remove(u.DropIn())
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	err = errors.Join(err, tell(ctx, "systemctl", "daemon-reload"))
	_ = tell(ctx, "systemctl", "reset-failed", u.Name) // of a unit that has not failed it fails
	if started := tell(ctx, "systemctl", "start", u.Name); started != nil {
		return errors.Join(err, started)
	}
	if err != nil {
		return fmt.Errorf("it runs, but systemd may not start it again after a crash: %w", err)
	}
	return nil
}
