package workload

// Assign is how a job gets its model.
type Assign string

// The ways to get a model.
const (
	// BySplit is the artifact's: the family that lags behind its part of the split most is served, its models in turn.
	// A family of 0 % gets a job where all the others have just what they should have.
	BySplit Assign = "split"
	// Random draws a family with the probability that the split says, and any of its models.
	Random Assign = "random"
	// RoundRobin takes the models of the split's families in turn, all equally often, whatever their percentages.
	RoundRobin Assign = "roundrobin"
)

// ParseAssign reads split, random or roundrobin.
func ParseAssign(text string) (Assign, error) {
	return choose("assign", text, BySplit, Random, RoundRobin)
}

// assigner chooses the class of one job after the other.
type assigner interface {
	next(t *twister) int // an index among the classes
}

func (a Assign) assigner(split Split, classes []Class) (assigner, error) {
	if err := checkClasses(classes); err != nil {
		return nil, err
	}
	parts, err := split.parts(classes)
	if err != nil {
		return nil, err
	}
	switch a {
	case BySplit:
		return &controller{parts: parts, total: make([]int, len(parts))}, nil
	case Random:
		return lotteryOf(parts), nil
	case RoundRobin:
		return &carousel{classes: served(parts, len(classes))}, nil
	default:
		_, err := ParseAssign(string(a))
		return nil, err
	}
}

// controller keeps the parts of the jobs near the split's.
type controller struct {
	parts []part
	total []int // of each part: the jobs that it was given
	jobs  int   // of all parts
}

func (c *controller) next(t *twister) int {
	neediest := c.neediest()
	t.randint(0, 9) // The artifact draws one of its ten models at random, and does not use it.
	p := &c.parts[neediest]
	class := p.classes[c.total[neediest]%len(p.classes)]
	c.total[neediest]++
	c.jobs++
	return class
}

// neediest is the part that lacks most; all are equal before the first job.
func (c *controller) neediest() int {
	if c.jobs == 0 {
		return 0
	}
	neediest, most := 0, c.lack(0)
	for i := 1; i < len(c.parts); i++ {
		if lack := c.lack(i); lack > most {
			neediest, most = i, lack
		}
	}
	return neediest
}

func (c *controller) lack(i int) float64 {
	return c.parts[i].share - float64(c.total[i])/float64(c.jobs)
}

// lottery draws parts by their shares, and a class of the part.
type lottery struct {
	parts  []part
	shares shares
}

func lotteryOf(parts []part) *lottery {
	weights := make([]float64, len(parts))
	for i, p := range parts {
		weights[i] = p.share
	}
	return &lottery{parts, sharesOf(weights)}
}

func (l *lottery) next(t *twister) int {
	classes := l.parts[l.shares.pick(t)].classes
	return classes[t.below(len(classes))]
}

// carousel takes classes in turn.
type carousel struct {
	classes []int
	jobs    int
}

func (c *carousel) next(*twister) int {
	class := c.classes[c.jobs%len(c.classes)]
	c.jobs++
	return class
}

// served are the classes, of so many, that are in any part that is not 0, ascending.
func served(parts []part, classes int) []int {
	in := make([]bool, classes)
	for _, p := range parts {
		for _, class := range p.classes {
			in[class] = in[class] || p.share > 0
		}
	}
	var list []int
	for class, served := range in {
		if served {
			list = append(list, class)
		}
	}
	return list
}
