package inventory

import (
	"fmt"
	"slices"
	"strings"
)

// unit is what Slurm counts as one GPU: a whole device, or a MIG part of one.
type unit struct {
	gpu   GPU
	typ   string   // its type in the printed lines
	names []string // a type that Slurm accepts is a part of one of these
	label string   // for a reader
}

// units returns the node's units, device by device.
func (n Node) units() []unit {
	var all []unit
	for _, g := range n.GPUs {
		if !g.Cut() {
			all = append(all, unit{g, g.Type, []string{underscored(g.Name), g.Type}, fmt.Sprintf("GPU %d", g.Minor)})
			continue
		}
		for _, p := range g.MIG.Parts {
			all = append(all, unit{
				g, p.Profile,
				[]string{underscored(g.Name) + "_" + p.Profile, underscored(g.Name) + "_mig_" + p.Profile,
					Type(g.Name) + "_" + p.Profile},
				fmt.Sprintf("MIG %s of GPU %d", p.Profile, g.Minor),
			})
		}
	}
	return all
}

// isDevice reports whether the type is that of this single device. Only nodes with shards have such types (Layout).
func (u unit) isDevice(typ string) bool { return !u.gpu.Cut() && typ == perDevice(u.gpu.Minor) }

// isCalled reports whether the type is the unit's own.
func (u unit) isCalled(typ string) bool { return typ == u.typ }

// isFound reports whether the type is a part of the device's name, which is how Slurm's AutoDetect accepts a type.
func (u unit) isFound(typ string) bool {
	return typ != "" && slices.ContainsFunc(u.names,
		func(name string) bool { return strings.Contains(name, strings.ToLower(typ)) })
}

// isAny reports whether there is no type, which may stand for any unit.
func (u unit) isAny(typ string) bool { return typ == "" }

// acceptsType reports whether Slurm may call the unit by this type.
func (u unit) acceptsType(typ string) bool {
	return u.isDevice(typ) || u.isCalled(typ) || u.isFound(typ) || u.isAny(typ)
}

// labels names the first few of the units.
func labels(units []unit) string {
	const few = 4
	var texts []string
	for i, u := range units {
		if i == few {
			texts = append(texts, fmt.Sprintf("and %d more", len(units)-few))
			break
		}
		texts = append(texts, u.label+" "+u.typ)
	}
	return strings.Join(texts, ", ")
}
