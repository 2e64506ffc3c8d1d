// Package inventory is what a node has of GPUs as data: the devices, the lines of gres.conf and slurm.conf that fit
// them, and how that differs from what Slurm believes. It is pure: it neither looks at a device nor asks Slurm, so that
// what was seen on one node can be judged on another.
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

// Version is that of the JSON format. Fields may be added to it; when one changes its meaning or goes, the version
// does, too.
const Version = 1

// Bounds of what is read from a file.
const (
	maxGPUs  = 256
	maxParts = 16  // MIG devices of one GPU; NVIDIA's have seven at most
	maxText  = 128 // bytes of a name
)

// Node is what one node has.
type Node struct {
	Version    int          `json:"version"`
	Name       string       `json:"node"`   // as Slurm calls it
	Taken      time.Time    `json:"taken"`  // when the node was looked at
	Driver     string       `json:"driver"` // of the kernel, as 550.54.15
	NVML       string       `json:"nvml"`
	MPSDaemon  bool         `json:"mps_daemon"` // an MPS control daemon listens
	GPUs       []GPU        `json:"gpus"`       // in the order of their device files
	Unreadable []Unreadable `json:"unreadable,omitempty"`
}

// GPU is one device.
type GPU struct {
	Index  int         `json:"index"` // NVML's, in the order of PCI addresses
	Minor  int         `json:"minor"` // its device file is /dev/nvidiaN
	Type   string      `json:"type"`  // as sites call it: a100
	Name   string      `json:"name"`  // as the driver calls it: NVIDIA A100-SXM4-40GB
	UUID   string      `json:"uuid"`
	Memory gres.Memory `json:"memory_mib"`
	PCI    string      `json:"pci"`       // as Linux writes it: 0000:07:00.0
	NUMA   int         `json:"numa_node"` // -1 where the host has none, or does not say
	Near   Near        `json:"near"`
	MIG    MIG         `json:"mig"`
	// processes that share the GPU through MPS; -1 where the driver does not say
	MPSClients  int    `json:"mps_clients"`
	ComputeMode string `json:"compute_mode"` // default, exclusive-process, prohibited; unknown
}

// Near is what lies on the GPU's own side of the host. Empty sets are not known.
type Near struct {
	CPUs Set `json:"cpus"` // Linux's numbers
	// Slurm's, for gres.conf: socket by socket, core by core, whatever the CPUs are numbered like
	Cores   Set `json:"cores"`
	Sockets Set `json:"sockets"` // Slurm's
}

// Modes of MIG.
const (
	MIGOff         = "off"
	MIGOn          = "on"
	MIGUnsupported = "unsupported"
)

// MIG is how a GPU is cut into parts that have memory and cores of their own.
type MIG struct {
	Mode    string `json:"mode"`
	Pending string `json:"pending,omitempty"` // the mode after the next reset, where that is another one
	Parts   []Part `json:"parts,omitempty"`
}

// Part is one MIG device.
type Part struct {
	UUID    string      `json:"uuid"`
	Profile string      `json:"profile"` // 1g.5gb
	Memory  gres.Memory `json:"memory_mib"`
}

// Unreadable is a GPU that the driver counts and of which it says no more: one that fell off the bus.
type Unreadable struct {
	Index  int    `json:"index"`
	Reason string `json:"reason"`
}

// Cut says whether the GPU is cut into parts, so that it is no device for a job itself.
func (g GPU) Cut() bool { return g.MIG.Mode == MIGOn }

// File is the GPU's device file.
func (g GPU) File() string { return fmt.Sprintf("/dev/nvidia%d", g.Minor) }

// Decode reads what Encode wrote, perhaps on another node and by another version of this program. Nothing in it is
// believed: names end up in lines of configuration files and on terminals. Errors name the field, its value and what
// would be right.
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

// Encode writes n as JSON.
func (n Node) Encode() ([]byte, error) {
	n.Version = Version
	text, err := json.MarshalIndent(n, "", "  ")
	return append(text, '\n'), err
}

// Validate says what is wrong with n.
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

// maxMinor is where Linux's minor numbers of character devices could end.
const maxMinor = 1 << 20

var pciAddress = regexp.MustCompile(`^[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$`)

var profileName = regexp.MustCompile(`^[0-9a-z.+-]{1,32}$`)

// IsAddress says whether text is a PCI address as Linux writes it.
func IsAddress(text string) bool { return pciAddress.MatchString(text) }

// IsNode says whether text is the name of one node.
func IsNode(text string) bool {
	names, err := gres.ParseHosts(text)
	return err == nil && len(names) == 1 && names[0] == text && text[0] != '-'
}

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

// showable says whether text can be shown on a terminal, and is short.
func showable(text string) bool { return len(text) <= maxText && printable.Is(text) }

// Printable is what a driver says of itself as far as a Node holds it: in one line, and short.
func Printable(text string) string { return printable.Line(text, maxText-len("…")) }
