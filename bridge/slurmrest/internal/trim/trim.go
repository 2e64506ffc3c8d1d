package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// trimmer collects the schemas that the kept operations reach.
type trimmer struct {
	version string // v0.0.42
	paths   object
	schemas object
	kept    object
}

// newTrimmer makes a trimmer for a document. If the document lacks paths or schemas there is no error yet; it comes
// when an operation is looked up.
func newTrimmer(document object, version string) *trimmer {
	components, _ := document["components"].(object)
	schemas, _ := components["schemas"].(object)
	paths, _ := document["paths"].(object)
	return &trimmer{version: version, paths: paths, schemas: schemas, kept: corrections()}
}

// corrections are schemas whose declaration differs from what slurmrestd sends (24.11.5).
func corrections() object {
	return object{
		// Declared as int32 for 32-bit fields, but Slurm's numbers are unsigned: 4294967294 does not fit.
		"optional_number": record(object{"set": kind("boolean"), "infinite": kind("boolean"),
			"number": object{"type": "integer", "format": "int64"}}, []string{"infinite", "number", "set"}),
		// Declared as a list of job_info with a number as job_id. It is a text that includes the task: 9_1, 18+0.
		"job_states_resp": record(object{
			"jobs":     list(reference("job_state_of")),
			"errors":   list(reference("error")),
			"warnings": list(reference("warning")),
		}, []string{"errors", "jobs", "warnings"}),
		"job_state_of": record(object{"job_id": kind("string"), "state": list(kind("string"))},
			[]string{"job_id", "state"}),
	}
}

func kind(name string) object { return object{"type": name} }

func list(items object) object { return object{"type": "array", "items": items} }

func reference(name string) object { return object{"$ref": "#/components/schemas/" + name} }

// record is the schema of an object; required are the properties that are always there.
func record(properties object, required []string) object {
	trimmed := object{"type": "object", "properties": properties}
	if len(required) > 0 {
		trimmed["required"] = required
	}
	return trimmed
}

// document is the trimmed OpenAPI document.
func (t *trimmer) document() (object, error) {
	paths := object{}
	for path, methods := range operationsOf(t.version) {
		kept := object{}
		for method, name := range methods {
			operation, err := t.operation(path, method, name)
			if err != nil {
				return nil, err
			}
			kept[method] = operation
		}
		paths[path] = kept
	}
	return object{
		"openapi":    "3.0.3",
		"info":       object{"title": "The part of the Slurm REST API that synergy-slurmd uses", "version": t.version},
		"servers":    []any{object{"url": "/slurm/" + t.version}},
		"paths":      paths,
		"components": object{"schemas": t.kept},
	}, nil
}

// operation is one operation of the document, reduced to what code is generated from, and named so that the generated
// Go function has that name. An error if slurmrestd does not have it.
func (t *trimmer) operation(path, method, name string) (object, error) {
	methods, _ := t.paths["/slurm/"+t.version+path].(object)
	declared, ok := methods[method].(object)
	if !ok {
		return nil, fmt.Errorf("document has no %s /slurm/%s%s", method, t.version, path)
	}
	operation := object{
		"operationId": name,
		"summary":     declared["summary"],
		"responses":   object{"200": t.answer(path, declared)},
	}
	if parameters, ok := declared["parameters"].([]any); ok {
		operation["parameters"] = t.parameters(parameters)
	}
	if body, ok := declared["requestBody"].(object); ok {
		operation["requestBody"] = t.content(body)
	}
	return operation, nil
}

// answer is the schema of an operation's answer. For job states it is the corrected one, since slurmrestd sends other
// types than it declares.
func (t *trimmer) answer(path string, operation object) object {
	responses, _ := operation["responses"].(object)
	answer, _ := responses["200"].(object)
	if path == "/jobs/state/" {
		t.schema("error")
		t.schema("warning")
		return object{"description": "job states",
			"content": object{"application/json": object{"schema": reference("job_states_resp")}}}
	}
	return t.content(answer)
}

// content keeps the JSON form of a body; slurmrestd offers YAML too.
func (t *trimmer) content(body object) object {
	forms, _ := body["content"].(object)
	form, _ := forms["application/json"].(object)
	return object{
		"description": body["description"],
		"content":     object{"application/json": object{"schema": t.value(form["schema"], "")}},
	}
}

// parameters keeps job_id of the path and the parameters of a signal. Times and flags of listings are not used.
func (t *trimmer) parameters(declared []any) []any {
	kept := []any{}
	for _, each := range declared {
		parameter, _ := each.(object)
		name, _ := parameter["name"].(string)
		if name == "job_id" && parameter["in"] == "path" || name == "signal" {
			kept = append(kept, plain(parameter, "string"))
		}
		if name == "flags" && hasSignalFlags(parameter) {
			kept = append(kept, plain(parameter, "string"))
		}
	}
	return kept
}

// hasSignalFlags reports whether a parameter is the flags of a signal.
func hasSignalFlags(parameter object) bool {
	schema, _ := parameter["schema"].(object)
	words, _ := schema["enum"].([]any)
	return slices.Contains(words, any("BATCH_JOB"))
}

// plain reduces a parameter to a simple type: an enumeration would refuse the words of a newer Slurm.
func plain(parameter object, of string) object {
	return object{"name": parameter["name"], "in": parameter["in"], "required": parameter["required"],
		"description": parameter["description"], "schema": kind(of)}
}

// value trims a schema where it is used. References are followed. Enumerations become plain strings, since a newer
// Slurm has more values.
func (t *trimmer) value(declared any, description string) object {
	schema, _ := declared.(object)
	var trimmed object
	if target, ok := schema["$ref"].(string); ok {
		trimmed = t.follow(target)
	} else {
		trimmed = t.inline(schema)
	}
	if _, ref := trimmed["$ref"]; description != "" && !ref {
		trimmed["description"] = description
	}
	return trimmed
}

// follow keeps the schema that a reference names and returns the reference. If that schema is a list, it returns the
// list itself, with its items trimmed.
func (t *trimmer) follow(target string) object {
	name := t.name(target)
	declared, _ := t.schemas[target[strings.LastIndex(target, "/")+1:]].(object)
	if items, isList := declared["items"]; isList {
		return list(t.value(items, ""))
	}
	t.keep(name, declared)
	return reference(name)
}

// inline trims a schema that is not a reference.
func (t *trimmer) inline(schema object) object {
	switch schema["type"] {
	case "array":
		return list(t.value(schema["items"], ""))
	case "object":
		return t.trimmed(schema, "", answered)
	}
	trimmed := kind(fmt.Sprint(schema["type"]))
	if format, ok := schema["format"]; ok {
		trimmed["format"] = format
	}
	return trimmed
}

// name is a schema's name without the version and the prefix of answers.
func (t *trimmer) name(target string) string {
	name := target[strings.LastIndex(target, "/")+1:]
	name = strings.TrimPrefix(strings.TrimPrefix(name, t.version+"_"), "openapi_")
	if strings.HasSuffix(strings.TrimSuffix(name, "_struct"), "_no_val") {
		return "optional_number"
	}
	return name
}

// schema keeps a schema by its name. It is for those to which only a correction refers, since value does not see them.
func (t *trimmer) schema(name string) {
	declared, _ := t.schemas[t.version+"_openapi_"+name].(object)
	t.keep(name, declared)
}

// keep trims a schema and adds it to the output, with all schemas to which it refers. If the output has a schema of
// this name already, such as a correction, that one stays.
func (t *trimmer) keep(name string, declared object) {
	if _, done := t.kept[name]; done {
		return
	}
	t.kept[name] = nil // a mark, in case it refers to itself
	t.kept[name] = t.trimmed(declared, fields[name], presence[name])
}

// trimmed keeps the listed properties of an object, or all if listed is empty.
func (t *trimmer) trimmed(declared object, listed string, presence presenceOf) object {
	properties, _ := declared["properties"].(object)
	kept := object{}
	for name, property := range properties {
		if listed != "" && !slices.Contains(strings.Fields(listed), name) {
			continue
		}
		schema, _ := property.(object)
		description, _ := schema["description"].(string)
		kept[name] = t.value(schema, description)
	}
	if presence == optional {
		return record(kept, nil)
	}
	return record(kept, slices.Sorted(maps.Keys(kept)))
}
