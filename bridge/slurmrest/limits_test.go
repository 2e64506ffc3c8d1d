package slurmrest

import (
	"bytes"
	"errors"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
	"github.com/synergy-slurmd/synergy-slurmd/limits"
)

// withLimits is a client of a slurmrestd that was recorded with limits, whose scontrol says what is enforced.
func withLimits(t *testing.T, enforce string) (*fakeSlurmrestd, *Client) {
	t.Helper()
	fake := startFake(t)
	for path, file := range map[string]string{
		"/partitions/": "limits-partitions.json", "/slurmdb/v0.0.42/associations/": "limits-associations.json",
		"/slurmdb/v0.0.42/qos/": "limits-qos.json",
	} {
		fake.answers("GET", path, func(w http.ResponseWriter, _ *http.Request) { sayFile(w, 200, file) })
	}
	argv, _ := fakeScontrol(t, enforce)
	return fake, fake.open(t, Options{Scontrol: argv})
}

const enforcing = `echo "Configuration data as of 2026"; echo "AccountingStorageEnforce = associations,limits,qos"`

func TestTheSitesLimitsAreRead(t *testing.T) {
	fake, client := withLimits(t, enforcing)
	site, err := client.Limits(t.Context())
	if err != nil || !site.Enforced {
		t.Fatalf("%v, enforced %v", err, site.Enforced)
	}
	equal(t, "calls", fake.saw(), []string{"GET /partitions/", "GET /slurmdb/v0.0.42/associations/?cluster=synergy",
		"GET /slurmdb/v0.0.42/qos/"})
	want := []limits.Partition{{Name: "synergy", Tier: 1}, {Name: "plain", QOS: "part", Tier: 3, MaxCPUs: 20,
		MaxMemory: 400_000}}
	if !reflect.DeepEqual(site.Partitions, want) {
		t.Errorf("partitions %+v", site.Partitions)
	}
}

func TestAccountsAndUsersAreThoseOfTheClustersAssociations(t *testing.T) {
	_, client := withLimits(t, enforcing)
	accounts, users, err := client.Accounting(t.Context())
	if err != nil || !slices.Contains(accounts, "ml") || !slices.Contains(accounts, "root") || len(users) == 0 ||
		!slices.IsSorted(accounts) || len(slices.Compact(users)) != len(users) || slices.Contains(users, "") {
		t.Errorf("accounts %v, users %v, %v", accounts, users, err)
	}
}

func TestEveryLimitOfAnAssociationIsRead(t *testing.T) {
	_, client := withLimits(t, enforcing)
	site, _ := client.Limits(t.Context())
	k := slices.IndexFunc(site.Associations,
		func(a limits.Association) bool { return a.Account == "ml" && a.User == "" })
	if k < 0 || len(site.Associations) != 8 {
		t.Fatalf("%+v", site.Associations)
	}
	want := limits.Association{Account: "ml", Parent: "users", Limits: []limits.Limit{
		{Kind: limits.GrpTRES, TRES: "cpu", Most: 12}, {Kind: limits.GrpTRES, TRES: "gres/gpu", Most: 2},
		{Kind: limits.GrpJobs, Most: 5}, {Kind: limits.GrpTRESMins, TRES: "cpu", Most: 77777},
		{Kind: limits.MaxTRESPerJob, TRES: "cpu", Most: 6}, {Kind: limits.MaxTRESPerNode, TRES: "cpu", Most: 5},
		{Kind: limits.MaxJobs, Most: 3},
	}}
	if !reflect.DeepEqual(site.Associations[k], want) {
		t.Errorf("got %+v", site.Associations[k])
	}
}

func TestEveryLimitOfAQOSIsRead(t *testing.T) {
	_, client := withLimits(t, enforcing)
	site, _ := client.Limits(t.Context())
	want := []limits.QOS{
		{Name: "normal"},
		{Name: "fast", OverPartition: true, Factor: 2, Limits: []limits.Limit{
			{Kind: limits.GrpTRES, TRES: "gres/gpu", Most: 3}, {Kind: limits.GrpJobs, Most: 7},
			{Kind: limits.GrpTRESMins, TRES: "cpu", Most: 1_000_000},
			{Kind: limits.MaxTRESPerJob, TRES: "mem", Most: 102_400},
			{Kind: limits.MaxTRESPerNode, TRES: "cpu", Most: 10},
			{Kind: limits.MaxTRESMinsPerJob, TRES: "cpu", Most: 6000},
			{Kind: limits.MaxTRESPerUser, TRES: "cpu", Most: 8},
			{Kind: limits.MaxTRESPerUser, TRES: "gres/gpu", Most: 4},
			{Kind: limits.MaxTRESPerAccount, TRES: "node", Most: 2},
			{Kind: limits.MaxJobsPerUser, Most: 4}, {Kind: limits.MaxJobsPerAccount, Most: 9},
		}},
		{Name: "part", Relative: true, Limits: []limits.Limit{{Kind: limits.GrpTRES, TRES: "cpu", Most: 50}}},
	}
	if !reflect.DeepEqual(site.QOS, want) {
		t.Errorf("got  %+v\nwant %+v", site.QOS, want)
	}
}

func TestWhatIsEnforcedIsSlurmsConfiguration(t *testing.T) {
	for script, enforced := range map[string]bool{
		enforcing: true,
		`echo "AccountingStorageEnforce = associations,qos"`: false,
		`echo "AccountingStorageEnforce = none"`:             false,
		`echo "AccountingStorageEnforce = safe"`:             true,
		`echo "no such line"`:                                true,
		// without a scontrol, limits that were set are taken to be meant
		`exit 1`: true,
	} {
		_, client := withLimits(t, script)
		site, err := client.Limits(t.Context())
		if err != nil || site.Enforced != enforced || enforced != (len(site.Associations) > 0) {
			t.Errorf("%s: %v, enforced %v with %d associations", script, err, site.Enforced, len(site.Associations))
		}
	}
}

func TestAClusterWithoutSlurmdbdHasNoLimitsButItsPartitions(t *testing.T) {
	fake, client := withLimits(t, enforcing)
	fake.answers("GET", "/partitions/", func(w http.ResponseWriter, _ *http.Request) {
		body := bytes.ReplaceAll(recorded(t, "limits-partitions.json"), []byte("accounting_storage/slurmdbd"),
			[]byte("(null)"))
		say(w, 200, string(body))
	})
	site, err := client.Limits(t.Context())
	if err != nil || site.Enforced || len(site.Partitions) != 2 {
		t.Errorf("%v, %+v", err, site)
	}
	equal(t, "calls", fake.saw(), []string{"GET /partitions/"})
}

func TestASlurmrestdThatLacksSlurmdbdsPartIsAnErrorWithARemedy(t *testing.T) {
	fake, client := withLimits(t, enforcing)
	fake.answers("GET", "/slurmdb/v0.0.42/associations/", func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "Unable find requested URL. Please view /openapi/v3 for API reference.", http.StatusNotFound)
	})
	site, err := client.Limits(t.Context())
	if err == nil || !strings.Contains(err.Error(), "start it with -s openapi/slurmctld,openapi/slurmdbd") ||
		site.Enforced {
		t.Errorf("%v, %+v", err, site)
	}
}

func TestHalfAnAnswerIsNoAnswer(t *testing.T) {
	for name, body := range map[string]string{
		"an error in it":      `{"associations":[{"account":"ml","cluster":"synergy","user":""}],"errors":[{"error_number":7000,"error":"Unable to connect to database"}]}`,
		"no association":      `{"associations":[],"errors":[]}`,
		"of another cluster":  `{"associations":[{"account":"ml","cluster":"other","user":""}],"errors":[]}`,
		"not what it says":    `{"associations":{}}`,
		"numbers beyond ours": `{"associations":[{"account":"ml","cluster":"synergy","max":{"tres":{"total":[{"type":"cpu","count":1e40}]}}}]}`,
	} {
		fake, client := withLimits(t, enforcing)
		fake.answers("GET", "/slurmdb/v0.0.42/associations/",
			func(w http.ResponseWriter, _ *http.Request) { say(w, 200, body) })
		if site, err := client.Limits(t.Context()); err == nil || len(site.Partitions) > 0 {
			t.Errorf("%s: %v, %+v", name, err, site)
		}
	}
}

func TestALimitBeyondAllCountingIsBounded(t *testing.T) {
	fake, client := withLimits(t, enforcing)
	fake.answers("GET", "/slurmdb/v0.0.42/associations/", func(w http.ResponseWriter, _ *http.Request) {
		say(w, 200, `{"associations":[{"account":"ml","cluster":"synergy","max":{"jobs":{"active":{"set":true,"number":1e300}},
			"tres":{"total":[{"type":"cpu","count":9000000000000000000},{"type":"mem","count":-2}]}}}]}`)
	})
	site, err := client.Limits(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := []limits.Limit{{Kind: limits.GrpTRES, TRES: "cpu", Most: 1 << 40}, {Kind: limits.MaxJobs, Most: 1 << 40}}
	if got := site.Associations[0].Limits; !slices.Equal(got, want) {
		t.Errorf("%+v", got)
	}
}

func TestASlurmctldThatIsAwayIsUnreachableForLimitsToo(t *testing.T) {
	fake, client := withLimits(t, enforcing)
	fake.answers("GET", "/partitions/", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusBadGateway) })
	if _, err := client.Limits(t.Context()); !errors.Is(err, slurm.ErrUnreachable) {
		t.Error(err)
	}
}

func TestLimitsAreAskedForInTheVersionThatIsSpoken(t *testing.T) {
	for _, known := range versions() {
		api := known("http://slurmrestd")
		for want, request := range map[string]*http.Request{
			"/slurm/" + api.Name + "/partitions/":                   api.Partitions().Request,
			"/slurmdb/" + api.Name + "/associations/?cluster=a%26b": api.Associations("a&b").Request,
			"/slurmdb/" + api.Name + "/qos/":                        api.QOS().Request,
		} {
			if got := request.URL.RequestURI(); got != want {
				t.Errorf("asks for %s, want %s", got, want)
			}
		}
	}
}

func TestALimitWithoutBoundIsNone(t *testing.T) {
	fake, client := withLimits(t, enforcing)
	fake.answers("GET", "/slurmdb/v0.0.42/qos/", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"qos":[{"name":"open","limits":{"factor":{"set":true,"infinite":true,"number":0},
			"max":{"active_jobs":{"count":{"set":true,"infinite":true,"number":0}},"jobs":{"active_jobs":{"per":{"user":{"set":true,"number":2}}}}}}}]}`))
	})
	site, err := client.Limits(t.Context())
	want := []limits.QOS{{Name: "open", Limits: []limits.Limit{{Kind: limits.MaxJobsPerUser, Most: 2}}}}
	if err != nil || !reflect.DeepEqual(site.QOS, want) {
		t.Errorf("%+v, want %+v: %v", site.QOS, want, err)
	}
}
