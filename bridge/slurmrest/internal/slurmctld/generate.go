// Package slurmctld is the part of slurmrestd's API about jobs, nodes and reservations (paths below /slurm/) as this
// module speaks it, brought to the words of package wire. All versions declare what is used of it alike, so it stands
// here once: types and requests are generated from the trimmed document of the newest version, slurmctld.go and job.go
// say what they mean. Where a version differs, its package replaces the call; slurmctld_test.go compares the documents.
// It sends nothing.
package slurmctld

//go:generate go run github.com/oapi-codegen/oapi-codegen/v2/cmd/oapi-codegen@v2.8.2 -config oapi-codegen.yaml ../v0045/openapi-v0.0.45.json
