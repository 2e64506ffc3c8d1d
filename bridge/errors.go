package bridge

import "errors"

// What a round branches on. Adapters wrap them with what Slurm said.
var (
	ErrNotPending  = errors.New("job is not pending")
	ErrNotRunning  = errors.New("job is not running")
	ErrHeld        = errors.New("job is held") // by its user or an administrator: nothing is changed
	ErrGone        = errors.New("no such job")
	ErrDenied      = errors.New("permission denied")            // wrong identity: nothing should be tried further
	ErrUnreachable = errors.New("slurm controller unreachable") // nothing was heard; what was asked may still be done
	ErrRefused     = errors.New("refused by slurm")             // the request itself cannot be served
	// nothing was sent: this one is not sure any more that it is the one to act
	ErrNotLeader = errors.New("another daemon may lead")
	// ErrPlan: the plan of a round breaks a promise, and nothing of it was done.
	ErrPlan = errors.New("check the plan")
)
