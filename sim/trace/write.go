package trace

import (
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// WriteRecorded writes jobs byte for byte as the paper's artifact records them: arrivals as whole seconds if all are
// whole, as in its dynamic workloads, and otherwise as decimals, as in its static ones. Fractions are rounded to
// milliseconds, as there.
//
// If a job has a user, which the artifact does not know, a header and a sixth column are written. A job that could not
// be read again is an error. The errors of single writes come again from Error.
func WriteRecorded(w io.Writer, jobs []Job) error {
	out := csv.NewWriter(w)
	users := slices.ContainsFunc(jobs, func(j Job) bool { return j.User != "" })
	if users {
		out.Write(append(slices.Clone(recordedHeader), "user"))
	}
	arrival := arrivalFormat(jobs)
	for _, j := range jobs {
		if err := j.check(); err != nil {
			return fmt.Errorf("write job %d: %w", j.ID, err)
		}
		fields := []string{strconv.Itoa(j.ID), j.Model, arrival(j.Arrival), strconv.FormatInt(j.Iterations, 10),
			strconv.Itoa(j.GPUs)}
		if users {
			fields = append(fields, j.User)
		}
		out.Write(fields)
	}
	out.Flush()
	return out.Error()
}

// WriteRatio writes the remark that says with which profiles iterations were counted, as the first line of a recorded
// trace. The artifact has no remarks; its own traces have the ratio 3.
func WriteRatio(w io.Writer, cpusPerGPU int) error {
	_, err := fmt.Fprintln(w, ratioRemark, cpusPerGPU)
	return err
}

// arrivalFormat returns the format for the arrivals of these jobs: whole seconds if all are whole, and otherwise
// decimals as Python prints them, so that the file equals the one that the artifact writes.
func arrivalFormat(jobs []Job) func(float64) string {
	for _, j := range jobs {
		if at := roundToMillis(j.Arrival); at != math.Trunc(at) {
			return func(x float64) string { return pythonFloat(roundToMillis(x)) }
		}
	}
	return func(x float64) string { return strconv.FormatFloat(math.Round(x), 'f', -1, 64) }
}

// pythonFloat formats a number as Python formats a float that is not huge: 0.0, 0.001, 86400.0.
func pythonFloat(x float64) string {
	text := strconv.FormatFloat(x, 'f', -1, 64)
	if !strings.Contains(text, ".") {
		text += ".0"
	}
	return text
}

// WriteCondensed writes entries under the header timestamp,duration,num_gpus,gpu_time,cluster. Timestamps are clock
// times in the zone of begin, the origin of the entries' times; a zero begin is written as the beginning of 1970. The
// format has no columns for IDs, users and states. An entry that could not be read again is an error.
func WriteCondensed(w io.Writer, begin time.Time, entries []Entry) error {
	if begin.IsZero() {
		begin = time.Unix(0, 0).UTC()
	}
	out := csv.NewWriter(w)
	out.Write([]string{"timestamp", "duration", "num_gpus", "gpu_time", "cluster"})
	for _, e := range entries {
		if err := e.check(); err != nil {
			return fmt.Errorf("write job %s: %w", legible(e.ID), err)
		}
		at := begin.Add(time.Duration(math.Round(e.Submitted*1000)) * time.Millisecond)
		out.Write([]string{
			at.Format("2006-01-02 15:04:05.999"), pythonFloat(e.Duration), strconv.Itoa(e.GPUs),
			pythonFloat(e.Duration * float64(e.GPUs)), e.Queue,
		})
	}
	out.Flush()
	return out.Error()
}

// check returns an error if a job could not be read again after it was written.
func (j Job) check() error {
	switch {
	case j.ID < 0 || j.ID > maxID:
		return wrong("id", strconv.Itoa(j.ID), wantWhole(0, maxID))
	case j.Model == "" || !isLabel(j.Model):
		return wrong("model", j.Model, wantLabel())
	case !isLabel(j.User):
		return wrong("user", j.User, wantLabel())
	case !(j.Arrival >= 0 && j.Arrival <= maxSeconds):
		return wrong("arrival", fmt.Sprint(j.Arrival), wantSeconds)
	case j.Iterations < 1 || j.Iterations > maxIterations:
		return wrong("iterations", strconv.FormatInt(j.Iterations, 10), wantWhole(1, maxIterations))
	case j.GPUs < 1 || j.GPUs > maxGPUs:
		return wrong("gpus", strconv.Itoa(j.GPUs), wantWhole(1, maxGPUs))
	}
	return nil
}

// check returns an error if an entry could not be read again after it was written.
func (e Entry) check() error {
	switch {
	case !(e.Submitted >= 0 && e.Submitted <= maxSeconds):
		return wrong("submitted", fmt.Sprint(e.Submitted), wantSeconds)
	case !(e.Duration > 0 && e.Duration <= maxSeconds):
		return wrong("duration", fmt.Sprint(e.Duration), wantSeconds)
	case e.GPUs < 1 || e.GPUs > maxGPUs:
		return wrong("gpus", strconv.Itoa(e.GPUs), wantWhole(1, maxGPUs))
	case !isLabel(e.Queue):
		return wrong("queue", e.Queue, wantLabel())
	}
	return nil
}
