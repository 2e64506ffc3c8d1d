package main

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
)

// declaring makes a document with these operations of one version, each answering with the schema thing.
func declaring(skip string) string {
	paths := object{}
	for path, methods := range operationsOf("v9") {
		kept := object{}
		for method := range methods {
			if method+" "+path == skip {
				continue
			}
			kept[method] = object{
				"summary": "does " + method,
				"parameters": []any{object{"name": "update_time", "in": "query"},
					object{"name": "flags", "in": "query", "schema": object{"enum": []any{"DETAIL"}}}},
				"responses": object{"200": object{"description": "an answer",
					"content": object{"application/json": object{"schema": reference("v9_openapi_thing")}}}},
			}
		}
		paths["/slurm/v9"+path] = kept
	}
	text := object{"type": "string", "description": "some text"}
	schemas := object{
		"v9_openapi_thing": record(object{"count": reference("v9_uint32_no_val_struct"),
			"others": reference("v9_list"), "text": text}, nil),
		"v9_list":                 list(reference("v9_openapi_thing")),
		"v9_uint32_no_val_struct": record(object{"number": object{"type": "integer", "format": "int32"}}, nil),
		"v9_unreached":            record(object{"text": text}, nil),
	}
	document, err := json.Marshal(object{"paths": paths, "components": object{"schemas": schemas}})
	if err != nil {
		panic(err)
	}
	return string(document)
}

func TestOnlyWhatTheOperationsReachIsKeptUnderNamesWithoutAVersion(t *testing.T) {
	var out bytes.Buffer
	if err := run(strings.NewReader(declaring("")), &out, []string{"v9"}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"thing"`, `"$ref": "#/components/schemas/thing"`,
		`"#/components/schemas/optional_number"`, `"url": "/slurm/v9"`, `"some text"`} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%s is missing", want)
		}
	}
	for _, gone := range []string{"v9_", "unreached", "int32", "update_time", "DETAIL", "yaml"} {
		if strings.Contains(out.String(), gone) {
			t.Errorf("%s is still there", gone)
		}
	}
}

func TestTheSameDocumentIsTrimmedToTheSameBytes(t *testing.T) {
	var first string
	for range 5 {
		var out bytes.Buffer
		if err := run(strings.NewReader(declaring("")), &out, []string{"v9"}); err != nil {
			t.Fatal(err)
		}
		if first != "" && out.String() != first {
			t.Fatal("two runs differ")
		}
		first = out.String()
	}
}

func TestADocumentThatLacksAnOperationIsRefused(t *testing.T) {
	for _, c := range []struct{ document, version, want string }{
		{declaring("delete /job/{job_id}"), "v9", "document has no delete /slurm/v9/job/{job_id}"},
		{"{", "v9", "read document"},
		{"{}", "", "want one API version"},
	} {
		err := run(strings.NewReader(c.document), &bytes.Buffer{}, []string{c.version})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: want %q", err, c.want)
		}
	}
}

// A field that is misspelt in the table would be dropped in silence, and read as zero for ever.
func TestEveryListedFieldIsInACommittedDocument(t *testing.T) {
	all := map[string]map[string]json.RawMessage{}
	for _, path := range []string{"../v0042/openapi-v0.0.42.json", "../v0045/openapi-v0.0.45.json"} {
		for schema, properties := range properties(t, path) {
			if all[schema] == nil {
				all[schema] = map[string]json.RawMessage{}
			}
			maps.Copy(all[schema], properties)
		}
	}
	for schema, listed := range fields {
		kept := all[schema]
		for _, field := range strings.Fields(listed) {
			if kept[field] == nil {
				t.Errorf("%s has no %s", schema, field)
			}
		}
		if len(kept) != len(slices.Compact(slices.Sorted(slices.Values(strings.Fields(listed))))) {
			t.Errorf("%s has %d fields, the table lists %q", schema, len(kept), listed)
		}
	}
}

// properties are those of each schema in a document.
func properties(t *testing.T, path string) map[string]map[string]json.RawMessage {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var document struct {
		Components struct {
			Schemas map[string]struct {
				Properties map[string]json.RawMessage `json:"properties"`
			} `json:"schemas"`
		} `json:"components"`
	}
	if err := json.Unmarshal(text, &document); err != nil {
		t.Fatal(err)
	}
	schemas := map[string]map[string]json.RawMessage{}
	for name, schema := range document.Components.Schemas {
		schemas[name] = schema.Properties
	}
	return schemas
}
