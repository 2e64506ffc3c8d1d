package bridge

import (
	"regexp"
	"strings"
)

// reasons are Slurm's reasons, besides limits, for which it does not start a job even if there is room. Reasons that
// are missing here pass by themselves, are known to rounds anyway (Dependency, JobHeld…), or are caused by us
// (BeginTime).
var reasons = map[string]barReason{
	"PartitionTimeLimit":    {CausePartitionRules, "its time limit is longer than its partition allows"},
	"PartitionNodeLimit":    {CausePartitionRules, "it asks for more or fewer nodes than its partition allows"},
	"PartitionConfig":       {CausePartitionRules, "its partition cannot serve the request"},
	"PartitionDown":         {CausePartitionDown, "its partition is down"},
	"PartitionInactive":     {CausePartitionDown, "its partition is inactive"},
	"Reservation":           {CauseReservation, "its reservation has not begun, or has no room"},
	"ReservationDeleted":    {CauseReservationGone, "its reservation is gone"},
	"ReservationInvalid":    {CauseReservationGone, "its reservation cannot be used"},
	"Licenses":              {CauseLicenses, "the licenses that it asks for are in use"},
	"JobArrayTaskLimit":     {CauseArray, "as many tasks of its array run as it allows at once"},
	"BurstBufferResources":  {CauseSlurmRoom, "its burst buffer has no room"},
	"BurstBufferStageIn":    {CauseSlurmRoom, "its burst buffer is being filled"},
	"BurstBufferOperation":  {CauseBurstBuffer, "its burst buffer has failed"},
	"AccountNotAllowed":     {CauseAccount, "its partition is not for its account"},
	"QOSNotAllowed":         {CauseQOS, "its partition is not for its QOS"},
	"QOSUsageThreshold":     {CauseUsedUp, "its account has used too much for its QOS"},
	"InvalidAccount":        {CauseAccount, "its account is none that it may use"},
	"InvalidQOS":            {CauseQOS, "its QOS is none that it may use"},
	"AccountingPolicy":      {CauseSlurmLimit, "a limit of its account or its QOS is reached"},
	"AssociationJobLimit":   {CauseSlurmLimit, "its account's limit on running jobs is reached"},
	"BadConstraints":        {CauseRequest, "no node can ever hold the request"},
	"DeadLine":              {CauseRequest, "it cannot end before its deadline"},
	"MaxPoweredUpNodes":     {CauseSlurmRoom, "as many nodes are powered up as may be"},
	"MpiPortsBusy":          {CauseSlurmRoom, "all ports for MPI are in use"},
	"QOSJobLimit":           {CauseSlurmLimit, "its QOS's limit on running jobs is reached"},
	"QOSResourceLimit":      {CauseSlurmLimit, "a limit of its QOS is reached"},
	"QOSTimeLimit":          {CauseSlurmLimit, "its QOS's limit on time is reached"},
	"MaxMemPerLimit":        {CauseRequest, "it asks for more memory than a job may have"},
	"QOSMinCpuNotSatisfied": {CauseRequest, "it asks for fewer cores than its QOS demands"},
}

// transientReasons are Slurm's reasons that pass by themselves, or depend on the chosen place and not on the job.
var transientReasons = map[string]string{
	"Resources":       "what it needs is not free",
	"Priority":        "others go first",
	"Prolog":          "a prolog is still running",
	"ReqNodeNotAvail": "the node is down, drained or reserved for others",
}

// limitReason parses Slurm's names of limits: AssocGrpGRES, QOSMaxCpuPerUserLimit, MaxNodePerAccount,
// AssocGrpCPURunMinutesLimit. Its groups are: 1 whose limit, 2 its kind, 3 what it counts, 4 Run, 5 minutes, 6 to what
// it applies.
var limitReason = regexp.MustCompile(
	`^(Assoc|QOS|)(Grp|Max|Min)(BB|Billing|C(?:PU|pu)|Energy|GRES|Jobs?|License|Mem(?:ory)?|Node|Unknown|Wall(?:Duration)?|Submit(?:Jobs?)?)(Run)?(Min(?:ute)?s)?` +
		`(PerJob|PerNode|PerUser|PerA(?:ccount|cct))?(?:Limit)?$`)

// resourceWords is what limits count, in words.
var resourceWords = map[string]string{
	"bb": "burst buffers", "billing": "billing", "cpu": "cores", "energy": "energy", "gres": "GPUs",
	"job": "running jobs", "license": "licenses",
	"mem": "memory", "node": "nodes", "unknown": "a resource", "wall": "time", "submit": "submitted jobs",
}

// limitScopes is to what a limit applies, in words.
var limitScopes = map[string]string{
	"PerJob": " for each job", "PerNode": " for each node", "PerUser": " for each user",
	"PerAccount": " for each account", "PerAcct": " for each account",
}

// baseReason is Slurm's reason without the details that it appends to some, so that it can be looked up:
// ReqNodeNotAvail of "ReqNodeNotAvail, UnavailableNodes:n1".
func baseReason(reason string) string {
	first, _, _ := strings.Cut(reason, ",")
	return first
}

// reasonMeaning explains, for the user, a reason for which Slurm does not start a job even if there is room. Empty: the
// reason is no refusal, so a start that shows it may still come about.
func reasonMeaning(reason string) string {
	if words := reasons[reason].why; words != "" {
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
	what := resourceWords[kindCounted(part[3])]
	if part[5] != "" {
		what = "minutes of " + what
	}
	if part[2] == "Min" {
		return "it asks for less than " + whose + " least of " + what
	}
	return whose + " limit on " + what + limitScopes[part[6]] + " is reached"
}

// causeOfReason is the wait cause, for the report and for hand-backs, of a reason for which Slurm refuses a job;
// CauseOther for other reasons.
func causeOfReason(reason string) WaitCause {
	part := limitReason.FindStringSubmatch(reason)
	switch {
	case reasons[reason].cause != "":
		return reasons[reason].cause
	case part != nil && part[2] == "Min":
		return CauseRequest
	case isUsedUp(reason):
		return CauseUsedUp
	case part != nil:
		return CauseSlurmLimit
	}
	return CauseOther
}

// kindCounted is the key in resourceWords of what a limit counts. Slurm spells some of them in several ways: Job and
// Jobs, Mem and Memory, Wall and WallDuration.
func kindCounted(word string) string {
	word = strings.ToLower(word)
	for _, kind := range []string{"job", "mem", "wall", "submit"} {
		if strings.HasPrefix(word, kind) {
			return kind
		}
	}
	return word
}

// isLimit says that a reason is a limit of a user, an account or a QOS, so that what Slurm refuses to one job it
// refuses to similar ones.
func isLimit(reason string) bool {
	switch reason {
	case "AccountingPolicy", "AssociationJobLimit", "QOSJobLimit", "QOSResourceLimit", "QOSUsageThreshold":
		return true
	}
	return limitReason.MatchString(reason)
}

// isUsedUp says that a reason is a limit on usage over time, such as GrpTRESMins. Stopping a job does not give such
// usage back, so no running job under the limit may be stopped: it could not start again. A limit on RunMinutes is none
// of these: it counts what running jobs may still use, which is free again when they stop.
func isUsedUp(reason string) bool {
	if reason == "QOSUsageThreshold" {
		return true
	}
	part := limitReason.FindStringSubmatch(reason)
	return part != nil && part[2] == "Grp" && part[4] == "" && (part[5] != "" || kindCounted(part[3]) == "wall")
}
