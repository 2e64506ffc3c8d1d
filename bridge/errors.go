package bridge

import "errors"

// ErrPlan says that a plan violates a promise (policy.Check), so that the round has done nothing.
var ErrPlan = errors.New("check the plan")
