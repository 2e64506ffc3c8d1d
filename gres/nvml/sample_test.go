package nvml

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/gres/inventory"
)

// bench is a library with GPUs that a test sets as it likes.
type bench struct {
	gpus []*card
	lost []inventory.Unreadable
	err  error
}

type card struct {
	gpu   inventory.GPU
	now   usage
	users map[int]gres.Memory
	err   error // of everything
	mute  error // of its processes alone
}

func (b *bench) versions() (driver, library string) { return "550.54.15", "12.550.54.15" }
func (b *bench) close() error                       { return b.err }
func (b *bench) devices() ([]device, []inventory.Unreadable, error) {
	var all []device
	for _, g := range b.gpus {
		all = append(all, g)
	}
	return all, b.lost, b.err
}

func (c *card) describe() (inventory.GPU, error) { return c.gpu, c.err }
func (c *card) usage() (usage, error)            { return c.now, c.err }
func (c *card) processes() (map[int]gres.Memory, error) {
	return c.users, errors.Join(c.err, c.mute)
}

// newBench has GPUs whose device files are in the opposite order of their indices.
func newBench(count int) *bench {
	b := &bench{}
	for i := range count {
		minor := count - 1 - i
		b.gpus = append(b.gpus, &card{
			gpu: inventory.GPU{Index: i, Minor: minor, Name: "NVIDIA A100-SXM4-40GB",
				UUID: fmt.Sprintf("GPU-%d", minor), Memory: 40960},
			now: usage{10 * minor, gres.Memory(1000 * minor)},
		})
	}
	return b
}

func noon() time.Time { return time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC) }

func sampler(t *testing.T, b *bench) *Sampler {
	t.Helper()
	s, err := (&Driver{lib: b}).Sampler(noon)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// drawn is a sample as text.
func drawn(s Sample) string {
	var parts []string
	for _, r := range s.GPUs {
		if r.Err != nil {
			parts = append(parts, r.Err.Error())
			continue
		}
		parts = append(parts, fmt.Sprintf("%d %s %d%% %d/%d", r.Minor, r.UUID, r.Busy, int64(r.Mine), int64(r.Memory)))
	}
	return strings.Join(parts, "; ")
}

func TestASampleIsOfTheDeviceFilesThatWereAskedFor(t *testing.T) {
	s := sampler(t, newBench(4))
	got := s.OfDevices(1, 3)
	if want := "1 GPU-1 10% 0/1000; 3 GPU-3 30% 0/3000"; drawn(got) != want || !got.At.Equal(noon()) {
		t.Errorf("%v %s, want %s", got.At, drawn(got), want)
	}
	if got := drawn(s.OfDevices(4)); got != "GPU 4: there is none" {
		t.Error(got)
	}
}

func TestASampleOfAJobHasTheGPUsThatItsProcessesUse(t *testing.T) {
	b := newBench(4)
	b.gpus[0].users = map[int]gres.Memory{101: 500, 102: 300, 900: 8000} // GPU 3
	b.gpus[2].users = map[int]gres.Memory{102: Unknown}                  // GPU 1
	b.gpus[3].users = map[int]gres.Memory{900: 1}                        // GPU 0
	s := sampler(t, b)
	if got, want := drawn(s.OfProcesses(101, 102, 103)), "1 GPU-1 10% -1/1000; 3 GPU-3 30% 800/3000"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got := drawn(s.OfProcesses()); got != "" {
		t.Errorf("nobody uses %s", got)
	}
}

func TestAGPUThatFallsOffTheBusIsToldByItsNumberAndKeepsNoOtherFromBeingSeen(t *testing.T) {
	b := newBench(3)
	for _, g := range b.gpus {
		g.users = map[int]gres.Memory{101: 7}
	}
	s := sampler(t, b)
	b.gpus[1].err = errors.New("GPU is lost")
	if got, want := drawn(s.OfProcesses(101)), "0 GPU-0 0% 7/0; GPU 1: GPU is lost; 2 GPU-2 20% 7/2000"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got, want := drawn(s.OfDevices(1, 2)), "GPU 1: GPU is lost; 2 GPU-2 20% 0/2000"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	b.gpus[1].err = nil
	if got, want := drawn(s.OfDevices(1)), "1 GPU-1 10% 0/1000"; got != want {
		t.Errorf("when it is back: %s, want %s", got, want)
	}
}

func TestAGPUThatCannotSayWhoUsesItMayBeTheJobs(t *testing.T) {
	b := newBench(2)
	b.gpus[0].mute = errors.New("no permission")
	if got, want := drawn(sampler(t, b).OfProcesses(101)), "GPU 1: no permission"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestAnInventoryIsInTheOrderOfDeviceFilesAndListsWhatCannotBeRead(t *testing.T) {
	b := newBench(3)
	b.lost = []inventory.Unreadable{{Index: 3, Reason: "GPU is lost"}}
	b.gpus[1].err = errors.New("name: line\none")
	n, err := (&Driver{lib: b, host: Host{Root: t.TempDir()}}).Inventory("n1", noon())
	if err != nil {
		t.Fatal(err)
	}
	if len(n.GPUs) != 2 || n.GPUs[0].Minor != 0 || n.GPUs[1].Minor != 2 || n.GPUs[0].Type != "a100" ||
		n.GPUs[0].NUMA != -1 {
		t.Errorf("GPUs %+v", n.GPUs)
	}
	if want := "[{3 GPU is lost} {1 name: line one}]"; fmt.Sprint(n.Unreadable) != want {
		t.Errorf("unreadable %v, want %s", n.Unreadable, want)
	}
	b.err = errors.New("count GPUs: no permission")
	if _, err := (&Driver{lib: b}).Inventory("n1", noon()); err == nil {
		t.Error("a driver that counts nothing has an inventory")
	}
	if _, err := (&Driver{lib: b}).Sampler(noon); err == nil {
		t.Error("a driver that counts nothing has a sampler")
	}
}

func TestALibraryThatDoesNotCloseSaysSo(t *testing.T) {
	broken := errors.New("ERROR_UNINITIALIZED")
	if err := (&Driver{lib: &bench{err: broken}}).Close(); !errors.Is(err, broken) {
		t.Errorf("closed with %v, want %v", err, broken)
	}
}
