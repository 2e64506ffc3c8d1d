package bridge

import (
	"strings"
	"testing"
)

// limitReasons are those that Slurm 24.11 can give for limits (job_state_reason.c), without the ones on submission.
const limitReasons = `AssocGrpBB AssocGrpBBMinutes AssocGrpBBRunMinutes AssocGrpBilling AssocGrpBillingMinutes AssocGrpBillingRunMinutes
AssocGrpCPUMinutesLimit AssocGrpCPURunMinutesLimit AssocGrpCpuLimit AssocGrpEnergy AssocGrpGRES AssocGrpGRESMinutes AssocGrpGRESRunMinutes
AssocGrpJobsLimit AssocGrpLicense AssocGrpMemLimit AssocGrpMemMinutes AssocGrpMemRunMinutes AssocGrpNodeLimit AssocGrpNodeMinutes
AssocGrpUnknown AssocGrpWallLimit AssocMaxBBMinutesPerJob AssocMaxBillingPerJob AssocMaxBillingPerNode AssocMaxCpuMinutesPerJobLimit
AssocMaxCpuPerJobLimit AssocMaxCpuPerNode AssocMaxGRESMinutesPerJob AssocMaxGRESPerJob AssocMaxGRESPerNode AssocMaxJobsLimit
AssocMaxMemPerJob AssocMaxMemPerNode AssocMaxNodePerJobLimit AssocMaxWallDurationPerJobLimit AssociationJobLimit AccountingPolicy
MaxBillingRunMinsPerUser MaxCpuPerAccount MaxCpuRunMinsPerAccount MaxGRESPerAccount MaxGRESRunMinsPerUser MaxJobsPerAccount
MaxMemoryPerAccount MaxMemoryRunMinsPerUser MaxNodePerAccount QOSGrpBilling QOSGrpCPUMinutesLimit QOSGrpCPURunMinutesLimit QOSGrpCpuLimit
QOSGrpGRES QOSGrpGRESRunMinutes QOSGrpJobsLimit QOSGrpMemLimit QOSGrpMemoryMinutes QOSGrpMemoryRunMinutes QOSGrpNodeLimit QOSGrpWallLimit
QOSJobLimit QOSMaxBillingPerUser QOSMaxCpuMinutesPerJobLimit QOSMaxCpuPerJobLimit QOSMaxCpuPerNode QOSMaxCpuPerUserLimit QOSMaxGRESPerJob
QOSMaxGRESPerUser QOSMaxJobsPerUserLimit QOSMaxMemoryPerUser QOSMaxNodePerJobLimit QOSMaxNodePerUserLimit QOSMaxWallDurationPerJobLimit
QOSMinGRES QOSMinMemory QOSResourceLimit QOSUsageThreshold`

func TestEveryLimitOfSlurmsHasAMeaningAndHoldsForOthersToo(t *testing.T) {
	for _, reason := range strings.Fields(limitReasons) {
		words := reasonMeaning(reason)
		if words == "" || strings.Contains(words, " on  ") || strings.Contains(words, "of is") || !isLimit(reason) {
			t.Errorf("%s: %q, a limit: %v", reason, words, isLimit(reason))
		}
	}
}

func TestALimitIsToldInWords(t *testing.T) {
	for reason, want := range map[string]string{
		"AssocGrpGRES":                  "its account's limit on GPUs is reached",
		"AssocGrpCPURunMinutesLimit":    "its account's limit on minutes of cores is reached",
		"AssocMaxCpuPerJobLimit":        "its account's limit on cores for each job is reached",
		"QOSMaxCpuPerUserLimit":         "its QOS's limit on cores for each user is reached",
		"MaxNodePerAccount":             "its QOS's limit on nodes for each account is reached",
		"QOSMinGRES":                    "it asks for less than its QOS's least of GPUs",
		"AssocMaxJobsLimit":             "its account's limit on running jobs is reached",
		"QOSMaxWallDurationPerJobLimit": "its QOS's limit on time for each job is reached",
		"Licenses":                      "the licenses that it asks for are in use",
	} {
		if got := reasonMeaning(reason); got != want {
			t.Errorf("%s: %q, want %q", reason, got, want)
		}
	}
}

func TestAReasonThatPassesByItselfIsNoRefusal(t *testing.T) {
	for _, reason := range []string{"", "None", "Resources", "Priority", "Prolog", "BeginTime", "Dependency",
		"JobHeldUser", "Cleaning", "ReqNodeNotAvail", "Max", "AssocGrp"} {
		if words := reasonMeaning(reason); words != "" || isLimit(reason) {
			t.Errorf("%s: %q", reason, words)
		}
	}
	for _, reason := range []string{"Licenses", "Reservation", "PartitionTimeLimit", "JobArrayTaskLimit"} {
		if isLimit(reason) || reasonMeaning(reason) == "" {
			t.Errorf("%s is a job's own", reason)
		}
	}
}
