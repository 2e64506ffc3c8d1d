// Package accounts is the part of slurmrestd's API about the site: partitions, associations and QOS with their limits,
// and what preflight checks ask. It is the same from v0.0.42 to v0.0.45, so it is written once by hand and not
// generated. It decodes few fields of answers that have 2 kB per user.
package accounts

import (
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurmrest/internal/wire"
	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/limits"
)

// Speak adds the calls of this package to an API for a slurmrestd address.
func Speak(api wire.API, server string) wire.API {
	ctld, dbd := server+"/slurm/"+api.Name, server+"/slurmdb/"+api.Name
	api.Partitions = func() wire.Call[wire.Partitions] { return get(ctld+"/partitions/", "/partitions/", partitions) }
	api.Associations = func(cluster string) wire.Call[[]limits.Association] {
		return get(dbd+"/associations/?cluster="+url.QueryEscape(cluster), wire.AllAssociations, associations(cluster))
	}
	api.Level = func(user string) wire.Call[string] {
		return get(dbd+"/user/"+url.PathEscape(user), "/slurmdb/user/{name}", level)
	}
	api.Threads = func() wire.Call[int] { return get(ctld+"/nodes/", "/nodes/", threads) }
	api.QOS = func() wire.Call[[]limits.QOS] { return get(dbd+"/qos/", "/slurmdb/qos/", qosList) }
	return api
}

// complaint is the errors and warnings in every answer.
type complaint struct {
	Errors []struct {
		Number      int    `json:"error_number"`
		Text        string `json:"error"`
		Description string `json:"description"`
	} `json:"errors"`
	Warnings []struct {
		Description string `json:"description"`
	} `json:"warnings"`
}

// said converts the errors and warnings of an answer.
func (c *complaint) said() (all wire.Complaint) {
	for _, e := range c.Errors {
		all.Errors = append(all.Errors, wire.Error{Number: e.Number, Text: e.Text, Description: e.Description})
	}
	for _, w := range c.Warnings {
		all.Warnings = append(all.Warnings, w.Description)
	}
	return all
}

// get is a GET call whose answer is decoded as A and converted by told, which also returns the answer's errors and
// warnings. path names the call for counters.
func get[A, T any](address, path string, told func(*A) (T, wire.Complaint)) wire.Call[T] {
	request, err := http.NewRequest(http.MethodGet, address, nil)
	return wire.Call[T]{Path: path, Request: request, Err: err, Read: func(body []byte) (T, wire.Complaint, error) {
		var answer A
		if err := json.Unmarshal(body, &answer); err != nil {
			var none T
			return none, wire.Complaint{}, err
		}
		value, said := told(&answer)
		return value, said, nil
	}}
}

// optionalNumber is a number that may be unset or infinite.
type optionalNumber struct {
	Set      bool    `json:"set"`
	Infinite bool    `json:"infinite"`
	Number   float64 `json:"number"`
}

// isLimit reports whether the number is a limit.
func (o optionalNumber) isLimit() bool { return o.Set && !o.Infinite && o.Number >= 0 }

// orZero is the number if it is a limit, capped at mostCount; else 0.
func (o optionalNumber) orZero() int {
	if !o.isLimit() {
		return 0
	}
	return int(min(o.Number, mostCount))
}

// mostCount caps numbers, so that their sums do not overflow. No real count is larger.
const mostCount = 1 << 40

type partitionList struct {
	complaint
	Meta struct {
		Plugin struct {
			Storage string `json:"accounting_storage"`
		} `json:"plugin"`
		Slurm struct {
			Cluster string `json:"cluster"`
			Release string `json:"release"`
		} `json:"slurm"`
	} `json:"meta"`
	Partitions []struct {
		Name string `json:"name"`
		QOS  struct {
			Assigned string `json:"assigned"`
		} `json:"qos"`
		TRES struct {
			Configured string `json:"configured"`
			Weights    string `json:"billing_weights"`
		} `json:"tres"`
		Priority struct {
			Tier int `json:"tier"`
		} `json:"priority"`
		Maximums struct {
			CPUs   optionalNumber `json:"cpus_per_node"`
			Memory optionalNumber `json:"partition_memory_per_node"`
		} `json:"maximums"`
	} `json:"partitions"`
}

// partitions converts the answer. An unset or infinite maximum becomes 0, which means no bound (limits.Partition).
func partitions(a *partitionList) (wire.Partitions, wire.Complaint) {
	told := wire.Partitions{Cluster: a.Meta.Slurm.Cluster, Storage: a.Meta.Plugin.Storage,
		Release: a.Meta.Slurm.Release}
	for _, p := range a.Partitions {
		told.Limits = append(told.Limits, limits.Partition{
			Name: p.Name, QOS: p.QOS.Assigned, Tier: p.Priority.Tier, MaxCPUs: p.Maximums.CPUs.orZero(),
			MaxMemory: gres.Memory(p.Maximums.Memory.orZero()),
		})
		told.GPUs = append(told.GPUs, gpusIn(p.TRES.Configured))
		told.Weights = append(told.Weights, p.TRES.Weights)
	}
	return told, a.said()
}

// gpusIn reads the GPUs in cpu=48,mem=1000000M,gres/gpu=16,gres/gpu:a100=16; 0 if GPUs are not accounted for.
func gpusIn(tres string) int {
	for entry := range strings.SplitSeq(tres, ",") {
		if amount, is := strings.CutPrefix(entry, "gres/gpu="); is {
			n, _ := strconv.Atoi(amount) // 0 if not a number
			return n
		}
	}
	return 0
}

type userList struct {
	complaint
	Users []struct {
		Level []string `json:"administrator_level"`
	} `json:"users"`
}

// level is the administrator level of the user that was asked for; empty: slurmdbd knows no such user.
func level(a *userList) (string, wire.Complaint) {
	if len(a.Users) == 0 || len(a.Users[0].Level) == 0 {
		return "", a.said()
	}
	return a.Users[0].Level[0], a.said()
}

type nodeList struct {
	complaint
	Nodes []struct {
		Threads int `json:"threads"`
	} `json:"nodes"`
}

// threads is the largest number of threads per core over all nodes.
func threads(a *nodeList) (most int, said wire.Complaint) {
	for _, node := range a.Nodes {
		most = max(most, node.Threads)
	}
	return most, a.said()
}

// tresList is the TRES of a limit.
type tresList []struct {
	Type  string `json:"type"`
	Name  string `json:"name"`
	Count int64  `json:"count"`
}

// limitsOf converts the list to limits of a kind. A negative count is Slurm's mark for no limit.
func (t tresList) limitsOf(kind limits.Kind) []limits.Limit {
	var list []limits.Limit
	for _, each := range t {
		name := each.Type
		if each.Name != "" {
			name += "/" + each.Name
		}
		if each.Count >= 0 {
			list = append(list, limits.Limit{Kind: kind, TRES: name, Most: min(each.Count, mostCount)})
		}
	}
	return list
}

// jobLimit converts a number of jobs to a limit.
func (o optionalNumber) jobLimit(kind limits.Kind) []limits.Limit {
	if !o.isLimit() {
		return nil
	}
	return []limits.Limit{{Kind: kind, Most: int64(o.orZero())}}
}

type associationList struct {
	complaint
	Associations []association `json:"associations"`
}

// associations returns a function that converts the associations of that cluster: slurmdbd may serve several.
func associations(cluster string) func(*associationList) ([]limits.Association, wire.Complaint) {
	return func(a *associationList) ([]limits.Association, wire.Complaint) {
		var told []limits.Association
		for i := range a.Associations {
			if each := &a.Associations[i]; each.Cluster == cluster {
				told = append(told, each.read())
			}
		}
		return told, a.said()
	}
}

type association struct {
	Account   string `json:"account"`
	Parent    string `json:"parent_account"`
	User      string `json:"user"`
	Partition string `json:"partition"`
	Cluster   string `json:"cluster"`
	Max       struct {
		Jobs struct {
			Active optionalNumber `json:"active"` // MaxJobs
			Per    struct {
				Count optionalNumber `json:"count"` // GrpJobs
			} `json:"per"`
		} `json:"jobs"`
		TRES struct {
			Total tresList `json:"total"` // GrpTRES
			Group struct {
				Minutes tresList `json:"minutes"`
			} `json:"group"`
			Minutes struct {
				Per struct {
					Job tresList `json:"job"`
				} `json:"per"`
			} `json:"minutes"`
			Per struct {
				Job  tresList `json:"job"`
				Node tresList `json:"node"`
			} `json:"per"`
		} `json:"tres"`
	} `json:"max"`
}

// read converts an association. Slurm's JSON scatters its limits over max; their kinds are the names in sacctmgr.
func (a *association) read() limits.Association {
	tres := &a.Max.TRES
	return limits.Association{
		Account: a.Account, Parent: a.Parent, User: a.User, Partition: a.Partition,
		Limits: slices.Concat(
			tres.Total.limitsOf(limits.GrpTRES), a.Max.Jobs.Per.Count.jobLimit(limits.GrpJobs),
			tres.Group.Minutes.limitsOf(limits.GrpTRESMins),
			tres.Per.Job.limitsOf(limits.MaxTRESPerJob), tres.Per.Node.limitsOf(limits.MaxTRESPerNode),
			tres.Minutes.Per.Job.limitsOf(limits.MaxTRESMinsPerJob),
			a.Max.Jobs.Active.jobLimit(limits.MaxJobs),
		),
	}
}

// serviceList is the answer about QOS; a service is one QOS.
type serviceList struct {
	complaint
	QOS []qosEntry `json:"qos"`
}

// qosList converts the list of QOS with their limits.
func qosList(a *serviceList) ([]limits.QOS, wire.Complaint) {
	var told []limits.QOS
	for i := range a.QOS {
		told = append(told, a.QOS[i].read())
	}
	return told, a.said()
}

type qosEntry struct {
	Name   string   `json:"name"`
	Flags  []string `json:"flags"`
	Limits struct {
		Factor optionalNumber `json:"factor"`
		Max    struct {
			Active struct {
				Count optionalNumber `json:"count"` // GrpJobs
			} `json:"active_jobs"`
			Jobs struct {
				Active struct {
					Per struct {
						Account optionalNumber `json:"account"`
						User    optionalNumber `json:"user"`
					} `json:"per"`
				} `json:"active_jobs"`
			} `json:"jobs"`
			TRES struct {
				Total   tresList `json:"total"`
				Minutes struct {
					Total tresList `json:"total"`
					Per   struct {
						Job tresList `json:"job"`
					} `json:"per"`
				} `json:"minutes"`
				Per struct {
					Account tresList `json:"account"`
					Job     tresList `json:"job"`
					Node    tresList `json:"node"`
					User    tresList `json:"user"`
				} `json:"per"`
			} `json:"tres"`
		} `json:"max"`
	} `json:"limits"`
}

// read converts a QOS. Factor stays 0, which means none, where LimitFactor is unset.
func (s *qosEntry) read() limits.QOS {
	most := &s.Limits.Max
	q := limits.QOS{
		Name: s.Name, OverPartition: slices.Contains(s.Flags, "OVERRIDE_PARTITION_QOS"),
		Relative: slices.Contains(s.Flags, "RELATIVE"),
		Limits: slices.Concat(
			most.TRES.Total.limitsOf(limits.GrpTRES),
			most.Active.Count.jobLimit(limits.GrpJobs),
			most.TRES.Minutes.Total.limitsOf(limits.GrpTRESMins),
			most.TRES.Per.Job.limitsOf(limits.MaxTRESPerJob),
			most.TRES.Per.Node.limitsOf(limits.MaxTRESPerNode),
			most.TRES.Minutes.Per.Job.limitsOf(limits.MaxTRESMinsPerJob),
			most.TRES.Per.User.limitsOf(
				limits.MaxTRESPerUser,
			),
			most.TRES.Per.Account.limitsOf(limits.MaxTRESPerAccount),
			most.Jobs.Active.Per.User.jobLimit(limits.MaxJobsPerUser),
			most.Jobs.Active.Per.Account.jobLimit(limits.MaxJobsPerAccount),
		),
	}
	if s.Limits.Factor.isLimit() {
		q.Factor = s.Limits.Factor.Number
	}
	return q
}
