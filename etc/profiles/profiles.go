// Package profiles embeds the example profiles of the paper's ten models. It does not parse them; package sensitivity
// does.
package profiles

import "embed"

// FS has one file for each model, such as res18.json.
//
//go:embed *.json
var FS embed.FS
