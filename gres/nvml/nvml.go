// Package nvml sees the GPUs of the host that it runs on, through NVIDIA's management library: what is there, and how
// busy it is. It only reads.
//
// The library is C and is opened when the program runs. Only a program that was compiled with cgo and the tag nvml has
// a way to it, and on a host without a driver that finds none; both are told by Open, in a sentence. Which cores are
// near a GPU is the kernel's to say, and is read from sysfs.
package nvml

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/gres/inventory"
)

// library is NVML as far as this package needs it. Its one implementation that sees GPUs is in door.go.
type library interface {
	versions() (driver, library string)
	devices() ([]device, []inventory.Unreadable, error)
	close() error
}

// device is one GPU.
type device interface {
	// describe says what the device is, without what the kernel knows of it.
	describe() (inventory.GPU, error)
	// usage is how busy it is and has been for the last fraction of a second.
	usage() (usage, error)
	// processes are those that use it, with the memory that each holds.
	processes() (map[int]gres.Memory, error)
}

// usage is one look at a device.
type usage struct {
	busy   int // percent of the time in which a kernel ran; Unknown where the driver does not say
	memory gres.Memory
}

// Unknown is an amount that the driver does not tell.
const Unknown = -1

// Driver is the opened library on one host. It is not safe for several goroutines.
type Driver struct {
	lib  library
	host Host
}

// Open finds the driver. The error says why there is none, and what to do.
func Open(host Host) (*Driver, error) {
	lib, err := open()
	if err != nil {
		return nil, err
	}
	return &Driver{lib, host}, nil
}

// Close lets go of the driver.
func (d *Driver) Close() error { return d.lib.close() }

// Inventory is what the host has. A GPU that does not answer is listed as such and keeps no other from being seen.
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
