package ask

// Unseen is an error in reading what was asked about: the answer is unknown.
type Unseen struct{ Err error }

func (u Unseen) Error() string { return u.Err.Error() }
func (u Unseen) Unwrap() error { return u.Err }

// Failed is an error that a better command line would not have avoided.
type Failed struct{ Err error }

func (f Failed) Error() string { return f.Err.Error() }
func (f Failed) Unwrap() error { return f.Err }

// asFailed wraps an error that no better command line would have avoided; nil stays nil.
func asFailed(err error) error {
	if err != nil {
		return Failed{err}
	}
	return nil
}
