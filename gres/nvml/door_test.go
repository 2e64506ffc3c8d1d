//go:build nvml && cgo

package nvml

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/dgxa100"

	"github.com/synergy-slurmd/synergy-slurmd/gres/inventory"
)

var redraw = flag.Bool("redraw", false,
	"write what the inventories of the DGX servers are into package inventory's testdata")

// server is go-nvml's DGX A100 with what that leaves out: PCI addresses as in the machine, the compute mode and
// processes. Its calls that are set neither there nor here end the test.
func server(m machine, model string, mebibytes uint64) *dgxa100.Server {
	s := dgxa100.New()
	addresses := slices.Sorted(func(yield func(string) bool) {
		for address := range m.gpus {
			if !yield(address) {
				return
			}
		}
	})
	for i := range s.Devices {
		d := s.Devices[i].(*dgxa100.Device)
		d.UUID = fmt.Sprintf("GPU-00000000-0000-0000-0000-00000000000%d", i)
		d.MemoryInfo = nvml.Memory{Total: mebibytes << 20, Used: 1 << 30}
		if model != "" {
			d.Name = model
		}
		d.GetPciInfoFunc = func() (nvml.PciInfo, nvml.Return) {
			var p nvml.PciInfo
			_, err := fmt.Sscanf(addresses[i], "%04x:%02x:%02x.0", &p.Domain, &p.Bus, &p.Device)
			if err != nil {
				panic(err)
			}
			return p, nvml.SUCCESS
		}
		d.GetComputeModeFunc = func() (nvml.ComputeMode, nvml.Return) { return nvml.COMPUTEMODE_DEFAULT, nvml.SUCCESS }
		d.GetMPSComputeRunningProcessesFunc = func() ([]nvml.ProcessInfo, nvml.Return) { return nil, nvml.SUCCESS }
		d.GetUtilizationRatesFunc = func() (nvml.Utilization, nvml.Return) { return nvml.Utilization{Gpu: 87, Memory: 12}, nvml.SUCCESS }
		d.GetComputeRunningProcessesFunc = func() ([]nvml.ProcessInfo, nvml.Return) {
			return []nvml.ProcessInfo{{Pid: uint32(100 + i), UsedGpuMemory: 300 << 20},
				{Pid: 999, UsedGpuMemory: untold}}, nvml.SUCCESS
		}
	}
	return s
}

// blackwell is a DGX B200. go-nvml has a mock of its own for it, which is in no version that can be fetched; this is
// its A100 with the other's figures.
func blackwell() *dgxa100.Server {
	s := server(dgxB200, "NVIDIA B200", 183359)
	s.DriverVersion, s.NvmlVersion = "570.86.15", "12.570.86.15"
	return s
}

func seen(t *testing.T, s *dgxa100.Server, m machine) inventory.Node {
	t.Helper()
	n, err := entered(t, s, m.host(t)).Inventory("n1", noon())
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func entered(t *testing.T, lib nvml.Interface, h Host) *Driver {
	t.Helper()
	library, err := enter(lib)
	if err != nil {
		t.Fatal(err)
	}
	return &Driver{library, h}
}

// cut turns MIG on for one GPU, with two parts; what is asked of them is what go-nvml's mock leaves out.
func cut(s *dgxa100.Server, index int) {
	d := s.Devices[index].(*dgxa100.Device)
	d.MigMode = nvml.DEVICE_MIG_ENABLE
	d.GetMaxMigDeviceCountFunc = func() (int, nvml.Return) { return 7, nvml.SUCCESS }
	d.GetMigDeviceHandleByIndexFunc = func(i int) (nvml.Device, nvml.Return) {
		profiles := map[int]string{0: "3g.20gb", 4: "1g.5gb"}
		if profiles[i] == "" {
			return nil, nvml.ERROR_NOT_FOUND
		}
		return &mock.Device{
			GetNameFunc:       func() (string, nvml.Return) { return d.Name + " MIG " + profiles[i], nvml.SUCCESS },
			GetUUIDFunc:       func() (string, nvml.Return) { return fmt.Sprintf("MIG-%d", i), nvml.SUCCESS },
			GetMemoryInfoFunc: func() (nvml.Memory, nvml.Return) { return nvml.Memory{Total: 5 << 30}, nvml.SUCCESS },
		}, nvml.SUCCESS
	}
	d.GetUtilizationRatesFunc = func() (nvml.Utilization, nvml.Return) { return nvml.Utilization{}, nvml.ERROR_NOT_SUPPORTED }
}

// What the lines of these are stands beside them, and is tested in package inventory.
func TestTheInventoriesOfTheDGXServers(t *testing.T) {
	mixed := server(dgxA100, "NVIDIA A100-SXM4-40GB", 40960)
	cut(mixed, 1)
	for name, n := range map[string]inventory.Node{
		"dgx-a100":     seen(t, server(dgxA100, "", 40960), dgxA100),
		"dgx-b200":     seen(t, blackwell(), dgxB200),
		"dgx-a100-mig": seen(t, mixed, dgxA100),
	} {
		got, err := n.Encode()
		if err != nil {
			t.Fatal(err)
		}
		path := "../inventory/testdata/" + name + ".json"
		if *redraw {
			if err := os.WriteFile(path, got, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if want, err := os.ReadFile(path); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: %v; got\n%s", name, err, got)
		}
	}
}

func TestSamplesOfTheDGXServersHaveUtilisationAndMemory(t *testing.T) {
	s := server(dgxA100, "", 40960)
	cut(s, 2)
	samples, err := entered(t, s, Host{}).Sampler(noon)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := drawn(samples.OfProcesses(101, 102)),
		"1 GPU-00000000-0000-0000-0000-000000000001 87% 300/1024; 2 GPU-00000000-0000-0000-0000-000000000002 -1% "+
			"300/1024"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got := samples.OfProcesses(100, 999).GPUs[0].Mine; got != Unknown {
		t.Errorf("a process whose memory is not told holds %d MiB", int64(got))
	}
	lost := s.Devices[1].(*dgxa100.Device)
	lost.GetUtilizationRatesFunc = func() (nvml.Utilization, nvml.Return) { return nvml.Utilization{}, nvml.ERROR_GPU_IS_LOST }
	if r := samples.OfDevices(0, 1); r.GPUs[0].Err != nil || !errors.Is(r.GPUs[1].Err, nvml.ERROR_GPU_IS_LOST) ||
		!strings.HasPrefix(r.GPUs[1].Err.Error(), "GPU 1: utilisation: ") {
		t.Errorf("%v", r.GPUs)
	}
}

func TestAGPUThatDoesNotAnswerIsListedAsThat(t *testing.T) {
	s := server(dgxA100, "", 40960)
	handle := s.DeviceGetHandleByIndexFunc
	s.DeviceGetHandleByIndexFunc = func(i int) (nvml.Device, nvml.Return) {
		if i == 3 {
			return nil, nvml.ERROR_GPU_IS_LOST
		}
		return handle(i)
	}
	s.Devices[5].(*dgxa100.Device).GetMemoryInfoFunc = func() (nvml.Memory, nvml.Return) { return nvml.Memory{}, nvml.ERROR_UNKNOWN }
	n := seen(t, s, dgxA100)
	if len(n.GPUs) != 6 || len(n.Unreadable) != 2 || n.Unreadable[0].Index != 3 ||
		n.Unreadable[1].Reason != "memory: ERROR_UNKNOWN" {
		t.Errorf("%d GPUs, unreadable %v", len(n.GPUs), n.Unreadable)
	}
}

// A call that the driver's library lacks ends the process, so it has to be looked up before. The mock ends the test
// instead.
func TestAnOldDriverIsNotAskedWhatItDoesNotKnow(t *testing.T) {
	s := server(dgxA100, "", 40960)
	s.LookupSymbolFunc = func(string) error { return errors.New("undefined symbol") }
	for _, d := range s.Devices {
		d.(*dgxa100.Device).GetMigModeFunc = nil
		d.(*dgxa100.Device).GetMPSComputeRunningProcessesFunc = nil
	}
	n := seen(t, s, dgxA100)
	if g := n.GPUs[0]; g.MIG.Mode != inventory.MIGUnsupported || g.MPSClients != Unknown {
		t.Errorf("MIG %s, %d MPS clients", g.MIG.Mode, g.MPSClients)
	}
}

// What go-nvml's mock leaves out: a library is opened, by its file, and lacks most of what a newer one has.
func TestTheLibraryOfAnOldDriverIsOpenedAndRead(t *testing.T) {
	library := filepath.Join(t.TempDir(), "libnvidia-ml.so.1")
	if out, err := exec.Command("cc", "-shared", "-fPIC", "-o", library,
		"testdata/driver418.c").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	d := entered(t, nvml.New(nvml.WithLibraryPath(library)), Host{Root: t.TempDir()})
	defer d.Close()
	n, err := d.Inventory("n1", noon())
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, g := range n.GPUs {
		got = append(got, fmt.Sprint(g.Index, g.Minor, " ", g.Type, " ", g.UUID, " ", int64(g.Memory), " ", g.PCI, " ",
			g.ComputeMode, " ", g.MIG.Mode, g.MPSClients))
	}
	want := "1 0 v100 GPU-0 32768 0000:1b:00.0 exclusive-process unsupported-1; 0 1 v100 GPU-1 32768 0000:1a:00.0 " +
		"exclusive-process unsupported-1"
	if strings.Join(got, "; ") != want || n.Driver != "418.226.00" || fmt.Sprint(n.Unreadable) != "[{2 GPU is lost}]" {
		t.Errorf("driver %s, unreadable %v, %s; want %s", n.Driver, n.Unreadable, strings.Join(got, "; "), want)
	}
	samples, err := d.Sampler(noon)
	if err != nil {
		t.Fatal(err)
	}
	if got := drawn(samples.OfDevices(1)); got != "1 GPU-1 42% 0/5" {
		t.Error(got)
	}
}

func TestWhyThereIsNoDriverIsASentence(t *testing.T) {
	for ret, want := range map[nvml.Return]string{
		nvml.ERROR_LIBRARY_NOT_FOUND: "no NVIDIA driver on this host: libnvidia-ml.so.1 is not to be found; it comes " +
			"with the driver",
		nvml.ERROR_DRIVER_NOT_LOADED: "the NVIDIA driver is installed on this host and not loaded: modprobe nvidia, " +
			"or see dmesg for why it does not load",
		nvml.ERROR_NO_PERMISSION: "the NVIDIA driver of this host does not answer: ERROR_NO_PERMISSION",
	} {
		_, err := enter(&mock.Interface{InitFunc: func() nvml.Return { return ret }})
		if err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

func TestAStateThatTheDriverTellsIsSeen(t *testing.T) {
	s := server(dgxA100, "", 40960)
	d := s.Devices[0].(*dgxa100.Device)
	d.GetMPSComputeRunningProcessesFunc = func() ([]nvml.ProcessInfo, nvml.Return) {
		return make([]nvml.ProcessInfo, 3), nvml.SUCCESS
	}
	d.GetComputeModeFunc = func() (nvml.ComputeMode, nvml.Return) { return nvml.COMPUTEMODE_EXCLUSIVE_PROCESS, nvml.SUCCESS }
	d.GetMigModeFunc = func() (int, int, nvml.Return) { return nvml.DEVICE_MIG_DISABLE, nvml.DEVICE_MIG_ENABLE, nvml.SUCCESS }
	g := seen(t, s, dgxA100).GPUs[0]
	if g.MPSClients != 3 || g.ComputeMode != "exclusive-process" || g.MIG.Mode != inventory.MIGOff ||
		g.MIG.Pending != inventory.MIGOn {
		t.Errorf("%d clients, mode %s, MIG %v", g.MPSClients, g.ComputeMode, g.MIG)
	}
}

// TestAPartWithoutANameCostsItsGPUAndNoOther: without its profile nobody knows what the GPU gives.
func TestAPartWithoutANameCostsItsGPUAndNoOther(t *testing.T) {
	s := server(dgxA100, "", 40960)
	cut(s, 1)
	d := s.Devices[1].(*dgxa100.Device)
	named := d.GetMigDeviceHandleByIndexFunc
	d.GetMigDeviceHandleByIndexFunc = func(i int) (nvml.Device, nvml.Return) {
		part, ret := named(i)
		if i == 4 {
			part.(*mock.Device).GetNameFunc = func() (string, nvml.Return) { return "", nvml.ERROR_UNKNOWN }
		}
		return part, ret
	}
	n := seen(t, s, dgxA100)
	if len(n.GPUs) != 7 || len(n.Unreadable) != 1 || n.Unreadable[0].Index != 1 ||
		!strings.Contains(n.Unreadable[0].Reason, "name of MIG device 4") {
		t.Errorf("%d GPUs, unreadable %v", len(n.GPUs), n.Unreadable)
	}
}
