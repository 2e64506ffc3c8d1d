package workload

import (
	"errors"
	"fmt"

	"github.com/synergy-slurmd/synergy-slurmd/sim/models"
)

// Class is a model that jobs can have.
type Class struct {
	Name      string  // of a profile
	Family    string  // a name for several classes in a Split
	Iteration float64 // seconds of one iteration at the proportional share, from 0.000001 to 1e6
}

// Paper returns the ten models of the paper's artifact on servers with ratio cores per GPU, 3 to 6. The families are
// image, language and speech.
func Paper(ratio int) ([]Class, error) {
	set, err := models.Set(ratio)
	if err != nil {
		return nil, err
	}
	classes := make([]Class, len(set))
	for i, m := range set {
		classes[i] = Class{m.Name, m.Family.String(), m.Iteration}
	}
	return classes, nil
}

// iterations is the number of iterations in these seconds at the proportional share, at least one.
func (c *Class) iterations(seconds float64) int64 { return max(1, int64(seconds/c.Iteration)) }

// checkClasses returns an error if no workload can be drawn from the classes.
func checkClasses(classes []Class) error {
	if len(classes) == 0 {
		return errors.New("no classes: want at least one model that jobs may have")
	}
	seen := make(map[string]bool, len(classes))
	for i, c := range classes {
		switch {
		case c.Name == "":
			return fmt.Errorf("class %d: name is empty: want the name of a profile", i)
		case seen[c.Name]:
			return fmt.Errorf("class %d: name = %s: want each model once", i, c.Name)
		case !inRange(c.Iteration, 1e-6, 1e6):
			return fmt.Errorf("class %d, %s: iteration = %g: want seconds, from 0.000001 to 1000000", i, c.Name,
				c.Iteration)
		}
		seen[c.Name] = true
	}
	return nil
}
