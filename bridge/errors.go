package bridge

import "errors"

// ErrPlan says that a plan violates a promise, and that nothing of it was done.
var ErrPlan = errors.New("check the plan")
