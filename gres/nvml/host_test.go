package nvml

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/synergy-slurmd/synergy-slurmd/gres/inventory"
)

// machine is a host as the kernel shows it: sockets of cores of two threads, where the second threads of all cores have
// the numbers behind the first ones.
type machine struct {
	sockets, cores int            // cores of each socket
	domains        int            // NUMA nodes, equal parts of all cores
	gpus           map[string]int // PCI address → NUMA node
}

var (
	dgxA100 = machine{2, 64, 8, map[string]int{
		"0000:07:00.0": 3, "0000:0f:00.0": 3, "0000:47:00.0": 1, "0000:4e:00.0": 1, "0000:87:00.0": 7,
		"0000:90:00.0": 7, "0000:b7:00.0": 5, "0000:bd:00.0": 5,
	}}
	dgxB200 = machine{2, 56, 2, map[string]int{
		"0000:1b:00.0": 0, "0000:43:00.0": 0, "0000:52:00.0": 0, "0000:61:00.0": 0, "0000:9d:00.0": 1,
		"0000:c3:00.0": 1, "0000:d1:00.0": 1, "0000:df:00.0": 1,
	}}
)

// host writes the machine's sysfs.
func (m machine) host(t *testing.T) Host {
	t.Helper()
	root := t.TempDir()
	all := m.sockets * m.cores
	for core := range all {
		for _, cpu := range []int{core, core + all} {
			topology := fmt.Sprintf("sys/devices/system/cpu/cpu%d/topology/", cpu)
			write(t, root, topology+"thread_siblings_list", fmt.Sprintf("%d,%d", core, core+all))
			write(t, root, topology+"physical_package_id", strconv.Itoa(core/m.cores))
		}
	}
	write(t, root, "sys/devices/system/cpu/online", fmt.Sprintf("0-%d", 2*all-1))
	for address, numa := range m.gpus {
		each := all / m.domains
		first := numa * each
		write(t, root, "sys/bus/pci/devices/"+address+"/numa_node", strconv.Itoa(numa))
		write(t, root, "sys/bus/pci/devices/"+address+"/local_cpulist",
			fmt.Sprintf("%d-%d,%d-%d", first, first+each-1, first+all, first+all+each-1))
	}
	return Host{Root: root}
}

func write(t *testing.T, root, path, text string) {
	t.Helper()
	path = filepath.Join(root, path)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestCoresAreCountedAsSlurmCountsThemAndNotAsLinuxNumbersCPUs(t *testing.T) {
	for _, w := range []struct {
		machine
		address, want string
	}{
		{dgxA100, "0000:bd:00.0", "NUMA node 5, CPUs 80-95,208-223, cores 80-95, socket 1"},
		{dgxB200, "0000:61:00.0", "NUMA node 0, CPUs 0-55,112-167, cores 0-55, socket 0"},
		{dgxB200, "0000:df:00.0", "NUMA node 1, CPUs 56-111,168-223, cores 56-111, socket 1"},
	} {
		h := w.host(t)
		numa, near := h.near(w.address, h.topology())
		if got := fmt.Sprintf("NUMA node %d, CPUs %s, cores %s, socket %s", numa, near.CPUs, near.Cores,
			near.Sockets); got != w.want {
			t.Errorf("%s: %s; want %s", w.address, got, w.want)
		}
	}
}

// Some hosts give even numbers to one socket and odd ones to the other; and threads that are neighbours.
func TestCoresAreCountedSocketBySocketWhereLinuxAlternates(t *testing.T) {
	root := t.TempDir()
	for cpu := range 8 {
		topology := fmt.Sprintf("sys/devices/system/cpu/cpu%d/topology/", cpu)
		write(t, root, topology+"physical_package_id", strconv.Itoa(cpu%2))
		write(t, root, topology+"thread_siblings_list", strconv.Itoa(cpu))
	}
	write(t, root, "sys/devices/system/cpu/online", "0-7")
	write(t, root, "sys/bus/pci/devices/0000:07:00.0/local_cpulist", "1,3,5,7")
	write(t, root, "sys/bus/pci/devices/0000:07:00.0/numa_node", "1")
	h := Host{Root: root}
	if _, near := h.near("0000:07:00.0", h.topology()); near.Cores.String() != "4-7" || near.Sockets.String() != "1" {
		t.Errorf("cores %s, sockets %s", near.Cores, near.Sockets)
	}
}

func TestWhatTheKernelDoesNotSayIsNotKnown(t *testing.T) {
	for name, files := range map[string]map[string]string{
		"nothing at all": {},
		"no NUMA":        {"sys/bus/pci/devices/0000:07:00.0/numa_node": "-1"},
		"half a topology": {"sys/devices/system/cpu/online": "0-1",
			"sys/devices/system/cpu/cpu0/topology/thread_siblings_list": "0"},
		"lists that are not": {"sys/devices/system/cpu/online": "x",
			"sys/bus/pci/devices/0000:07:00.0/local_cpulist": "0-"},
	} {
		root := t.TempDir()
		for path, text := range files {
			write(t, root, path, text)
		}
		h := Host{Root: root}
		numa, near := h.near("0000:07:00.0", h.topology())
		if numa != -1 || len(near.Cores)+len(near.Sockets) != 0 {
			t.Errorf("%s: NUMA node %d, near %v", name, numa, near)
		}
	}
	h := dgxA100.host(t)
	write(t, h.Root, "sys/bus/etc/numa_node", "1")
	write(t, h.Root, "sys/bus/etc/local_cpulist", "0-3")
	if numa, near := h.near("../../etc", h.topology()); numa != -1 || near.CPUs != nil {
		t.Errorf("what is no address has NUMA node %d, %v", numa, near)
	}
}

func TestAnMPSDaemonIsSeenByItsPipe(t *testing.T) {
	root := t.TempDir()
	if (Host{Root: root}).mpsDaemon() {
		t.Error("seen where there is none")
	}
	write(t, root, "tmp/nvidia-mps/control", "")
	write(t, root, "run/mps/control", "")
	for _, h := range []Host{{Root: root}, {Root: root, MPSPipes: "/run/mps"}} {
		if !h.mpsDaemon() {
			t.Errorf("%v: not seen", h)
		}
	}
	if (Host{Root: root, MPSPipes: "/run/other"}).mpsDaemon() {
		t.Error("seen where its pipes are not")
	}
}

// As Slurm 26.05 has it: a unique name, and slurmstepd in a group of its own below each step.
func TestAJobsProcessesAreFoundWhereSlurmDoesNotNameTheirGroupByTheJob(t *testing.T) {
	root := t.TempDir()
	scope := "sys/fs/cgroup/system.slice/slurmstepd.scope/"
	for folder, step := range map[string]struct {
		pid, title, user string
	}{
		"s6VSM81Z5BT500/step_batch":  {"201", "slurmstepd: [17.batch]\x00\x00", "301\n302"},
		"s6VSM81Z5BT500/step_0":      {"202", "slurmstepd: [17.0]\x00", "303"},
		"s6VSM81Z587G00/step_batch":  {"203", "slurmstepd: [171.batch]\x00", "304"},
		"s6VSM81Z58BP00/step_extern": {"204", "slurmstepd: [18+1.extern]\x00", "305"},
		"system/step_batch":          {"205", "slurmstepd infinity\x00", "306"},
	} {
		write(t, root, scope+folder+"/slurm/cgroup.procs", step.pid)
		write(t, root, scope+folder+"/user/task_0/cgroup.procs", step.user)
		write(t, root, "proc/"+step.pid+"/cmdline", step.title)
	}
	write(t, root, "proc/304/cmdline", "slurmstepd: [19.batch]\x00") // a user's
	h := Host{Root: root}
	for job, want := range map[int]string{17: "201-202,301-303", 171: "203,304", 18: "204,305"} {
		found, err := h.JobCgroup(job)
		if err != nil {
			t.Errorf("job %d: %v", job, err)
			continue
		}
		if pids, err := Processes(found); err != nil || inventory.SetOf(pids...).String() != want {
			t.Errorf("job %d: %v, %v, want %s", job, pids, err, want)
		}
	}
	for _, job := range []int{1, 7, 19, 205} {
		if found, err := h.JobCgroup(job); err == nil {
			t.Errorf("job %d, which is not here, was found in %s", job, found)
		}
	}
}

func TestAJobsProcessesAreFoundInEitherVersionOfControlGroups(t *testing.T) {
	for name, folder := range map[string]string{
		"version 2":                "sys/fs/cgroup/system.slice/slurmstepd.scope/job_17",
		"version 2, several nodes": "sys/fs/cgroup/system.slice/n1_slurmstepd.scope/job_17",
		"version 1":                "sys/fs/cgroup/memory/slurm/uid_1001/job_17",
	} {
		root := t.TempDir()
		write(t, root, folder+"/cgroup.procs", "")
		write(t, root, folder+"/step_batch/user/task_0/cgroup.procs", "101\n102")
		write(t, root, folder+"/step_0/user/task_1/cgroup.procs", "0\nx\n103")
		write(t, root, folder+"/step_0/cgroup.threads", "104")
		write(t, root, filepath.Dir(folder)+"/job_171/step_0/cgroup.procs", "999")
		h := Host{Root: root}
		found, err := h.JobCgroup(17)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if pids, err := Processes(found); err != nil || inventory.SetOf(pids...).String() != "101-103" {
			t.Errorf("%s: %v, %v", name, pids, err)
		}
		if _, err := h.JobCgroup(18); err == nil {
			t.Errorf("%s: a job that is not here was found", name)
		}
	}
	if _, err := Processes(filepath.Join(t.TempDir(), "job_1")); err == nil {
		t.Error("a control group that is gone has processes")
	}
}
