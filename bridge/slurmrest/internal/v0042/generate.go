// Package v0042 is slurmrestd's API v0.0.42 (Slurm 24.11 to 26.05) as this module speaks it: every request and answer,
// brought to the words of package wire. Types and requests are generated from the trimmed document beside it; v0042.go
// and job.go say what they mean. It sends nothing.
//
// To make the document anew, from a slurmrestd:
//
//	curl -H "X-SLURM-USER-TOKEN: $SLURM_JWT" http://slurmrestd:6820/openapi/v3 |
//		go run ../trim v0.0.42 >openapi-v0.0.42.json
package v0042

//go:generate go run github.com/oapi-codegen/oapi-codegen/v2/cmd/oapi-codegen@v2.8.2 -config oapi-codegen.yaml openapi-v0.0.42.json
