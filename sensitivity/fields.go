package sensitivity

import (
	"bytes"
	"encoding/json"
	"math"
	"strconv"
	"strings"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/printable"
)

// Limits of the values in a profile. They are far beyond real hardware and keep everything computed from a profile
// finite.
const (
	maxCorePoints   = 256
	maxMemoryPoints = 64
	maxCores        = 4096
	minCores        = 0.01
	maxMemory       = 64 << 20 // MiB: 64 TiB
	maxBatch        = 1 << 24
	maxThroughput   = 1e9
	minThroughput   = 1e-6
	maxCost         = 86400 // seconds
	maxName         = 128   // bytes
	maxSource       = 1024  // bytes
	minBusy         = 1e-6
	maxGPUMemory    = 1 << 20 // MiB: 1 TiB
)

// profile converts the fields one by one; what cannot be converted is a problem.
func (f fields) profile(found *problems) *Profile {
	return &Profile{
		Version:           f.version(found),
		Model:             f.text("model", maxName, found),
		Task:              f.text("task", maxName, found),
		GPUType:           f.text("gpu_type", maxName, found),
		Batch:             f.whole("batch", 1, maxBatch, found),
		Source:            f.optionalText("source", maxSource, found),
		CoresPerGPU:       f.list("cores_per_gpu", maxCorePoints, found),
		MemoryPerGPU:      inMiB(f.list("memory_per_gpu_mib", maxMemoryPoints, found), found),
		Throughput:        f.matrix("throughput_samples_per_s", found),
		CheckpointSeconds: f.optionalNumber("checkpoint_s", found),
		StartSeconds:      f.optionalNumber("start_s", found),
		GPUBusy:           f.part("gpu_busy", found),
		GPUMemory:         gres.Memory(f.optionalWhole("gpu_memory_mib", 1, maxGPUMemory, found)),
	}
}

// version returns the document's version. A field that this version does not have is a problem, since an older program
// would refuse the file at that field without mentioning versions.
func (f fields) version(found *problems) int {
	version := f.whole("version", Version, VersionGPU, found)
	for _, name := range []string{"gpu_busy", "gpu_memory_mib"} {
		if _, is := f[name]; is && version == Version {
			found.add("%s is a field of version %d: want \"version\": %d, or the field left out", name, VersionGPU,
				VersionGPU)
		}
	}
	return version
}

// part returns a number above 0 and at most 1; 0 if the field is left out.
func (f fields) part(name string, found *problems) float64 {
	value, is := f[name]
	if !is {
		return 0
	}
	before := len(*found)
	x := number(name, value, found)
	if len(*found) == before && !(x >= minBusy && x <= 1) {
		found.add("%s = %s: want a number from %v to 1, or the field left out", name, shown(string(value)), minBusy)
	}
	return x
}

// required returns the value of a field. If it is missing, that is a problem and the value is nil.
func (f fields) required(name string, found *problems) json.RawMessage {
	value, is := f[name]
	if !is {
		found.add("%s is missing", name)
	}
	return value
}

// optionalNumber returns 0 if the field is left out.
func (f fields) optionalNumber(name string, found *problems) float64 {
	value, is := f[name]
	if !is {
		return 0
	}
	return number(name, value, found)
}

// number parses a JSON number. A string, null or a number that no float can hold is a problem of the field called name.
func number(name string, value json.RawMessage, found *problems) float64 {
	x, err := strconv.ParseFloat(string(value), 64)
	if err != nil {
		found.add("%s = %s: want a number", name, shown(string(value)))
	}
	return x
}

func (f fields) whole(name string, low, high int, found *problems) int {
	value := f.required(name, found)
	if value == nil {
		return 0
	}
	return whole(name, value, low, high, found)
}

// optionalWhole returns 0 if the field is left out.
func (f fields) optionalWhole(name string, low, high int, found *problems) int {
	value, is := f[name]
	if !is {
		return 0
	}
	return whole(name, value, low, high, found)
}

func whole(name string, value json.RawMessage, low, high int, found *problems) int {
	n, err := strconv.Atoi(string(value))
	if err != nil || n < low || n > high {
		found.add("%s = %s: want %s", name, shown(string(value)), wholeNumber(low, high))
	}
	return n
}

func wholeNumber(low, high int) string {
	if high == low+1 {
		return strconv.Itoa(low) + " or " + strconv.Itoa(high)
	}
	return "a whole number from " + strconv.Itoa(low) + " to " + strconv.Itoa(high)
}

// text returns a field that must not be blank.
func (f fields) text(name string, most int, found *problems) string {
	value := f.required(name, found)
	if value == nil {
		return ""
	}
	said := text(name, value, most, found)
	if strings.TrimSpace(said) == "" {
		found.add("%s = %s: want a name in quotes", name, shown(string(value)))
	}
	return said
}

func (f fields) optionalText(name string, most int, found *problems) string {
	value, is := f[name]
	if !is {
		return ""
	}
	return text(name, value, most, found)
}

// text parses a string that is safe to print on one line of a log.
func text(name string, value json.RawMessage, most int, found *problems) string {
	var said string
	if err := json.Unmarshal(value, &said); err != nil {
		found.add("%s = %s: want text in quotes", name, shown(string(value)))
	}
	if !printable.Is(said) {
		found.add("%s = %s: want printable characters only", name, shown(said))
	}
	if len(said) > most {
		found.add("%s = %s: want at most %d bytes, not %d", name, shown(said), most, len(said))
	}
	return said
}

func (f fields) list(name string, most int, found *problems) []float64 {
	value := f.required(name, found)
	if value == nil {
		return nil
	}
	return list(name, value, most, found)
}

// list parses a list of 1 to most numbers.
func list(name string, value json.RawMessage, most int, found *problems) []float64 {
	items := split(name, value, most, found)
	numbers := make([]float64, len(items))
	for i, item := range items {
		numbers[i] = number(name+"["+strconv.Itoa(i)+"]", item, found)
	}
	return numbers
}

// split returns the items of a list of 1 to most entries.
func split(name string, value json.RawMessage, most int, found *problems) []json.RawMessage {
	var items []json.RawMessage
	if !bytes.HasPrefix(value, []byte("[")) || json.Unmarshal(value, &items) != nil {
		found.add("%s = %s: want a list", name, shown(string(value)))
		return nil
	}
	if len(items) == 0 || len(items) > most {
		found.add("%s has %d entries: want 1 to %d", name, len(items), most)
		return nil
	}
	return items
}

// matrix returns a list of lists of numbers.
func (f fields) matrix(name string, found *problems) [][]float64 {
	value := f.required(name, found)
	if value == nil {
		return nil
	}
	rows := split(name, value, maxCorePoints, found)
	numbers := make([][]float64, len(rows))
	for i, row := range rows {
		numbers[i] = list(name+"["+strconv.Itoa(i)+"]", row, maxMemoryPoints, found)
	}
	return numbers
}

// inMiB converts the numbers of the memory axis to MiB; they must be whole.
func inMiB(numbers []float64, found *problems) []gres.Memory {
	amounts := make([]gres.Memory, len(numbers))
	for j, x := range numbers {
		if x != math.Trunc(x) || x < 1 || x > maxMemory {
			found.add("memory_per_gpu_mib[%d] = %v: want a whole number of MiB from 1 to %d", j, x, maxMemory)
			continue
		}
		amounts[j] = gres.Memory(x)
	}
	return amounts
}
