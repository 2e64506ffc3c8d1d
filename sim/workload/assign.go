package workload

// Assign is how a job's model is chosen.
type Assign string

// The ways to choose a model.
const (
	// BySplit is the artifact's: it serves the family that lags most behind its part of the split, and that family's
	// models in turn. A family of 0 % gets a job when all others have exactly their parts.
	BySplit Assign = "split"
	// Random draws a family with the probability in the split, and one of its models.
	Random Assign = "random"
	// RoundRobin takes the models of the split's families in turn, all equally often, whatever the percentages.
	RoundRobin Assign = "roundrobin"
)

// ParseAssign parses split, random or roundrobin.
func ParseAssign(text string) (Assign, error) {
	return choose("assign", text, BySplit, Random, RoundRobin)
}

// assigner chooses the model of each job.
type assigner interface {
	next(t *twister) int // an index into the classes
}

// assigner makes the assigner of this kind for a split over the classes. It is an error if the kind, the split or the
// classes are invalid.
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
		return &splitAssigner{parts: parts, total: make([]int, len(parts))}, nil
	case Random:
		return newRandomAssigner(parts), nil
	case RoundRobin:
		return &roundRobinAssigner{classes: servedClasses(parts, len(classes))}, nil
	default:
		_, err := ParseAssign(string(a))
		return nil, err
	}
}

// splitAssigner assigns models for BySplit: it keeps the families' parts of the jobs near those of the split.
type splitAssigner struct {
	parts []part
	total []int // of each part: the jobs assigned to it
	jobs  int   // assigned in total
}

// next chooses the part that lacks most, and its models in turn. It also draws a number that it ignores, as the
// artifact does, so that later draws have the artifact's results.
func (c *splitAssigner) next(t *twister) int {
	neediest := c.mostLacking()
	t.randint(0, 9) // the artifact draws one of its ten models here and ignores it
	p := &c.parts[neediest]
	class := p.classes[c.total[neediest]%len(p.classes)]
	c.total[neediest]++
	c.jobs++
	return class
}

// mostLacking is the index of the part of the jobs that lacks most; of equal ones it is the first. Before the first job
// no part can lack anything, and it is the first part, as in the artifact.
func (c *splitAssigner) mostLacking() int {
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

// lack is how far a part of the jobs is behind its share; negative: it has more. At least one job must have been
// assigned.
func (c *splitAssigner) lack(i int) float64 {
	return c.parts[i].share - float64(c.total[i])/float64(c.jobs)
}

// randomAssigner draws a part by its share, and one of its classes.
type randomAssigner struct {
	parts  []part
	shares shares
}

// newRandomAssigner makes an assigner for Random; not all shares may be 0.
func newRandomAssigner(parts []part) *randomAssigner {
	weights := make([]float64, len(parts))
	for i, p := range parts {
		weights[i] = p.share
	}
	return &randomAssigner{parts, sharesOf(weights)}
}

func (l *randomAssigner) next(t *twister) int {
	classes := l.parts[l.shares.pick(t)].classes
	return classes[t.below(len(classes))]
}

// roundRobinAssigner takes classes in turn.
type roundRobinAssigner struct {
	classes []int
	jobs    int
}

// next returns the next class in turn; nothing is drawn.
func (c *roundRobinAssigner) next(*twister) int {
	class := c.classes[c.jobs%len(c.classes)]
	c.jobs++
	return class
}

// servedClasses lists the classes, out of this many, that belong to a part with a share above 0, ascending: those that
// RoundRobin takes. A class that the split names twice, by its family and by its model, is listed once.
func servedClasses(parts []part, classes int) []int {
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
