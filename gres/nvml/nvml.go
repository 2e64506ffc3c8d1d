// Package nvml reads the GPUs of the host on which it runs, through NVIDIA's management library: which there are, and
// how busy they are. It changes nothing.
//
// The library is C and is opened at run time. Only a program compiled with cgo and the tag nvml can use it; without the
// tag, or on a host without a driver, Open returns an error that says so. cgo alone is not enough, since go-nvml uses
// symbols that exist only once the library is open. Calling a function that an older driver lacks ends the process, so
// functions that came with MIG and MPS are looked up first. Which cores are near a GPU is read from sysfs.
package nvml

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/gres/inventory"
)

// library is what this package needs of NVML. The only implementation that sees GPUs is in door.go.
type library interface {
	versions() (driver, library string)
	devices() ([]device, []inventory.Unreadable, error)
	close() error
}

// device is one GPU.
type device interface {
	// describe returns what the device is, without what the kernel knows about it.
	describe() (inventory.GPU, error)
	// usage returns how busy it was in the last fraction of a second, and its memory in use.
	usage() (usage, error)
	// processes returns the processes that use it, by PID, with the memory that each holds.
	processes() (map[int]gres.Memory, error)
}

// usage is one reading of a device.
type usage struct {
	busy   int // percent of the time in which a kernel ran; Unknown if the driver does not say
	memory gres.Memory
}

// Unknown is an amount that the driver does not tell.
const Unknown = -1

// Driver is the opened library on one host. It is not safe for concurrent use.
type Driver struct {
	lib  library
	host Host
}

// Open opens the driver. The error says why there is none, and what to do.
func Open(host Host) (*Driver, error) {
	lib, err := open()
	if err != nil {
		return nil, err
	}
	return &Driver{lib, host}, nil
}

// Close closes the driver.
func (d *Driver) Close() error { return d.lib.close() }

// Inventory returns what the host has. A GPU that does not answer is listed as unreadable and does not affect the
// others. The result is in the order of device files, which Slurm numbers by, and passes Validate.
func (d *Driver) Inventory(node string, taken time.Time) (inventory.Node, error) {
	devices, unreadable, err := d.lib.devices()
	if err != nil {
		return inventory.Node{}, err
	}
	n := inventory.Node{Version: inventory.Version, Name: node, Taken: taken.UTC().Truncate(time.Second),
		MPSDaemon: d.host.mpsDaemon(), Unreadable: unreadable}
	n.Driver, n.NVML = d.lib.versions()
	topology := d.host.topology()
	for i, dev := range devices {
		g, err := dev.describe()
		if err != nil {
			n.Unreadable = append(n.Unreadable, inventory.Unreadable{Index: i,
				Reason: inventory.Printable(err.Error())})
			continue
		}
		g.NUMA, g.Near = d.host.near(g.PCI, topology)
		n.GPUs = append(n.GPUs, g)
	}
	slices.SortFunc(n.GPUs, func(a, b inventory.GPU) int { return cmp.Compare(a.Minor, b.Minor) })
	inventory.Classify(n.GPUs)
	if err := n.Validate(); err != nil {
		return inventory.Node{}, fmt.Errorf("the driver's answer: %w", err)
	}
	return n, nil
}
