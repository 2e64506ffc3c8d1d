// Package v0045 is slurmrestd's API v0.0.45 (Slurm 26.05 and later) as this module speaks it: every request and answer,
// brought to the words of package wire. Types and requests are generated from the trimmed document beside it; v0045.go
// and job.go say what they mean. It sends nothing.
//
// To make the document anew, from a slurmrestd:
//
//	curl -H "X-SLURM-USER-TOKEN: $SLURM_JWT" http://slurmrestd:6820/openapi/v3 |
//		go run ../trim v0.0.45 >openapi-v0.0.45.json
package v0045

//go:generate go run github.com/oapi-codegen/oapi-codegen/v2/cmd/oapi-codegen@v2.8.2 -config oapi-codegen.yaml openapi-v0.0.45.json
