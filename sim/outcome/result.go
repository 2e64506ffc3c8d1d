package outcome

import "errors"

// Result is a run with its statistics.
type Result struct {
	Setting Setting  `json:"setting"`
	Wall    float64  `json:"wall_s,omitempty"` // seconds that the simulation took; 0: not measured
	Summary *Summary `json:"summary,omitempty"`
	// Ratio is nil if no run has the same setting with proportional shares, or if jobs of one of them have not
	// finished.
	Ratio   *Ratio `json:"against_proportional,omitempty"`
	ByModel []Row  `json:"by_model,omitempty"`
	ByGPUs  []Row  `json:"by_gpus,omitempty"`
	// Fault is why there are no statistics.
	Fault string `json:"error,omitempty"`
}

// Results computes the statistics of each run, in their order. The error joins those of the runs that have none; the
// others are still complete.
func Results(runs []Run) ([]Result, error) {
	results := make([]Result, len(runs))
	faults := make([]error, len(runs))
	bases := make(map[Setting]*Summary)
	for i, run := range runs {
		results[i], faults[i] = resultOf(run)
		if run.Setting.Allocator == Proportional {
			bases[run.Setting] = results[i].Summary
		}
	}
	for i, run := range runs {
		results[i].Ratio = ratioOf(results[i].Summary, bases[run.Setting.withProportional()])
	}
	return results, errors.Join(faults...)
}

// resultOf computes the statistics of a run, without the comparison with another. If there are none, the result has the
// reason, and the error is returned as well.
func resultOf(run Run) (Result, error) {
	result := Result{Setting: run.Setting.named(), Wall: run.Wall.Seconds()}
	summary, err := Summarise(run)
	if err != nil {
		result.Fault = err.Error()
		return result, err
	}
	result.Summary = &summary
	result.ByModel, result.ByGPUs = ByModel(run), ByGPUs(run)
	for i := range result.ByModel {
		result.ByModel[i].Model = named(result.ByModel[i].Model)
	}
	return result, nil
}

// ratioOf is nil if nothing can be compared: a run has no statistics, there is no base, or jobs are unfinished. None of
// these is a fault of the run, so the error of Ratio is dropped.
func ratioOf(mine, base *Summary) *Ratio {
	if mine == nil || base == nil {
		return nil
	}
	ratio, err := mine.Ratio(*base)
	if err != nil {
		return nil
	}
	return &ratio
}
