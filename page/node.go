package page

import (
	"github.com/synergy-slurmd/synergy-slurmd/bridge"
	"github.com/synergy-slurmd/synergy-slurmd/story"
)

// nodePage is the data of a node's page.
type nodePage struct {
	Name  string
	Known bool // the last round saw the node
	Round int
	Node  node
	Has   []amount
}

func nodePageOf(report bridge.Report, name string) nodePage {
	page := nodePage{Name: name, Round: report.Round}
	for _, n := range nodesOf(report, rowsOf(report)) {
		if n.Name == name {
			page.Known, page.Node = true, n
			page.Has = amounts(n.GPUs, n.Cores, n.Memory)
		}
	}
	return page
}

// Lent describes what a job has on the node beyond its share; empty: nothing.
func (r row) Lent() string {
	text := ""
	if cores := r.Grant.PerNode.CPUs - r.Fair.CPUs; cores > 0 {
		text = counted(cores, "core")
	}
	if memory := r.Grant.PerNode.Memory - r.Fair.Memory; memory > 0 {
		if text != "" {
			text += ", "
		}
		text += story.Gigabytes(memory)
	}
	return text
}
