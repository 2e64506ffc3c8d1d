// Command trim reduces slurmrestd's own OpenAPI document (GET /openapi/v3, 1.6 MB) to the operations and fields that
// package slurmrest uses, of one API version:
//
//	curl -H "X-SLURM-USER-TOKEN: $SLURM_JWT" http://slurm:6820/openapi/v3 | go run ./internal/trim v0.0.42 >openapi-v0.0.42.json
//
// Every name and type comes from slurmrestd, except for the corrections listed in trim.go, where slurmrestd deviates
// from its document. The output depends only on the input: keys are sorted, and it contains nothing of the host. The
// program generates no code and is not part of the product.
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"strings"
)

// operations are the calls of the client: the path under /slurm/VERSION and the method, to the name of the Go function.
var operations = map[string]map[string]string{
	"/ping/":         {"get": "ping"},
	"/nodes/":        {"get": "get_nodes"},
	"/jobs/":         {"get": "get_jobs"},
	"/jobs/state/":   {"get": "get_job_states"},
	"/job/{job_id}":  {"get": "get_job", "post": "update_job", "delete": "signal_job"},
	"/diag/":         {"get": "get_diag"},
	"/job/submit":    {"post": "submit_job"},
	"/reservations/": {"get": "get_reservations"},
}

// later are operations that not every version has, by the first version that does.
var later = map[string]map[string]map[string]string{
	"v0.0.45": {"/jobs/requeue": {"post": "requeue_jobs"}},
}

// operationsOf are the operations of a version.
func operationsOf(version string) map[string]map[string]string {
	all := maps.Clone(operations)
	for first, added := range later {
		if version >= first {
			maps.Copy(all, added)
		}
	}
	return all
}

// fields are the properties to keep, by schema name without version. A schema that is not listed is kept whole.
var fields = map[string]string{
	"job_info": `job_id name user_name partition comment admin_comment extra container job_state state_reason hold priority
		array_job_id array_task_id array_task_string array_max_tasks het_job_id shared batch_flag cron thread_spec contiguous dependency
		features excluded_nodes resv_name max_nodes cpus_per_tres memory_per_tres
		qos account deadline exit_code
		submit_time eligible_time start_time end_time time_limit restart_cnt requeue
		node_count tasks tasks_per_node tasks_per_tres cpus_per_task cpus minimum_cpus_per_node memory_per_node memory_per_cpu
		tres_per_node tres_per_job tres_per_task tres_per_socket tres_req_str required_nodes
		nodes gres_detail job_resources`,
	"node": `name comment active_features partitions effective_cpus real_memory specialized_memory gres gres_used
		alloc_cpus alloc_memory state`,
	"job_desc_msg": `begin_time deadline dependency time_limit tasks cpus_per_task minimum_cpus minimum_cpus_per_node memory_per_node memory_per_cpu
		required_nodes tres_per_node tres_per_job tres_per_task extra comment requeue
		name partition hold current_working_directory environment standard_output script`,
	"process_exit_code_verbose":    `return_code signal`,
	"reservation_resp":             `reservations errors warnings`,
	"reservation_info":             `name start_time end_time node_list`,
	"jobs_requeue_query":           `flags jobs`,
	"jobs_requeue_resp":            `status errors warnings`,
	"job_array_response_msg_entry": `error error_code`,
	"diag_resp":                    `statistics errors warnings`,
	"stats_msg":                    `req_time`,
	"job_submit_req":               `job`,
	"job_submit_response":          `job_id errors warnings`,
	"job_res":                      `nodes`,
	"job_res_node":                 `name cpus memory`,
	"job_info_resp":                `jobs errors warnings`,
	"nodes_resp":                   `nodes errors warnings`,
	"ping_array_resp":              `pings errors warnings`,
	"job_post_response":            `errors warnings`,
	"kill_job_resp":                `status errors warnings`,
	"kill_jobs_resp_job":           `error`,
	"controller_ping":              `hostname pinged responding`,
	"error":                        `error_number error description source`,
	"warning":                      `description source`,
}

// presenceOf says whether the properties of a schema are always present.
type presenceOf int

const (
	answered presenceOf = iota // slurmrestd always writes all of them
	optional                   // unset ones must not appear
)

// presence lists the schemas that the client sends.
var presence = map[string]presenceOf{"jobs_requeue_query": optional, "job_desc_msg": optional,
	"job_submit_req": optional}

type object = map[string]any

func main() {
	if err := run(os.Stdin, os.Stdout, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "trim:", err)
		os.Exit(1)
	}
}

// run reads slurmrestd's document from in and writes the trimmed one to out. The only argument is the API version.
func run(in io.Reader, out io.Writer, args []string) error {
	if len(args) != 1 || !strings.HasPrefix(args[0], "v") {
		return fmt.Errorf("want one API version, such as v0.0.42")
	}
	var document object
	if err := json.NewDecoder(in).Decode(&document); err != nil {
		return fmt.Errorf("read document: %w", err)
	}
	trimmer := newTrimmer(document, args[0])
	trimmed, err := trimmer.document()
	if err != nil {
		return err
	}
	encoder := json.NewEncoder(out)
	encoder.SetIndent("", " ")
	encoder.SetEscapeHTML(false)
	return encoder.Encode(trimmed)
}
