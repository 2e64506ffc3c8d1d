package bridge

// Keep says which explicit requests are lower bounds where the job's own directives do not say so.
type Keep struct {
	Cores  bool // requested cores
	Memory bool // requested memory
	// Steps: cores and memory of a job whose script gives sizes of its steps in numbers. In a smaller job these steps
	// would fail or wait for ever.
	Steps bool
}
