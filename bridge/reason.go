package bridge

import (
	"regexp"
	"strings"
)

// reasons are Slurm's words for why it does not start a job that has all it asks for, beside its limits. What is not
// here passes by itself, is known to a round already (Dependency, JobHeld…), or is ours (BeginTime).
var reasons = map[string]string{
	"PartitionTimeLimit":    "its time limit is longer than its partition allows",
	"PartitionNodeLimit":    "it asks for more or fewer nodes than its partition allows",
	"PartitionConfig":       "its partition cannot serve the request",
	"PartitionDown":         "its partition is down",
	"PartitionInactive":     "its partition is inactive",
	"Reservation":           "its reservation has not begun, or has no room",
	"ReservationDeleted":    "its reservation is gone",
	"ReservationInvalid":    "its reservation cannot be used",
	"Licenses":              "the licenses that it asks for are in use",
	"JobArrayTaskLimit":     "as many tasks of its array run as it allows at once",
	"BurstBufferResources":  "its burst buffer has no room",
	"BurstBufferStageIn":    "its burst buffer is being filled",
	"BurstBufferOperation":  "its burst buffer has failed",
	"AccountNotAllowed":     "its partition is not for its account",
	"QOSNotAllowed":         "its partition is not for its QOS",
	"QOSUsageThreshold":     "its account has used too much for its QOS",
	"InvalidAccount":        "its account is none that it may use",
	"InvalidQOS":            "its QOS is none that it may use",
	"AccountingPolicy":      "a limit of its account or its QOS is reached",
	"AssociationJobLimit":   "its account's limit on running jobs is reached",
	"BadConstraints":        "no node can ever hold the request",
	"DeadLine":              "it cannot end before its deadline",
	"MaxPoweredUpNodes":     "as many nodes are powered up as may be",
	"MpiPortsBusy":          "all ports for MPI are in use",
	"QOSJobLimit":           "its QOS's limit on running jobs is reached",
	"QOSResourceLimit":      "a limit of its QOS is reached",
	"QOSTimeLimit":          "its QOS's limit on time is reached",
	"MaxMemPerLimit":        "it asks for more memory than a job may have",
	"QOSMinCpuNotSatisfied": "it asks for fewer cores than its QOS demands",
}

// passing are Slurm's words for what passes by itself, or is a matter of the place that was chosen and not of the job.
var passing = map[string]string{
	"Resources":       "what it needs is not free",
	"Priority":        "others go first",
	"Prolog":          "a prolog is still running",
	"ReqNodeNotAvail": "the node is down, drained or reserved for others",
}

// limitReason takes apart how Slurm writes a limit: AssocGrpGRES, QOSMaxCpuPerUserLimit, MaxNodePerAccount,
// AssocGrpCPURunMinutesLimit.
var limitReason = regexp.MustCompile(
	`^(Assoc|QOS|)(Grp|Max|Min)(BB|Billing|C(?:PU|pu)|Energy|GRES|Jobs?|License|Mem(?:ory)?|Node|Unknown|Wall(?:Duration)?|Submit(?:Jobs?)?)(Run)?(Min(?:ute)?s)?` +
		`(PerJob|PerNode|PerUser|PerA(?:ccount|cct))?(?:Limit)?$`)

// counted are what limits count.
var counted = map[string]string{
	"bb": "burst buffers", "billing": "billing", "cpu": "cores", "energy": "energy", "gres": "GPUs",
	"job": "running jobs", "license": "licenses",
	"mem": "memory", "node": "nodes", "unknown": "a resource", "wall": "time", "submit": "submitted jobs",
}

// each says whom a limit holds.
var each = map[string]string{
	"PerJob": " for each job", "PerNode": " for each node", "PerUser": " for each user",
	"PerAccount": " for each account", "PerAcct": " for each account",
}

// word is a reason without what Slurm adds to some: ReqNodeNotAvail, UnavailableNodes:n1.
func word(reason string) string {
	first, _, _ := strings.Cut(reason, ",")
	return first
}

// meaning is what a reason of Slurm's says in words, where it says that a job is refused; empty where it does not.
func meaning(reason string) string {
	if words := reasons[reason]; words != "" {
		return words
	}
	part := limitReason.FindStringSubmatch(reason)
	if part == nil {
		return ""
	}
	whose := "its QOS's"
	if part[1] == "Assoc" {
		whose = "its account's"
	}
	what := counted[kindCounted(part[3])]
	if part[5] != "" {
		what = "minutes of " + what
	}
	if part[2] == "Min" {
		return "it asks for less than " + whose + " least of " + what
	}
	return whose + " limit on " + what + each[part[6]] + " is reached"
}

// kindCounted is the word under which counted has what a reason names.
func kindCounted(word string) string {
	word = strings.ToLower(word)
	for _, kind := range []string{"job", "mem", "wall", "submit"} {
		if strings.HasPrefix(word, kind) {
			return kind
		}
	}
	return word
}

// isLimit says that a reason is one of a user, an account or a QOS, and so holds for others like the job.
func isLimit(reason string) bool {
	switch reason {
	case "AccountingPolicy", "AssociationJobLimit", "QOSJobLimit", "QOSResourceLimit", "QOSUsageThreshold":
		return true
	}
	return limitReason.MatchString(reason)
}

// isUsedUp says that a reason is a limit on what has been used over time, which is no less used up when a job stops.
func isUsedUp(reason string) bool {
	if reason == "QOSUsageThreshold" {
		return true
	}
	part := limitReason.FindStringSubmatch(reason)
	return part != nil && part[2] == "Grp" && part[4] == "" && (part[5] != "" || kindCounted(part[3]) == "wall")
}
