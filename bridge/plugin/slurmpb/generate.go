// Package slurmpb is slurm.proto in Go.
package slurmpb

//go:generate sh generate.sh
