//go:build gpu

package nvml

import (
	"os"
	"testing"
	"time"
)

// TestTheGPUsOfThisMachine wants a machine that has some, and is compiled with the tag gpu only: where there are none
// it would have to be skipped.
func TestTheGPUsOfThisMachine(t *testing.T) {
	if _, err := os.Stat("/dev/nvidia0"); err != nil {
		t.Fatalf("this test is for machines with NVIDIA's GPUs: %v", err)
	}
	driver, err := Open(Host{})
	if err != nil {
		t.Fatal(err)
	}
	defer driver.Close()
	n, err := driver.Inventory("here", time.Now())
	if err != nil || len(n.GPUs) == 0 || len(n.Unreadable) > 0 {
		t.Fatalf("%v, %+v", err, n)
	}
	samples, err := driver.Sampler(time.Now)
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range n.GPUs {
		t.Logf("%+v", g)
		if _, err := os.Stat(g.File()); err != nil {
			t.Errorf("GPU %d: %v", g.Minor, err)
		}
		if g.Memory < 1024 || g.UUID == "" || g.PCI == "" || g.Type == "gpu" {
			t.Errorf("GPU %d: memory %d MiB, UUID %q, PCI address %q, type %s", g.Minor, int64(g.Memory), g.UUID, g.PCI,
				g.Type)
		}
		if _, err := os.Stat("/sys/bus/pci/devices/" + g.PCI + "/local_cpulist"); err == nil && len(g.Near.CPUs) == 0 {
			t.Errorf("GPU %d: no near CPUs, though the kernel names some", g.Minor)
		}
		for range 3 {
			r := samples.OfDevices(g.Minor).GPUs[0]
			if r.Err != nil || r.Busy < Unknown || r.Busy > 100 || r.Memory < 0 || r.Memory > g.Memory {
				t.Errorf("GPU %d: %+v", g.Minor, r)
			}
		}
	}
}
