package slurm

import "errors"

// Errors on which a round branches. Adapters wrap them with Slurm's own message.
var (
	ErrNotPending  = errors.New("job is not pending")
	ErrNotRunning  = errors.New("job is not running")
	ErrHeld        = errors.New("job is held") // by its user or an administrator; nothing was changed
	ErrGone        = errors.New("no such job")
	ErrDenied      = errors.New("permission denied")            // wrong identity: nothing else should be tried
	ErrUnreachable = errors.New("slurm controller unreachable") // no answer: the request may still be carried out
	ErrRefused     = errors.New("refused by slurm")             // the request itself cannot be served
	// ErrNotLeader: this daemon is no longer sure that it leads. Nothing was sent, or the call was cut off when the
	// lead ended, and a part of it may be carried out.
	ErrNotLeader = errors.New("another daemon may lead")
)
