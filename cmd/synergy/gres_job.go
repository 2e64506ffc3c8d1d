package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/gres/inventory"
	"github.com/synergy-slurmd/synergy-slurmd/gres/nvml"
)

// sampleFunc takes one sample of the GPUs that were asked for.
type sampleFunc func() (nvml.Sample, error)

// showUse shows how busy GPUs are, once. With --every it shows it again until it is interrupted or the job has ended.
func (o *gresOptions) showUse(ctx context.Context, stdout io.Writer) error {
	if o.every > 0 && o.json != "" && o.json != stdioName {
		return errors.New("--every: want --json without a file: each look is a line on the standard output")
	}
	driver, err := nvml.Open(nvmlHost())
	if err != nil {
		return unseen{err}
	}
	defer driver.Close()
	sampler, err := driver.Sampler(time.Now)
	if err != nil {
		return unseen{err}
	}
	at, err := o.sampleFuncOf(sampler)
	if err != nil {
		return unseen{err}
	}
	if o.every == 0 {
		return o.showSample(at, stdout)
	}
	return o.sampleRepeatedly(ctx, at, stdout)
}

// sampleFuncOf returns the function that samples the GPUs: those of --gpus, or those that the job's processes use at
// the time of the sample, since a job may start processes later.
func (o *gresOptions) sampleFuncOf(sampler *nvml.Sampler) (sampleFunc, error) {
	if o.gpus != "" {
		minors, err := inventory.ParseSet(o.gpus)
		return func() (nvml.Sample, error) { return sampler.OfDevices(minors...), nil }, err
	}
	cgroup, err := nvmlHost().JobCgroup(o.job)
	return func() (nvml.Sample, error) {
		pids, err := nvml.Processes(cgroup)
		return sampler.OfProcesses(pids...), err
	}, err
}

// showSample takes one sample of the GPUs and prints it. With --json each sample is one line.
func (o *gresOptions) showSample(at sampleFunc, stdout io.Writer) error {
	sample, err := at()
	if err != nil {
		return unseen{err}
	}
	if o.json == "" {
		return asFailed(writeSample(stdout, sample))
	}
	return save("json", o.json, stdout, func(w io.Writer) error { return writeSampleJSON(w, o.job, sample) })
}

// sampleRepeatedly prints a sample every o.every until ctx ends. If the job's control group is gone, the job has ended,
// and so does the command, without an error. If it is missing at the first sample already, there is no such job on this
// node, which is an error.
func (o *gresOptions) sampleRepeatedly(ctx context.Context, at sampleFunc, stdout io.Writer) error {
	ticker := time.NewTicker(time.Duration(o.every))
	defer ticker.Stop()
	for looks := 0; ; looks++ {
		err := o.showSample(at, stdout)
		if looks > 0 && errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// sampleJSON is one sample as JSON, on one line.
type sampleJSON struct {
	Version int       `json:"version"`
	Job     int       `json:"job,omitempty"`
	At      time.Time `json:"at"`
	GPUs    []gpuUse  `json:"gpus"`
}

// gpuUse is one GPU of a sample. Figures are -1 if the driver does not tell them.
type gpuUse struct {
	Minor  int         `json:"minor"`
	UUID   string      `json:"uuid"`
	Busy   int         `json:"busy_percent"`
	Memory gres.Memory `json:"memory_mib"`
	Mine   gres.Memory `json:"job_mib"`
	Error  string      `json:"error,omitempty"`
}

// writeSampleJSON writes a sample of a job's GPUs on one line; job is 0 with --gpus. A GPU that cannot be read has its
// error, and unknown figures.
func writeSampleJSON(w io.Writer, job int, s nvml.Sample) error {
	all := sampleJSON{inventory.Version, job, s.At, []gpuUse{}}
	for _, r := range s.GPUs {
		u := gpuUse{r.Minor, r.UUID, r.Busy, r.Memory, r.Mine, ""}
		if r.Err != nil {
			u = gpuUse{r.Minor, r.UUID, nvml.Unknown, nvml.Unknown, nvml.Unknown, r.Err.Error()}
		}
		all.GPUs = append(all.GPUs, u)
	}
	return json.NewEncoder(w).Encode(all)
}
