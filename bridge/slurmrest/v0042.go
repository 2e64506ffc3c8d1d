package slurmrest

import (
	"encoding/json"
	"fmt"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurmrest/internal/v0042"
	"github.com/synergy-slurmd/synergy-slurmd/gres"
)

// dialect42 is v0.0.42: Slurm 24.11 to 26.05.
type dialect42 struct{}

func (dialect42) version() string { return "v0.0.42" }

func (dialect42) jobs(body []byte) ([]listed, error) {
	var answer v0042.JobInfoResp
	if err := decode(body, &answer); err != nil {
		return nil, err
	}
	if err := (complaint{answer.Errors, answer.Warnings}).failed(200); err != nil {
		return nil, err
	}
	jobs := make([]listed, 0, len(answer.Jobs))
	for i := range answer.Jobs {
		jobs = append(jobs, readJob(&answer.Jobs[i]))
	}
	return jobs, nil
}

func (dialect42) nodes(body []byte) ([]bridge.Node, error) {
	var answer v0042.NodesResp
	if err := decode(body, &answer); err != nil {
		return nil, err
	}
	if err := (complaint{answer.Errors, answer.Warnings}).failed(200); err != nil {
		return nil, err
	}
	nodes := make([]bridge.Node, 0, len(answer.Nodes))
	for i := range answer.Nodes {
		nodes = append(nodes, readNode(&answer.Nodes[i]))
	}
	return nodes, nil
}

// update says the whole request, always: which of it Slurm has already is Slurm's to know. Only the GRES is left out where it is
// as before, since a job that asks for GPUs in another way than by node takes none by node (error 2072).
func (dialect42) update(wanted bridge.Update, before bridge.Request, begin int64) any {
	request := wanted.Request
	message := v0042.JobDescMsg{
		BeginTime:          number(begin),
		Tasks:              positive(request.Tasks),
		CpusPerTask:        positive(request.CPUsPerTask),
		MinimumCpus:        positive(request.CPUs),
		MinimumCpusPerNode: positive(request.CPUsPerNode),
		RequiredNodes:      pin(request.Pin),
		Extra:              &wanted.Extra,
	}
	if request.MemoryPerCPU > 0 {
		message.MemoryPerCpu = number(int64(request.MemoryPerCPU)) // and Slurm forgets the memory per node
	} else {
		message.MemoryPerNode = number(int64(request.Memory))
	}
	if request.GRES != before.GRES {
		message.TresPerNode = &request.GRES
	}
	return message
}

// renewal says when the job may begin, and its stamp.
func (dialect42) renewal(wanted bridge.Update, begin int64) any {
	return v0042.JobDescMsg{BeginTime: number(begin), Extra: &wanted.Extra}
}

func number(n int64) *v0042.OptionalNumber { return &v0042.OptionalNumber{Set: true, Number: n} }

// positive leaves out what nobody can ask for: no CPUs, no tasks.
func positive(n int) *int32 {
	if n <= 0 {
		return nil
	}
	n32 := int32(n)
	return &n32
}

// pin is a list with one empty name where there is none: an empty list changes nothing, and the job keeps the pin that it has.
func pin(nodes []string) *[]string {
	if len(nodes) == 0 {
		nodes = []string{""}
	}
	return &nodes
}

func decode(body []byte, answer any) error {
	if err := json.Unmarshal(body, answer); err != nil {
		return unheard{fmt.Errorf("read answer: %w", err)}
	}
	return nil
}

// counted is a number as v0.0.40 and later write it; 0 where it is not set or without bound.
func counted(n v0042.OptionalNumber) int {
	if !n.Set || n.Infinite {
		return 0
	}
	return int(n.Number)
}

func memory(n v0042.OptionalNumber) gres.Memory { return gres.Memory(counted(n)) }
