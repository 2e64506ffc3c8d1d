package inventory

import (
	"fmt"
	"slices"
	"strings"
)

// unit is what Slurm counts as one GPU: a whole device, or a part of one that is cut.
type unit struct {
	gpu   GPU
	typ   string   // as the printed lines call it
	names []string // in which a Type of Slurm's has to be found
	label string   // for a reader
}

// units are those of the node, device by device.
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

// isDevice says whether the type is that of this one device.
func (u unit) isDevice(typ string) bool { return !u.gpu.Cut() && typ == perDevice(u.gpu.Minor) }

// isCalled says whether it is the unit's own.
func (u unit) isCalled(typ string) bool { return typ == u.typ }

// isFound says whether it stands in the device's name, by which Slurm's AutoDetect tells a right type.
func (u unit) isFound(typ string) bool {
	return typ != "" && slices.ContainsFunc(u.names,
		func(name string) bool { return strings.Contains(name, strings.ToLower(typ)) })
}

// isAny says whether there is no type, which may stand for any unit.
func (u unit) isAny(typ string) bool { return typ == "" }

// may says whether Slurm may call the unit by this type.
func (u unit) may(typ string) bool {
	return u.isDevice(typ) || u.isCalled(typ) || u.isFound(typ) || u.isAny(typ)
}

// labels names units, the first few of them.
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
