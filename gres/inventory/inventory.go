// Package inventory describes the GPUs of a node as data: the devices, the lines of gres.conf and slurm.conf that fit
// them, and how that differs from what Slurm has. It is pure: it neither looks at a device nor asks Slurm, so what was
// seen on one node can be judged on another.
//
// Device files and cores are asked of slurmd, not slurmctld, since they never leave the node. A GPU that does not
// answer is an entry with a reason; it is neither missing nor extra. Near cores are printed as a remark and not as
// Cores=, which would forbid all other cores. An inventory may come from any file, so each field is checked before it
// becomes part of a line or a path.
package inventory

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/printable"
)

// Version is the version of the JSON format. It changes when a field changes its meaning or is removed, not when one is
// added.
const Version = 1

// Bounds of what is read from a file.
const (
	maxGPUs  = 256
	maxParts = 16  // MIG devices of one GPU; NVIDIA's have at most seven
	maxText  = 128 // bytes of a name
)

// Node is the inventory of one node.
type Node struct {
	Version    int          `json:"version"`
	Name       string       `json:"node"`   // its name in Slurm
	Taken      time.Time    `json:"taken"`  // when the inventory was taken
	Driver     string       `json:"driver"` // version of the kernel driver, as 550.54.15
	NVML       string       `json:"nvml"`
	MPSDaemon  bool         `json:"mps_daemon"` // an MPS control daemon runs
	GPUs       []GPU        `json:"gpus"`       // in the order of their device files
	Unreadable []Unreadable `json:"unreadable,omitempty"`
}

// GPU is one device.
type GPU struct {
	Index  int         `json:"index"` // NVML's index, in the order of PCI addresses
	Minor  int         `json:"minor"` // its device file is /dev/nvidiaN
	Type   string      `json:"type"`  // the sites' name: a100
	Name   string      `json:"name"`  // the driver's name: NVIDIA A100-SXM4-40GB
	UUID   string      `json:"uuid"`
	Memory gres.Memory `json:"memory_mib"`
	PCI    string      `json:"pci"`       // as in Linux: 0000:07:00.0
	NUMA   int         `json:"numa_node"` // -1 if the host has none or does not say
	Near   Near        `json:"near"`
	MIG    MIG         `json:"mig"`
	// MPSClients is the number of processes that share the GPU through MPS; -1 if the driver does not say.
	MPSClients  int    `json:"mps_clients"`
	ComputeMode string `json:"compute_mode"` // default, exclusive-process, prohibited; unknown
}

// Near is what lies on the GPU's own side of the host. Empty sets are unknown.
type Near struct {
	CPUs Set `json:"cpus"` // Linux's numbers
	// Cores are Slurm's core numbers, for gres.conf: counted socket by socket, core by core, whatever the numbers of
	// the CPUs.
	Cores   Set `json:"cores"`
	Sockets Set `json:"sockets"` // Slurm's numbers
}

// Modes of MIG.
const (
	MIGOff         = "off"
	MIGOn          = "on"
	MIGUnsupported = "unsupported"
)

// MIG is how a GPU is divided into parts that have memory and cores of their own.
type MIG struct {
	Mode    string `json:"mode"`
	Pending string `json:"pending,omitempty"` // the mode after the next reset, if that is another one
	Parts   []Part `json:"parts,omitempty"`
}

// Part is one MIG device.
type Part struct {
	UUID    string      `json:"uuid"`
	Profile string      `json:"profile"` // 1g.5gb
	Memory  gres.Memory `json:"memory_mib"`
}

// Unreadable is a GPU that the driver counts but says nothing else about, such as one that fell off the bus.
type Unreadable struct {
	Index  int    `json:"index"`
	Reason string `json:"reason"`
}

// Cut reports whether the GPU is divided into MIG parts, so that it is no device for a job itself.
func (g GPU) Cut() bool { return g.MIG.Mode == MIGOn }

// File returns the GPU's device file.
func (g GPU) File() string { return fmt.Sprintf("/dev/nvidia%d", g.Minor) }

// Decode parses what Encode wrote, perhaps on another node and by another version of this program. Everything is
// checked, since names end up in configuration files and on terminals. Errors name the field, its value and what is
// expected.
func Decode(text []byte) (Node, error) {
	var n Node
	if err := json.Unmarshal(text, &n); err != nil {
		return Node{}, fmt.Errorf("inventory: %w", err)
	}
	if err := n.Validate(); err != nil {
		return Node{}, fmt.Errorf("inventory: %w", err)
	}
	return n, nil
}

// Encode returns n as JSON.
func (n Node) Encode() ([]byte, error) {
	n.Version = Version
	text, err := json.MarshalIndent(n, "", "  ")
	return append(text, '\n'), err
}

// Validate returns an error if a field of n is not valid.
func (n Node) Validate() error {
	switch {
	case n.Version != Version:
		return fmt.Errorf("version = %d: want %d", n.Version, Version)
	case !IsNode(n.Name):
		return fmt.Errorf("node = %.80q: want the name of one node", n.Name)
	case len(n.GPUs) > maxGPUs || len(n.Unreadable) > maxGPUs:
		return fmt.Errorf("gpus: want %d at most", maxGPUs)
	case !showable(n.Driver) || !showable(n.NVML):
		return errors.New("driver, nvml: want printable text")
	}
	minors := map[int]bool{}
	for i, g := range n.GPUs {
		if err := g.validate(); err != nil {
			return fmt.Errorf("gpus[%d]: %w", i, err)
		}
		if minors[g.Minor] {
			return fmt.Errorf("gpus[%d]: minor = %d stands there twice", i, g.Minor)
		}
		minors[g.Minor] = true
	}
	for i, u := range n.Unreadable {
		if !showable(u.Reason) {
			return fmt.Errorf("unreadable[%d]: reason: want printable text", i)
		}
	}
	return nil
}

// maxMinor bounds the minor number of a device.
const maxMinor = 1 << 20

var pciAddress = regexp.MustCompile(`^[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$`)

var profileName = regexp.MustCompile(`^[0-9a-z.+-]{1,32}$`)

// IsAddress reports whether text is a PCI address as Linux writes it.
func IsAddress(text string) bool { return pciAddress.MatchString(text) }

// IsNode reports whether text is the name of one node.
func IsNode(text string) bool {
	names, err := gres.ParseHosts(text)
	return err == nil && len(names) == 1 && names[0] == text && text[0] != '-'
}

// validate returns an error for the first field that is not valid. The PCI address may be unknown.
func (g GPU) validate() error {
	switch {
	case g.Minor < 0 || g.Minor > maxMinor:
		return fmt.Errorf("minor = %d: want 0 to %d", g.Minor, maxMinor)
	case !isType(g.Type):
		return fmt.Errorf("type = %.80q: want a word that Slurm does not take for a count, as a100", g.Type)
	case !showable(g.Name) || !showable(g.UUID) || !showable(g.ComputeMode):
		return errors.New("name, uuid, compute_mode: want printable text")
	case g.Memory < 0:
		return fmt.Errorf("memory_mib = %d: want 0 or more", int64(g.Memory))
	case g.PCI != "" && !IsAddress(g.PCI):
		return fmt.Errorf("pci = %.80q: want an address as 0000:07:00.0", g.PCI)
	}
	return g.MIG.validate()
}

// validate returns an error for the first field that is not valid. A mode may be empty, as Pending is while no reset is
// due.
func (m MIG) validate() error {
	for _, mode := range []string{m.Mode, m.Pending} {
		switch mode {
		case MIGOff, MIGOn, MIGUnsupported, "":
		default:
			return fmt.Errorf("mig: %.80q: want %s, %s or %s", mode, MIGOff, MIGOn, MIGUnsupported)
		}
	}
	if len(m.Parts) > maxParts {
		return fmt.Errorf("mig: %d parts: want %d at most", len(m.Parts), maxParts)
	}
	for _, p := range m.Parts {
		if !showable(p.UUID) || !isType(p.Profile) || !profileName.MatchString(p.Profile) || p.Memory < 0 {
			return fmt.Errorf("mig: part %.80q: want a profile as 1g.5gb", p.Profile)
		}
	}
	return nil
}

// showable reports whether text is short and can be shown on a terminal.
func showable(text string) bool { return len(text) <= maxText && printable.Is(text) }

// Printable makes text of a driver fit for a Node: one short line.
func Printable(text string) string { return printable.Line(text, maxText-len("…")) }
