// Package profiles holds the example profiles, those of the paper's ten models, so that a program can carry them along.
// It reads none of them; package sensitivity does.
package profiles

import "embed"

// FS has one file for each model, such as res18.json.
//
//go:embed *.json
var FS embed.FS
