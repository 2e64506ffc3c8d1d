package limits

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/policy"
)

// site has an account ml below users below root, with alice and bob in ml, and carol in users.
func site(with ...func(*Site)) *Book {
	s := Site{
		Enforced: true,
		Associations: []Association{
			{Account: "root"}, {Account: "users", Parent: "root"}, {Account: "ml", Parent: "users"},
			{Account: "ml", User: "alice"}, {Account: "ml", User: "bob"}, {Account: "users", User: "carol"},
		},
		QOS:        []QOS{{Name: "normal"}, {Name: "fast"}, {Name: "part"}},
		Partitions: []Partition{{Name: "gpu"}, {Name: "short", QOS: "part"}},
	}
	for _, change := range with {
		change(&s)
	}
	return NewBook(s)
}

// account, user and qos add limits.
func account(name string, limits ...Limit) func(*Site) { return user("", name, limits...) }

func user(user, account string, limits ...Limit) func(*Site) {
	return func(s *Site) {
		for i := range s.Associations {
			if a := &s.Associations[i]; a.Account == account && a.User == user {
				a.Limits = append(a.Limits, limits...)
			}
		}
	}
}

func qos(name string, limits ...Limit) func(*Site) {
	return service(name, func(q *QOS) { q.Limits = append(q.Limits, limits...) })
}

func service(name string, change func(*QOS)) func(*Site) {
	return func(s *Site) {
		for i := range s.QOS {
			if s.QOS[i].Name == name {
				change(&s.QOS[i])
			}
		}
	}
}

// waits is a managed job of one node, one GPU and a request of 4 cores and 40,000 MB.
func waits(id int, user string, with ...func(*Job)) Job {
	j := Job{
		ID: id, User: user, Account: "ml", QOS: "normal", Partition: "gpu", Managed: true,
		Nodes: 1, GPUs: 1, Asks: gres.Vector{CPUs: 4, Memory: 40_000},
	}
	for _, change := range with {
		change(&j)
	}
	return j
}

func runs(on string, cpus int) func(*Job) {
	return func(j *Job) {
		j.Running, j.On, j.Holds = true, []string{on}, gres.Vector{GPUs: j.GPUs, CPUs: cpus, Memory: 1000}
	}
}

func foreign(j *Job)               { j.Managed = false }
func under(name string) func(*Job) { return func(j *Job) { j.QOS = name } }
func in(part string) func(*Job)    { return func(j *Job) { j.Partition = part } }
func wide(nodes, gpus int) func(*Job) {
	return func(j *Job) { j.Nodes, j.GPUs = nodes, gpus }
}

func ceiling(t *testing.T, b *Book, j Job) gres.Vector {
	t.Helper()
	return b.Judge([]Job{j}).Terms[0].Ceiling
}

// quota is the one of that name, and which jobs count against it.
func quota(t *testing.T, v Verdict, name string) (policy.Quota, []int) {
	t.Helper()
	k := slices.IndexFunc(v.Quotas, func(q policy.Quota) bool { return q.Name == name })
	if k < 0 {
		t.Fatalf("no quota %q in %+v", name, v.Quotas)
	}
	var jobs []int
	for _, terms := range v.Terms {
		if slices.Contains(terms.Quotas, k) {
			jobs = append(jobs, terms.Job)
		}
	}
	return v.Quotas[k], jobs
}

func TestALimitOnAJobIsDividedOverItsNodes(t *testing.T) {
	b := site(user("alice", "ml", Limit{MaxTRESPerJob, "cpu", 6}, Limit{MaxTRESPerJob, "mem", 100_000}))
	for nodes, want := range map[int]gres.Vector{1: {CPUs: 6, Memory: 100_000}, 2: {CPUs: 3, Memory: 50_000},
		4: {CPUs: 1, Memory: 25_000}} {
		if got := ceiling(t, b, waits(1, "alice", wide(nodes, nodes))); got != want {
			t.Errorf("on %d nodes the ceiling is %v, want %v", nodes, got, want)
		}
	}
	if got := ceiling(t, b, waits(1, "bob")); got != (gres.Vector{}) {
		t.Errorf("bob, who has no limit, has the ceiling %v", got)
	}
}

func TestALimitOnANodeIsNotDivided(t *testing.T) {
	b := site(account("ml", Limit{MaxTRESPerNode, "cpu", 6}))
	if got := ceiling(t, b, waits(1, "alice", wide(2, 2))); got.CPUs != 6 {
		t.Errorf("the ceiling is %v", got)
	}
}

func TestTheNearestAssociationWithANumberBoundsAJob(t *testing.T) {
	b := site(user("alice", "ml", Limit{MaxTRESPerJob, "cpu", 8}), account("ml", Limit{MaxTRESPerJob, "cpu", 6}),
		account("users", Limit{MaxTRESPerJob, "cpu", 2}, Limit{MaxTRESPerJob, "mem", 5000}))
	if got := ceiling(t, b, waits(1, "alice")); got != (gres.Vector{CPUs: 8, Memory: 5000}) {
		t.Errorf("alice's own 8 cores and the grandparent's memory, not %v", got)
	}
	if got := ceiling(t, b, waits(1, "bob")); got.CPUs != 6 {
		t.Errorf("bob has his account's 6 cores, not %v", got)
	}
}

func TestAQOSTakesThePlaceOfTheAssociationsNumber(t *testing.T) {
	b := site(account("ml", Limit{MaxTRESPerJob, "cpu", 6}, Limit{MaxTRESPerJob, "mem", 5000}),
		qos("fast", Limit{MaxTRESPerJob, "cpu", 20}))
	if got := ceiling(t, b, waits(1, "alice", under("fast"))); got != (gres.Vector{CPUs: 20, Memory: 5000}) {
		t.Errorf("the QOS says 20 cores and nothing of memory: %v", got)
	}
}

func TestThePartitionsQOSGoesFirstUnlessTheJobsOverridesIt(t *testing.T) {
	both := []func(*Site){qos("fast", Limit{MaxTRESPerJob, "cpu", 20}), qos("part", Limit{MaxTRESPerJob, "cpu", 5})}
	j := waits(1, "alice", under("fast"), in("short"))
	if got := ceiling(t, site(both...), j); got.CPUs != 5 {
		t.Errorf("the partition's QOS says 5 cores: %v", got)
	}
	over := service("fast", func(q *QOS) { q.OverPartition = true })
	if got := ceiling(t, site(append(both, over)...), j); got.CPUs != 20 {
		t.Errorf("the job's QOS overrides it with 20 cores: %v", got)
	}
}

func TestAPartitionBoundsItsJobsOnEachNode(t *testing.T) {
	b := site(func(s *Site) {
		s.Enforced = false // these are no matter of accounting
		s.Partitions[0].MaxCPUs, s.Partitions[0].MaxMemory = 10, 70_000
	})
	if got := ceiling(t, b, waits(1, "alice")); got != (gres.Vector{CPUs: 10, Memory: 70_000}) {
		t.Errorf("the ceiling is %v", got)
	}
}

func TestWhatIsNotEnforcedBindsNobody(t *testing.T) {
	b := site(func(s *Site) { s.Enforced = false }, account("ml", Limit{MaxTRESPerJob, "cpu", 6},
		Limit{GrpTRES, "cpu", 12}))
	v := b.Judge([]Job{waits(1, "alice")})
	if len(v.Quotas) > 0 || v.Terms[0].Ceiling != (gres.Vector{}) {
		t.Errorf("%+v", v)
	}
}

func TestAJobThatAsksForMoreGPUsThanOneMayHaveNeverStarts(t *testing.T) {
	b := site(account("ml", Limit{MaxTRESPerJob, "gres/gpu", 2}))
	for gpus, refused := range map[int]bool{2: false, 4: true} {
		never := b.Judge([]Job{waits(1, "alice", wide(1, gpus))}).Terms[0].Never
		if (never != "") != refused {
			t.Errorf("%d GPUs: %q", gpus, never)
		}
		if refused && never != "MaxTRESPerJob of account ml allows 2 GPUs, it needs 4 GPUs" {
			t.Error(never)
		}
	}
}

func TestANumberOfNoneIsALimitAndNotTheLackOfOne(t *testing.T) {
	b := site(account("ml", Limit{MaxTRESPerJob, "cpu", 0}))
	if never := b.Judge([]Job{waits(1, "alice")}).Terms[0].Never; never == "" {
		t.Error("a job starts that may have no core")
	}
	v := site(account("ml", Limit{GrpTRES, "gres/gpu", 0})).Judge([]Job{waits(1, "alice")})
	if q, _ := quota(t, v, "GrpTRES of account ml"); q.GPUs != 0 || q.CPUs != policy.Unbounded {
		t.Errorf("the quota is %+v", q)
	}
}

func TestGroupLimitsOfAllAccountsAboveBind(t *testing.T) {
	b := site(user("alice", "ml", Limit{GrpTRES, "cpu", 8}),
		account("ml", Limit{GrpTRES, "cpu", 12}, Limit{GrpTRES, "gres/gpu", 2}),
		account("root", Limit{GrpTRES, "cpu", 40}))
	v := b.Judge([]Job{waits(1, "alice"), waits(2, "bob"), waits(3, "carol", func(j *Job) { j.Account = "users" })})
	for name, want := range map[string][]int{
		"GrpTRES of alice in account ml": {1}, "GrpTRES of account ml": {1, 2}, "GrpTRES of account root": {1, 2, 3},
	} {
		if _, jobs := quota(t, v, name); !slices.Equal(jobs, want) {
			t.Errorf("%s: jobs %v, want %v", name, jobs, want)
		}
	}
	if q, _ := quota(t, v, "GrpTRES of account ml"); q.CPUs != 12 || q.GPUs != 2 || q.Jobs != policy.Unbounded {
		t.Errorf("cores and GPUs of one account are one quota: %+v", q)
	}
}

func TestWhatOthersHoldIsTakenOffAndWhatOurJobsHoldIsNot(t *testing.T) {
	b := site(account("ml", Limit{GrpTRES, "cpu", 20}, Limit{GrpJobs, "", 3}))
	v := b.Judge([]Job{
		waits(1, "alice", runs("n1", 5)), waits(2, "bob", runs("n1", 7), foreign), waits(3, "bob"),
		waits(4, "bob", foreign),
		waits(5, "carol", runs("n2", 9), foreign, func(j *Job) { j.Account = "users" }),
	})
	if q, _ := quota(t, v, "GrpTRES of account ml"); q.CPUs != 13 {
		t.Errorf("20 cores less bob's 7 are left to jobs 1 and 3: %+v", q)
	}
	if q, jobs := quota(t, v, "GrpJobs of account ml"); q.Jobs != 2 || !slices.Equal(jobs, []int{1, 3}) {
		t.Errorf("3 jobs less bob's one are left to 1 and 3: %+v for %v", q, jobs)
	}
}

func TestMoreThanTheWholeIsNoneLeft(t *testing.T) {
	v := site(account("ml", Limit{GrpTRES, "cpu", 4})).Judge([]Job{waits(1, "bob", runs("n1", 7), foreign),
		waits(2, "bob")})
	if q, _ := quota(t, v, "GrpTRES of account ml"); q.CPUs != 0 {
		t.Errorf("%+v", q)
	}
}

func TestOneTRESOfAQOSLeavesTheAssociationsOthers(t *testing.T) {
	b := site(account("ml", Limit{GrpTRES, "cpu", 12}, Limit{GrpTRES, "gres/gpu", 2}),
		qos("fast", Limit{GrpTRES, "cpu", 100}))
	v := b.Judge([]Job{waits(1, "alice", under("fast"), runs("n1", 9)), waits(2, "alice")})
	for _, q := range v.Quotas {
		if q.Name == "GrpTRES of account ml" && q.CPUs != policy.Unbounded && q.CPUs != 3 {
			t.Errorf("the account's 12 cores bind job 2 alone, but job 1 holds 9 of them: %+v", q)
		}
	}
	if _, jobs := quota(t, v, "GrpTRES of QOS fast"); !slices.Equal(jobs, []int{1}) {
		t.Errorf("jobs of the QOS: %v", jobs)
	}
	if len(v.Terms[0].Quotas) != 2 || len(v.Terms[1].Quotas) != 2 {
		t.Errorf("%+v", v)
	}
}

func TestAUserOfAQOSIsCountedInAllAccounts(t *testing.T) {
	b := site(qos("fast", Limit{MaxTRESPerUser, "gres/gpu", 3}, Limit{MaxJobsPerUser, "", 4},
		Limit{MaxTRESPerAccount, "cpu", 30}))
	elsewhere := func(j *Job) { j.Account = "users" }
	v := b.Judge([]Job{waits(1, "alice", under("fast")), waits(2, "alice", under("fast"), elsewhere, foreign,
		runs("n1", 4)), waits(3, "bob", under("fast"))})
	if q, jobs := quota(t, v, "MaxTRESPerUser of alice in QOS fast"); q.GPUs != 2 || !slices.Equal(jobs, []int{1}) {
		t.Errorf("%+v for %v", q, jobs)
	}
	if q, jobs := quota(t, v, "MaxTRESPerAccount of account ml in QOS fast"); q.CPUs != 30 ||
		!slices.Equal(jobs, []int{1, 3}) {
		t.Errorf("%+v for %v", q, jobs)
	}
	if q, _ := quota(t, v, "MaxJobsPerUser of alice in QOS fast"); q.Jobs != 3 {
		t.Errorf("%+v", q)
	}
}

func TestAQOSThatIsTheJobsAndThePartitionsCountsItOnce(t *testing.T) {
	v := site(qos("part", Limit{GrpTRES, "cpu", 20})).Judge([]Job{waits(1, "bob", under("part"), in("short"), foreign,
		runs("n1", 7)), waits(2, "bob", in("short"))})
	if q, jobs := quota(t, v, "GrpTRES of QOS part"); q.CPUs != 13 || !slices.Equal(jobs, []int{2}) {
		t.Errorf("%+v for %v", q, jobs)
	}
}

func TestMaxJobsOfAnAccountIsForEachOfItsUsersAndFallsToAQOSWithItsOwn(t *testing.T) {
	b := site(account("ml", Limit{MaxJobs, "", 1}), qos("fast", Limit{MaxJobsPerUser, "", 9}))
	v := b.Judge([]Job{waits(1, "alice", runs("n1", 1), foreign), waits(2, "alice"), waits(3, "bob"),
		waits(4, "bob", under("fast"))})
	if q, jobs := quota(t, v, "MaxJobs of alice in account ml"); q.Jobs != 0 || !slices.Equal(jobs, []int{2}) {
		t.Errorf("%+v for %v", q, jobs)
	}
	if q, jobs := quota(t, v, "MaxJobs of bob in account ml"); q.Jobs != 1 || !slices.Equal(jobs, []int{3}) {
		t.Errorf("%+v for %v", q, jobs)
	}
}

func TestALimitOnATypeOfGPUBindsThoseThatAskForTheTypeAndCountsAllThatHoldIt(t *testing.T) {
	b := site(account("ml", Limit{GrpTRES, "gres/gpu:h100", 4}, Limit{GrpTRES, "gres/gpu", 9}))
	h100 := func(j *Job) { j.GPUType = "h100" }
	got := func(j *Job) { j.Type = "h100" }
	v100 := func(j *Job) { j.Type = "v100" }
	v := b.Judge([]Job{
		waits(1, "alice", h100), waits(2, "alice"), waits(3, "bob", foreign, runs("n1", 1), got),
		waits(4, "bob", runs("n1", 1), got),
		waits(5, "bob", runs("n2", 1), v100),
	})
	if q, jobs := quota(t, v, "GrpTRES=gres/gpu:h100 of account ml"); q.GPUs != 2 || !slices.Equal(jobs, []int{1}) {
		t.Errorf("4 less the two that jobs 3 and 4 hold: %+v for %v", q, jobs)
	}
	if q, _ := quota(t, v, "GrpTRES of account ml"); q.GPUs != 8 {
		t.Errorf("%+v", q)
	}
}

func TestANodeThatTwoJobsHoldCountsOnce(t *testing.T) {
	b := site(account("ml", Limit{GrpTRES, "node", 5}))
	v := b.Judge([]Job{waits(1, "bob", foreign, runs("n1", 1)), waits(2, "bob", foreign, runs("n1", 1)),
		waits(3, "bob", foreign, runs("n2", 1)), waits(4, "bob")})
	if q, _ := quota(t, v, "GrpTRES of account ml"); q.Nodes != 3 {
		t.Errorf("%+v", q)
	}
}

func TestALimitFactorMultipliesTheAssociationsLimitsAlone(t *testing.T) {
	b := site(account("ml", Limit{GrpTRES, "cpu", 12}, Limit{MaxTRESPerJob, "cpu", 6}, Limit{MaxTRESPerNode, "mem", 10},
		Limit{GrpJobs, "", 3}),
		service("fast", func(q *QOS) { q.Factor = 2 }), qos("fast", Limit{MaxTRESPerUser, "cpu", 9}))
	v := b.Judge([]Job{waits(1, "alice", under("fast"))})
	if c := v.Terms[0].Ceiling; c != (gres.Vector{CPUs: 12, Memory: 10}) {
		t.Errorf("the ceiling is %v", c)
	}
	for name, want := range map[string]policy.Quota{
		"GrpTRES of account ml":               {Jobs: -1, Nodes: -1, GPUs: -1, CPUs: 24, Memory: -1},
		"GrpJobs of account ml":               {Jobs: 3, Nodes: -1, GPUs: -1, CPUs: -1, Memory: -1},
		"MaxTRESPerUser of alice in QOS fast": {Jobs: -1, Nodes: -1, GPUs: -1, CPUs: 9, Memory: -1},
	} {
		want.Name = name
		if q, _ := quota(t, v, name); q != want {
			t.Errorf("got %+v, want %+v", q, want)
		}
	}
}

func TestAJobUnderALimitOnMinutesIsGivenNoMoreThanItAskedFor(t *testing.T) {
	asked := gres.Vector{CPUs: 4, Memory: 40_000}
	if got := ceiling(t, site(account("users", Limit{GrpTRESMins, "cpu", 1000})), waits(1, "alice")); got != asked {
		t.Errorf("GrpTRESMins: %v", got)
	}
	if got := ceiling(t, site(account("users", Limit{GrpTRESMins, "gres/gpu", 1000})),
		waits(1, "alice")); got != (gres.Vector{}) {
		t.Errorf("minutes of GPUs, of which nothing is chosen here: %v", got)
	}
	b := site(account("ml", Limit{MaxTRESMinsPerJob, "cpu", 600}))
	hour := func(j *Job) { j.TimeLimit = time.Hour }
	if got := ceiling(t, b, waits(1, "alice", hour)); got != (gres.Vector{CPUs: 10}) {
		t.Errorf("600 minutes of cores in an hour are 10 cores: %v", got)
	}
	if got := ceiling(t, b, waits(1, "alice")); got != asked {
		t.Errorf("without a time limit: %v", got)
	}
}

func TestARelativeQOSIsNotUnderstoodAndGivesNoMoreThanWasAskedFor(t *testing.T) {
	b := site(service("fast", func(q *QOS) { q.Relative = true }), qos("fast", Limit{GrpTRES, "cpu", 50}))
	v := b.Judge([]Job{waits(1, "alice", under("fast"))})
	if v.Terms[0].Ceiling != (gres.Vector{CPUs: 4, Memory: 40_000}) || len(v.Quotas) > 0 {
		t.Errorf("%+v", v)
	}
}

func TestWhereNothingIsKnownNoJobIsGivenMoreThanItAskedFor(t *testing.T) {
	v := Modest([]Job{waits(1, "alice"), waits(2, "bob", foreign), waits(3, "bob", func(j *Job) { j.Asks.Memory = 0 })})
	want := []Terms{{Job: 1, Ceiling: gres.Vector{CPUs: 4, Memory: 40_000}}, {Job: 3, Ceiling: gres.Vector{CPUs: 4}}}
	if !reflect.DeepEqual(v.Terms, want) {
		t.Errorf("%+v", v.Terms)
	}
}

func TestATreeThatGoesInCirclesEnds(t *testing.T) {
	b := NewBook(Site{Enforced: true, Associations: []Association{{Account: "a", Parent: "b"},
		{Account: "b", Parent: "a", Limits: []Limit{{GrpTRES, "cpu", 1}}}}})
	b.Judge([]Job{waits(1, "alice", func(j *Job) { j.Account = "a" })})
}

func TestAVerdictDoesNotDependOnTheOrderOfTheSite(t *testing.T) {
	s := Site{Enforced: true, QOS: []QOS{{Name: "normal", Limits: []Limit{{MaxTRESPerUser, "cpu", 9},
		{MaxTRESPerUser, "mem", 9000}}}}}
	for _, name := range strings.Fields("root users ml a b c d e") {
		s.Associations = append(s.Associations, Association{Account: name,
			Limits: []Limit{{GrpTRES, "cpu", 12}, {GrpTRES, "gres/gpu", 3}, {GrpJobs, "", 2}}})
	}
	var jobs []Job
	for i, a := range s.Associations {
		jobs = append(jobs, waits(i+1, "alice", func(j *Job) { j.Account = a.Account }))
	}
	want := NewBook(s).Judge(jobs)
	for range 50 {
		rand.Shuffle(len(s.Associations), func(i, j int) { s.Associations[i], s.Associations[j] = s.Associations[j], s.Associations[i] })
		if got := NewBook(s).Judge(jobs); !reflect.DeepEqual(got, want) {
			t.Fatalf("got %+v\nwant %+v", got, want)
		}
	}
}

func BenchmarkJudge(b *testing.B) {
	book := site(account("root", Limit{GrpTRES, "cpu", 100_000}),
		account("ml", Limit{GrpTRES, "cpu", 9000}, Limit{GrpTRES, "node", 90}),
		qos("normal", Limit{MaxTRESPerUser, "cpu", 500}))
	var jobs []Job
	for i := range 5000 {
		j := waits(i, []string{"alice", "bob"}[i%2])
		if i%4 == 0 {
			runs("n1", 3)(&j)
		}
		j.Managed = i%8 > 0
		jobs = append(jobs, j)
	}
	for b.Loop() {
		book.Judge(jobs)
	}
}

func TestOfTwoNumbersForOneGroupTheSmallerHoldsForAll(t *testing.T) {
	b := site(account("users", Limit{GrpTRES, cores, 10}), service("fast", func(q *QOS) { q.Factor = 3 }))
	v := b.Judge([]Job{waits(1, "alice", under("fast")), waits(2, "alice"), waits(3, "alice", under("fast"))})
	if len(v.Quotas) != 1 || v.Quotas[0].CPUs != 10 {
		t.Errorf("quotas %+v, want one of 10 cores, although two jobs come under 30", v.Quotas)
	}
}

func TestEachTypeOfGPUHasAQuotaOfItsOwn(t *testing.T) {
	typed := func(j *Job) { j.GPUType = "a100" }
	v := site(account("ml", Limit{GrpTRES, ofType + "a100", 2},
		Limit{GrpTRES, gpus, 5})).Judge([]Job{waits(1, "alice", typed)})
	if len(v.Quotas) != 2 || v.Quotas[0].GPUs+v.Quotas[1].GPUs != 7 {
		t.Errorf("quotas %+v, want one of 5 GPUs and one of 2 of the type", v.Quotas)
	}
}

func TestAMinuteThatHasBegunCounts(t *testing.T) {
	b := site(user("alice", "ml", Limit{MaxTRESMinsPerJob, cores, 12}))
	v := b.Judge([]Job{waits(1, "alice", func(j *Job) { j.TimeLimit = 90 * time.Second })})
	if got := v.Terms[0].Ceiling.CPUs; got != 6 {
		t.Errorf("%d cores for two minutes that have begun, of 12 minutes: want 6", got)
	}
}

func TestAQOSThatGoesBeforeThePartitionsLeavesItWhatItDoesNotSay(t *testing.T) {
	b := site(qos("part", Limit{MaxTRESPerJob, memory, 1000}, Limit{MaxTRESPerJob, cores, 3}),
		service("fast", func(q *QOS) { q.OverPartition, q.Limits = true, []Limit{{MaxTRESPerJob, cores, 7}} }))
	v := b.Judge([]Job{waits(1, "alice", func(j *Job) { j.QOS, j.Partition = "fast", "short" })})
	if got := v.Terms[0].Ceiling; got != (gres.Vector{CPUs: 7, Memory: 1000}) {
		t.Errorf("ceiling %s, want 7 cores by its own QOS and 1000 MB by its partition's", got)
	}
}
