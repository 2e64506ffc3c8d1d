package main

import (
	"context"
	"errors"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/sensitivity"
	"github.com/synergy-slurmd/synergy-slurmd/share/client"
)

// takeTurns connects the job to the broker of its GPU. Without a broker the job runs on by itself. end closes the
// connection. A job that computes (without --virtual-cpu) pretends no GPU, and takes no turns.
func (f *flags) takeTurns() (end func(), err error) {
	if f.turn == "" || !f.virtualCPU {
		return func() {}, nil
	}
	profile, err := f.readProfile()
	if err != nil {
		return nil, err
	}
	c, err := client.Open(context.Background(), f.turn,
		client.Introduction{Kind: "train", Memory: f.memoryOfGPU(profile)})
	if err != nil {
		return nil, err
	}
	f.turns = c
	return c.Close, nil
}

// memoryOfGPU is what the job tells the broker that it uses, in MiB: the flag's amount, or else the profile's; 0:
// unknown.
func (f *flags) memoryOfGPU(profile *sensitivity.Profile) gres.Memory {
	return gres.Memory(flagOr(f.gpuMemory, int(profile.GPUMemory)))
}

// busy is the part of an iteration in which the job uses the GPU. If it is unknown, it is 1.
func (f *flags) busy(profile *sensitivity.Profile) float64 {
	switch {
	case f.gpuBusy > 0:
		return f.gpuBusy
	case profile.GPUBusy > 0:
		return profile.GPUBusy
	}
	return 1
}

// outOfMemory reports whether the broker refused the job because the GPU has too little memory left for it.
func outOfMemory(err error) bool {
	var refused *client.Refused
	return errors.As(err, &refused)
}
