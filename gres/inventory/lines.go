package inventory

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Layout is how a site wants its GPUs described.
type Layout struct {
	Shards int  // shards for each GPU; 0: whole GPUs only
	Cores  bool // with Cores=, which keeps jobs on other cores off a GPU
}

// Lines are what belongs into Slurm's configuration files for a node.
type Lines struct {
	GresConf []string // lines of gres.conf
	Types    string   // what GresTypes= of slurm.conf must contain
	Gres     string   // the value of Gres= in the node's line of slurm.conf
	Notes    []string // what a reader should know before copying them
}

// Lines returns the configuration that fits the node.
func (n Node) Lines(l Layout) (Lines, error) {
	if l.Shards < 0 {
		return Lines{}, fmt.Errorf("shards = %d: want 0 or more", l.Shards)
	}
	if !slices.ContainsFunc(n.GPUs, GPU.Cut) {
		return n.wholeLines(l), nil
	}
	if l.Shards > 0 {
		return Lines{},
			errors.New(
				"shards are parts of whole GPUs, and this node has GPUs in MIG mode: turn MIG off, or leave shards out")
	}
	return n.cutLines(), nil
}

// wholeLines describes each device by its file. AutoDetect is off in each line, since a site may have it on for other
// nodes.
func (n Node) wholeLines(l Layout) Lines {
	lines := Lines{Types: "gpu", Gres: n.Gres(l), Notes: n.notes(l)}
	for _, group := range n.groups(l) {
		line := fmt.Sprintf("NodeName=%s AutoDetect=off Name=gpu Type=%s File=%s", n.Name, typeOf(group[0], l),
			files(group))
		if l.Cores && len(group[0].Near.Cores) > 0 {
			line += " Cores=" + group[0].Near.Cores.String()
		}
		lines.GresConf = append(lines.GresConf, line)
	}
	if l.Shards > 0 {
		lines.Types = "gpu,shard"
		for _, g := range n.GPUs {
			lines.GresConf = append(lines.GresConf,
				fmt.Sprintf("NodeName=%s AutoDetect=off Name=shard Count=%d File=%s", n.Name, l.Shards, g.File()))
		}
	}
	return lines
}

// cutLines leaves MIG devices to slurmd's own detection, since the capability files of a part change whenever the GPU
// is divided anew.
func (n Node) cutLines() Lines {
	return Lines{
		GresConf: []string{fmt.Sprintf("NodeName=%s AutoDetect=nvml", n.Name)},
		Types:    "gpu", Gres: n.Gres(Layout{}),
		Notes: append(n.notes(Layout{Cores: true}),
			"MIG: AutoDetect binds each GPU to its near cores, and Slurm gives it only to jobs on these",
			"MIG: this wants a slurmd that was built with NVML; lines with MultipleFiles= for one that was not are "+
				"not made here",
			"MIG: slurmd reads the parts when it starts: start it again after each change of them"),
	}
}

// Gres returns the value of Gres= in the node's line of slurm.conf.
func (n Node) Gres(l Layout) string {
	var order []string
	count := map[string]int{}
	for _, u := range n.units() {
		t := u.typ
		if l.Shards > 0 {
			t = perDevice(u.gpu.Minor)
		}
		if count[t]++; count[t] == 1 {
			order = append(order, t)
		}
	}
	var terms []string
	for _, t := range order {
		terms = append(terms, fmt.Sprintf("gpu:%s:%d", t, count[t]))
	}
	if l.Shards > 0 {
		terms = append(terms, fmt.Sprintf("shard:%d", l.Shards*len(n.GPUs)))
	}
	return strings.Join(terms, ",")
}

// perDevice returns the Type of a single device, by which a job that shares a GPU can be sent to just this one.
func perDevice(minor int) string { return fmt.Sprintf("g%d", minor) }

func typeOf(g GPU, l Layout) string {
	if l.Shards > 0 {
		return perDevice(g.Minor)
	}
	return g.Type
}

// groups returns the GPUs that one line of gres.conf can name together. With Cores= in the lines these must be equal,
// too.
func (n Node) groups(l Layout) [][]GPU {
	var all [][]GPU
	for _, g := range n.GPUs {
		i := slices.IndexFunc(all, func(group []GPU) bool {
			return typeOf(group[0], l) == typeOf(g, l) && (!l.Cores || slices.Equal(group[0].Near.Cores, g.Near.Cores))
		})
		if i < 0 {
			all = append(all, []GPU{g})
			continue
		}
		all[i] = append(all[i], g)
	}
	return all
}

// files returns the device files as gres.conf writes them: /dev/nvidia[0-3].
func files(group []GPU) string {
	if len(group) == 1 {
		return group[0].File()
	}
	var minors []int
	for _, g := range group {
		minors = append(minors, g.Minor)
	}
	return fmt.Sprintf("/dev/nvidia[%s]", SetOf(minors...))
}

// notes returns what a reader of the lines should know.
func (n Node) notes(l Layout) []string {
	var notes []string
	if cores := n.nearCores(); len(cores) > 0 && !l.Cores {
		notes = append(notes,
			"Cores= is left out: with it Slurm gives a GPU only to jobs on these cores; --cores puts it in")
		notes = append(notes, cores...)
	}
	if l.Shards > 0 {
		notes = append(notes,
			"one Type per device, so that a job with shards can be sent to one GPU; users can no longer ask for a "+
				"model by its name")
	}
	byAddress := slices.SortedFunc(slices.Values(n.GPUs), func(a, b GPU) int { return cmp.Compare(a.Index, b.Index) })
	if !slices.EqualFunc(byAddress, n.GPUs, func(a, b GPU) bool { return a.Minor == b.Minor }) {
		notes = append(notes,
			"device files are not in the order of PCI addresses: Slurm counts GPUs by the first, nvidia-smi by "+
				"the second")
	}
	for _, u := range n.Unreadable {
		notes = append(notes, fmt.Sprintf("GPU with index %d is left out: it cannot be read: %s", u.Index, u.Reason))
	}
	return notes
}

// nearCores returns for each group of GPUs what Cores= would be.
func (n Node) nearCores() []string {
	var texts []string
	for _, group := range n.groups(Layout{Cores: true}) {
		if cores := group[0].Near.Cores; len(cores) > 0 {
			texts = append(texts, fmt.Sprintf("%s: near cores %s", files(group), cores))
		}
	}
	return texts
}
