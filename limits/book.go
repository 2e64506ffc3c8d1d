package limits

import (
	"slices"
	"strings"
)

// Book is a site, to be looked up in.
type Book struct {
	enforced   bool
	above      map[group]*Association
	qos        map[string]*QOS
	partitions map[string]*Partition
}

// group is a set of jobs that a limit counts together: an association with all below it, a QOS, or a user or an account
// within one.
type group struct {
	qos, account, user, partition string
}

// NewBook indexes a site. It keeps the site's lists, which are not to be changed any more.
func NewBook(s Site) *Book {
	b := &Book{
		enforced: s.Enforced, above: make(map[group]*Association, len(s.Associations)),
		qos: make(map[string]*QOS, len(s.QOS)), partitions: make(map[string]*Partition, len(s.Partitions)),
	}
	for i := range s.Associations {
		a := &s.Associations[i]
		b.above[group{account: a.Account, user: a.User, partition: a.Partition}] = a
	}
	for i := range s.QOS {
		b.qos[s.QOS[i].Name] = &s.QOS[i]
	}
	for i := range s.Partitions {
		b.partitions[s.Partitions[i].Name] = &s.Partitions[i]
	}
	return b
}

// deepest is how many accounts may stand above each other: a tree that is none must not be walked for ever.
const deepest = 100

// lineage lists the groups of a job's association and of those above it, its own first.
func (b *Book) lineage(j *Job) []group {
	var up []group
	for _, own := range []group{{account: j.Account, user: j.User, partition: j.Partition},
		{account: j.Account, user: j.User}} {
		if own.user != "" && b.above[own] != nil {
			up = append(up, own)
			break
		}
	}
	for account := j.Account; account != "" && len(up) < deepest; {
		g := group{account: account}
		a := b.above[g]
		if a == nil {
			break
		}
		up, account = append(up, g), a.Parent
	}
	return up
}

// services lists the QOS that a job is under, the one that goes first first (acct_policy_set_qos_order).
func (b *Book) services(j *Job) []*QOS {
	var own, part *QOS
	if own = b.qos[j.QOS]; b.partitions[j.Partition] != nil {
		part = b.qos[b.partitions[j.Partition].QOS]
	}
	order := []*QOS{part, own}
	if own != nil && own.OverPartition {
		order = []*QOS{own, part}
	}
	order = slices.DeleteFunc(order, func(q *QOS) bool { return q == nil })
	return slices.Compact(order)
}

// groups lists all that a job counts in.
func (b *Book) groups(j *Job) []group {
	all := b.lineage(j)
	for _, q := range b.services(j) {
		all = append(all, group{qos: q.Name}, group{qos: q.Name, user: j.User}, group{qos: q.Name, account: j.Account})
	}
	return all
}

// kin are the jobs that a site treats alike.
type kin struct{ user, account, qos, partition string }

// place is where a job stands in a site.
type place struct {
	groups   []group // in which it counts
	bindings []binding
	relative bool // it is under a QOS that is not understood here
}

// places are those of a moment's jobs, each looked up once.
type places struct {
	*Book
	known map[kin]*place
	jobs  []Job             // of the moment
	sums  map[poolKey]int64 // what running ones hold, as far as it was asked for; of each group and TRES
}

func (p places) of(j *Job) *place {
	k := kin{j.User, j.Account, j.QOS, j.Partition}
	if p.known[k] == nil {
		p.known[k] = &place{
			groups: p.groups(j), bindings: p.bindings(j),
			relative: slices.ContainsFunc(p.services(j), func(q *QOS) bool { return q.Relative }),
		}
	}
	return p.known[k]
}

// binding is a limit that binds a job, and the group that it counts.
type binding struct {
	Limit
	of group
}

// bindings lists the limits that bind a job: of each kind and TRES that of the first QOS that has one, or else the
// associations'. Group limits of all associations bind, from the job's own up to the root; of the others the first one
// does (acct_policy.c, Slurm 24.11).
func (b *Book) bindings(j *Job) []binding {
	var bound []binding
	for _, q := range b.services(j) {
		for _, l := range q.Limits {
			if !has(bound, l.Kind, l.TRES) {
				bound = append(bound, binding{l, scope(q, l.Kind, j)})
			}
		}
	}
	return b.associate(bound, j)
}

// associate adds the limits of the job's associations that no QOS takes the place of.
func (b *Book) associate(bound []binding, j *Job) []binding {
	byQOS := slices.Clone(bound)
	factor := b.factor(j)
	up := b.lineage(j)
	for _, g := range up {
		for _, l := range b.above[g].Limits {
			first := l.Kind.group() || !has(bound[len(byQOS):], l.Kind, l.TRES)
			if !first || replaced(byQOS, l) {
				continue
			}
			of := g
			if l.Kind == MaxJobs {
				of = up[0] // each user has as many, wherever the number was written
			}
			bound = append(bound, binding{l.times(factor), of})
		}
	}
	return bound
}

// factor is by what a job's QOS multiplies its associations' limits.
func (b *Book) factor(j *Job) float64 {
	for _, q := range b.services(j) {
		if q.Factor > 0 {
			return q.Factor
		}
	}
	return 1
}

// times applies a factor where Slurm does: to an association's GrpTRES and MaxTRESPerJob.
func (l Limit) times(factor float64) Limit {
	if l.Kind == GrpTRES || l.Kind == MaxTRESPerJob {
		if most := float64(l.Most) * factor; most < 1<<62 {
			l.Most = int64(most)
		}
	}
	return l
}

func (k Kind) group() bool { return k == GrpTRES || k == GrpJobs || k == GrpTRESMins }

func has(list []binding, kind Kind, tres string) bool {
	return slices.ContainsFunc(list, func(b binding) bool { return b.Kind == kind && b.TRES == tres })
}

// replaced says that a QOS has a number in the place of an association's.
func replaced(byQOS []binding, l Limit) bool {
	if l.Kind == MaxJobs {
		return has(byQOS, MaxJobsPerUser, running) || has(byQOS, MaxJobsPerAccount, running)
	}
	return has(byQOS, l.Kind, l.TRES)
}

// scope is the group of jobs that a limit of a QOS counts.
func scope(q *QOS, kind Kind, j *Job) group {
	switch kind {
	case MaxTRESPerUser, MaxJobsPerUser:
		return group{qos: q.Name, user: j.User}
	case MaxTRESPerAccount, MaxJobsPerAccount:
		return group{qos: q.Name, account: j.Account}
	}
	return group{qos: q.Name}
}

// String names a group for people: account ml, alice in account ml, QOS fast, alice in QOS fast.
func (g group) String() string {
	name := "account " + g.account
	switch {
	case g.qos != "" && g.account != "":
		return name + " in QOS " + g.qos
	case g.qos != "":
		name = "QOS " + g.qos
	case g.partition != "":
		name += " in partition " + g.partition
	}
	if g.user != "" {
		return g.user + " in " + name
	}
	return name
}

// counts says that a job adds to what a limit on this TRES counts.
func counts(tres string, j *Job) bool {
	kind, typed := strings.CutPrefix(tres, ofType)
	return !typed || kind == j.GPUType
}
