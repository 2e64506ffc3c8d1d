package nvml

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/synergy-slurmd/synergy-slurmd/gres/inventory"
)

// Host is where the kernel's view of the host is read. The zero value is the host on which the program runs.
type Host struct {
	Root     string // prefix of /sys; empty: the host's own
	MPSPipes string // folder of the MPS control daemon's pipes; empty: MPS's default
}

func (h Host) path(parts ...string) string {
	return filepath.Join(append([]string{"/", h.Root}, parts...)...)
}

// line returns the content of a small file without its newline; empty if it cannot be read.
func (h Host) line(parts ...string) string {
	text, err := os.ReadFile(h.path(parts...))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}

// mpsDaemon reports whether an MPS control daemon has its pipe open here.
func (h Host) mpsDaemon() bool {
	_, err := os.Stat(h.path(cmp.Or(h.MPSPipes, "/tmp/nvidia-mps"), "control"))
	return err == nil
}

// topology maps each CPU to its core and socket, as Slurm numbers them.
type topology map[int]place

// place is the number of a core and of its socket.
type place struct{ core, socket int }

// topology numbers sockets in the order of their first CPUs, and cores socket by socket in the same way, as Slurm does.
// It is empty if the kernel does not say. A core is taken once, at its first CPU. If one CPU is unknown the others
// could not be numbered as Slurm does.
func (h Host) topology() topology {
	online, err := inventory.ParseSet(h.line("sys/devices/system/cpu/online"))
	if err != nil {
		return nil
	}
	first := map[string]int{} // the first CPU of a socket
	var cores []core
	for _, cpu := range online {
		c, known := h.core(cpu)
		if !known {
			return nil
		}
		if _, seen := first[c.socket]; !seen {
			first[c.socket] = cpu
		}
		if c.cpus[0] == cpu {
			cores = append(cores, c)
		}
	}
	slices.SortStableFunc(cores, func(a, b core) int { return cmp.Compare(first[a.socket], first[b.socket]) })
	return numbered(cores)
}

// core is one core with its CPUs (hardware threads).
type core struct {
	socket string
	cpus   inventory.Set
}

// core returns the core of a CPU; false if the kernel does not say which.
func (h Host) core(cpu int) (core, bool) {
	folder := "sys/devices/system/cpu/cpu" + strconv.Itoa(cpu) + "/topology"
	siblings, err := inventory.ParseSet(h.line(folder, "thread_siblings_list"))
	socket := h.line(folder, "physical_package_id")
	return core{socket, siblings}, err == nil && len(siblings) > 0 && socket != ""
}

// numbered returns the places of all CPUs, for cores in this order.
func numbered(cores []core) topology {
	all := topology{}
	sockets := map[string]int{}
	for i, c := range cores {
		if _, seen := sockets[c.socket]; !seen {
			sockets[c.socket] = len(sockets)
		}
		for _, cpu := range c.cpus {
			all[cpu] = place{i, sockets[c.socket]}
		}
	}
	return all
}

// near returns the NUMA node of the device at a PCI address, -1 if there is none, and what lies on the same side of the
// host. A CPU that the topology does not have, such as one that is offline, is left out of the cores.
func (h Host) near(address string, all topology) (numa int, near inventory.Near) {
	if !inventory.IsAddress(address) {
		return -1, inventory.Near{}
	}
	device := filepath.Join("sys/bus/pci/devices", address)
	numa, err := strconv.Atoi(h.line(device, "numa_node"))
	if err != nil {
		numa = -1
	}
	near.CPUs, err = inventory.ParseSet(h.line(device, "local_cpulist"))
	if err != nil {
		return numa, inventory.Near{}
	}
	var cores, sockets []int
	for _, cpu := range near.CPUs {
		if p, known := all[cpu]; known {
			cores, sockets = append(cores, p.core), append(sockets, p.socket)
		}
	}
	near.Cores, near.Sockets = inventory.SetOf(cores...), inventory.SetOf(sockets...)
	return numa, near
}
