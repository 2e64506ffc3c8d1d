package limits

import (
	"slices"
	"strings"
)

// Book holds a site's limits, indexed for lookup.
type Book struct {
	enforced   bool
	above      map[group]*Association // by account, user and partition; group.qos is empty
	qos        map[string]*QOS
	partitions map[string]*Partition
}

// group identifies a set of jobs that a limit counts together: an association with all associations below it, a QOS, or
// one user or account within a QOS.
type group struct {
	qos, account, user, partition string
}

// NewBook indexes a site. It keeps references into the site's lists, which must not change afterwards.
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

// deepest bounds the depth of the account tree, so that a tree with a cycle is not walked for ever.
const deepest = 100

// lineage lists the groups of a job's association and of those above it, the job's own first. A user's association for
// the job's partition takes precedence over the one for all partitions.
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

// services lists the QOS that apply to a job, in the order of precedence (acct_policy_set_qos_order).
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

// groups lists all groups in which a job is counted.
func (b *Book) groups(j *Job) []group {
	all := b.lineage(j)
	for _, q := range b.services(j) {
		all = append(all, group{qos: q.Name}, group{qos: q.Name, user: j.User}, group{qos: q.Name, account: j.Account})
	}
	return all
}

// jobClass identifies jobs with the same user, account, QOS and partition. The same limits apply to all of them, so
// they are looked up once for each kin.
type jobClass struct{ user, account, qos, partition string }

// classLimits holds what follows from a job's kin: its groups and the limits that bind it.
type classLimits struct {
	groups   []group // in which the job is counted
	bindings []binding
	relative bool // it has a QOS with relative limits, which are not supported
}

// classCache caches the place of each kin among the jobs of one moment.
type classCache struct {
	*Book
	known map[jobClass]*classLimits
	jobs  []Job             // all jobs of the cluster
	sums  map[poolKey]int64 // what running jobs hold, by group and TRES; filled on demand
}

// limitsOf returns the place of a job and computes it at first use.
func (p classCache) limitsOf(j *Job) *classLimits {
	k := jobClass{j.User, j.Account, j.QOS, j.Partition}
	if p.known[k] == nil {
		p.known[k] = &classLimits{
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

// bindings lists the limits that bind a job. For each kind and TRES, the limit of the first QOS that has one binds, or
// else those of the associations. Of the associations' limits, group limits bind at every level from the job's own up
// to the root; of the other kinds only the lowest one binds (acct_policy.c, Slurm 24.11).
func (b *Book) bindings(j *Job) []binding {
	var bound []binding
	for _, q := range b.services(j) {
		for _, l := range q.Limits {
			if !hasLimit(bound, l.Kind, l.TRES) {
				bound = append(bound, binding{l, scope(q, l.Kind, j)})
			}
		}
	}
	return b.associate(bound, j)
}

// associate adds the limits of the job's associations, except where a limit of a QOS replaces them.
func (b *Book) associate(bound []binding, j *Job) []binding {
	byQOS := slices.Clone(bound)
	factor := b.factor(j)
	up := b.lineage(j)
	for _, g := range up {
		for _, l := range b.above[g].Limits {
			first := l.Kind.group() || !hasLimit(bound[len(byQOS):], l.Kind, l.TRES)
			if !first || replaced(byQOS, l) {
				continue
			}
			of := g
			if l.Kind == MaxJobs {
				of = up[0] // counted for each user alone, even if an account above has the limit
			}
			bound = append(bound, binding{l.times(factor), of})
		}
	}
	return bound
}

// factor is the LimitFactor of the first QOS that has one; 1 if none has.
func (b *Book) factor(j *Job) float64 {
	for _, q := range b.services(j) {
		if q.Factor > 0 {
			return q.Factor
		}
	}
	return 1
}

// times applies a LimitFactor where Slurm does: to an association's GrpTRES and MaxTRESPerJob. A product that would
// overflow is left out; such a limit binds no job anyway.
func (l Limit) times(factor float64) Limit {
	if l.Kind == GrpTRES || l.Kind == MaxTRESPerJob {
		if most := float64(l.Most) * factor; most < 1<<62 {
			l.Most = int64(most)
		}
	}
	return l
}

// group says whether limits of this kind count all jobs of a group together.
func (k Kind) group() bool { return k == GrpTRES || k == GrpJobs || k == GrpTRESMins }

// hasLimit says whether the list has a limit of this kind and TRES.
func hasLimit(list []binding, kind Kind, tres string) bool {
	return slices.ContainsFunc(list, func(b binding) bool { return b.Kind == kind && b.TRES == tres })
}

// replaced says whether a limit of a QOS replaces this limit of an association.
func replaced(byQOS []binding, l Limit) bool {
	if l.Kind == MaxJobs {
		return hasLimit(byQOS, MaxJobsPerUser, running) || hasLimit(byQOS, MaxJobsPerAccount, running)
	}
	return hasLimit(byQOS, l.Kind, l.TRES)
}

// scope returns the group of jobs that a limit of a QOS counts.
func scope(q *QOS, kind Kind, j *Job) group {
	switch kind {
	case MaxTRESPerUser, MaxJobsPerUser:
		return group{qos: q.Name, user: j.User}
	case MaxTRESPerAccount, MaxJobsPerAccount:
		return group{qos: q.Name, account: j.Account}
	}
	return group{qos: q.Name}
}

// String names a group: account ml, alice in account ml, QOS fast, alice in QOS fast.
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

// counts says whether a limit on this TRES applies to a job. A limit on a GPU type applies to jobs that ask for that
// type.
func counts(tres string, j *Job) bool {
	kind, typed := strings.CutPrefix(tres, ofType)
	return !typed || kind == j.GPUType
}
