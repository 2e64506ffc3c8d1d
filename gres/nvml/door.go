//go:build nvml && cgo

package nvml

import (
	"errors"
	"fmt"
	"strings"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/gres/inventory"
)

// open loads libnvidia-ml.so.1, which comes with the driver.
func open() (library, error) { return enter(nvml.New()) }

// enter initialises the library.
func enter(lib nvml.Interface) (library, error) {
	switch ret := lib.Init(); ret {
	case nvml.SUCCESS:
		return door{lib}, nil
	case nvml.ERROR_LIBRARY_NOT_FOUND:
		return nil,
			errors.New("no NVIDIA driver on this host: libnvidia-ml.so.1 is not to be found; it comes with the driver")
	case nvml.ERROR_DRIVER_NOT_LOADED:
		return nil,
			errors.New(
				"the NVIDIA driver is installed on this host and not loaded: modprobe nvidia, or see dmesg for why " +
					"it does not load")
	default:
		return nil, fmt.Errorf("the NVIDIA driver of this host does not answer: %w", ret)
	}
}

// door wraps go-nvml. No type of go-nvml leaves this file.
type door struct{ lib nvml.Interface }

func (d door) close() error { return failure(d.lib.Shutdown()) }

// versions returns the versions of driver and library; one that is not told is empty.
func (d door) versions() (driver, library string) {
	driver, _ = d.lib.SystemGetDriverVersion()
	library, _ = d.lib.SystemGetNVMLVersion()
	return inventory.Printable(driver), inventory.Printable(library)
}

// devices returns the GPUs, and those that the driver counts but cannot open.
func (d door) devices() ([]device, []inventory.Unreadable, error) {
	count, ret := d.lib.DeviceGetCount()
	if ret != nvml.SUCCESS {
		return nil, nil, fmt.Errorf("count GPUs: %w", ret)
	}
	var all []device
	var lost []inventory.Unreadable
	for i := range count {
		handle, ret := d.lib.DeviceGetHandleByIndex(i)
		if ret != nvml.SUCCESS {
			lost = append(lost, inventory.Unreadable{Index: i, Reason: inventory.Printable(ret.Error())})
			continue
		}
		all = append(all, leaf{handle, i, d.has})
	}
	return all, lost, nil
}

// has reports whether the driver has one of the functions. Calling one that an older driver lacks would end the
// process.
func (d door) has(symbols ...string) bool {
	for _, symbol := range symbols {
		if d.lib.Extensions().LookupSymbol(symbol) == nil {
			return true
		}
	}
	return false
}

// leaf is one GPU.
type leaf struct {
	nvml.Device
	index int
	has   func(symbols ...string) bool
}

// describe returns the device's properties; the first call that fails is the error.
func (l leaf) describe() (inventory.GPU, error) {
	g := inventory.GPU{Index: l.index, ComputeMode: l.computeMode(), MPSClients: l.mpsClients()}
	var failed error
	ask := func(what string, ret nvml.Return) {
		if ret != nvml.SUCCESS && failed == nil {
			failed = fmt.Errorf("%s: %w", what, ret)
		}
	}
	minor, ret := l.GetMinorNumber()
	ask("minor number", ret)
	name, ret := l.GetName()
	ask("name", ret)
	uuid, ret := l.GetUUID()
	ask("UUID", ret)
	memory, ret := l.GetMemoryInfo()
	ask("memory", ret)
	pci, ret := l.GetPciInfo()
	ask("PCI address", ret)
	if failed != nil {
		return inventory.GPU{}, failed
	}
	g.Minor, g.Name, g.UUID = minor, inventory.Printable(name), inventory.Printable(uuid)
	g.Memory, g.PCI = mebibytes(memory.Total), address(pci)
	if g.MIG, failed = l.mig(); failed != nil {
		return inventory.GPU{}, failed
	}
	return g, nil
}

// address returns a PCI address as Linux writes it; NVML's has more leading zeros.
func address(pci nvml.PciInfo) string {
	text := fmt.Sprintf("%04x:%02x:%02x.0", pci.Domain, pci.Bus, pci.Device)
	if !inventory.IsAddress(text) {
		return ""
	}
	return text
}

func mebibytes(bytes uint64) gres.Memory { return gres.Memory(bytes >> 20) }

func (l leaf) computeMode() string {
	mode, ret := l.GetComputeMode()
	names := map[nvml.ComputeMode]string{
		nvml.COMPUTEMODE_DEFAULT: "default", nvml.COMPUTEMODE_PROHIBITED: "prohibited",
		nvml.COMPUTEMODE_EXCLUSIVE_PROCESS: "exclusive-process", nvml.COMPUTEMODE_EXCLUSIVE_THREAD: "exclusive-thread",
	}
	if ret != nvml.SUCCESS || names[mode] == "" {
		return "unknown"
	}
	return names[mode]
}

// mpsClients returns how many processes use the GPU through MPS; Unknown if the driver is too old or does not say.
func (l leaf) mpsClients() int {
	const call = "nvmlDeviceGetMPSComputeRunningProcesses"
	if !l.has(call, call+"_v2", call+"_v3") {
		return Unknown
	}
	clients, ret := l.GetMPSComputeRunningProcesses()
	if ret != nvml.SUCCESS {
		return Unknown
	}
	return len(clients)
}

// mig returns how the GPU is divided. For a driver older than MIG, and a GPU that cannot be divided, the mode is
// "unsupported". An error of that call counts as such, too; one about a part does not, since Slurm gives parts.
func (l leaf) mig() (m inventory.MIG, err error) {
	if !l.has("nvmlDeviceGetMigMode") {
		return inventory.MIG{Mode: inventory.MIGUnsupported}, nil
	}
	now, pending, ret := l.GetMigMode()
	if ret != nvml.SUCCESS {
		return inventory.MIG{Mode: inventory.MIGUnsupported}, nil
	}
	m.Mode = migMode(now)
	if pending != now {
		m.Pending = migMode(pending)
	}
	if m.Mode == inventory.MIGOn {
		m.Parts, err = l.parts()
	}
	return m, err
}

func migMode(mode int) string {
	if mode == nvml.DEVICE_MIG_ENABLE {
		return inventory.MIGOn
	}
	return inventory.MIGOff
}

// parts returns the MIG devices of the GPU; unused device slots are skipped. A part whose name cannot be read is an
// error: without it nobody knows what the GPU gives.
func (l leaf) parts() ([]inventory.Part, error) {
	places, ret := l.GetMaxMigDeviceCount()
	if ret != nvml.SUCCESS {
		return nil, nil
	}
	var all []inventory.Part
	for i := range places {
		handle, ret := l.GetMigDeviceHandleByIndex(i)
		if ret != nvml.SUCCESS {
			continue
		}
		name, ret := handle.GetName()
		if ret != nvml.SUCCESS {
			return nil, fmt.Errorf("name of MIG device %d: %w", i, ret)
		}
		uuid, _ := handle.GetUUID()
		memory, _ := handle.GetMemoryInfo()
		_, profile, _ := strings.Cut(name, " MIG ")
		all = append(all, inventory.Part{UUID: inventory.Printable(uuid),
			Profile: strings.ToLower(inventory.Printable(profile)), Memory: mebibytes(memory.Total)})
	}
	return all, nil
}

// usage fails if the memory is unknown. An unknown busy time is no error, since GPUs in MIG mode have none.
func (l leaf) usage() (usage, error) {
	memory, ret := l.GetMemoryInfo()
	if ret != nvml.SUCCESS {
		return usage{}, fmt.Errorf("memory: %w", ret)
	}
	rates, ret := l.GetUtilizationRates()
	switch ret {
	case nvml.SUCCESS:
		return usage{int(rates.Gpu), mebibytes(memory.Used)}, nil
	case nvml.ERROR_NOT_SUPPORTED: // in MIG mode
		return usage{Unknown, mebibytes(memory.Used)}, nil
	}
	return usage{}, fmt.Errorf("utilisation: %w", ret)
}

func (l leaf) processes() (map[int]gres.Memory, error) {
	running, ret := l.GetComputeRunningProcesses()
	if ret != nvml.SUCCESS {
		return nil, fmt.Errorf("processes: %w", ret)
	}
	all := map[int]gres.Memory{}
	for _, p := range running {
		memory := gres.Memory(Unknown)
		if p.UsedGpuMemory != untold {
			memory = mebibytes(p.UsedGpuMemory)
		}
		all[int(p.Pid)] = memory
	}
	return all, nil
}

// untold is what NVML returns for a process whose memory is unknown.
const untold = ^uint64(0)

// failure turns a return code of NVML into an error; nil for success.
func failure(ret nvml.Return) error {
	if ret == nvml.SUCCESS {
		return nil
	}
	return ret
}
