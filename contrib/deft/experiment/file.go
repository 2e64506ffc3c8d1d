// Package experiment reads Deft's experiment files unchanged, knows the models that its authors measured, and writes
// results in their file format. It runs nothing. The host's part of a job comes after its kernels, not between them,
// since a program launches far ahead of the GPU. So the pair that Deft logged comes out as logged: 2.42 without
// preemption and 1.02 with the best bound.
package experiment

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/synergy-slurmd/synergy-slurmd/printable"
	"github.com/synergy-slurmd/synergy-slurmd/share"
)

// MaxBytes is the size of the largest file that Parse reads.
const MaxBytes = 1 << 20

// File is an experiment: models that run on one GPU for some time.
type File struct {
	Models   []Model
	Duration time.Duration
	Device   int
}

// Model is one process of an experiment: it does a job, pauses, and does the next.
type Model struct {
	Name, Weight string
	Pause        time.Duration // between jobs
	Input        string        // one picture, used for all jobs
	Folder, Out  string        // the folder of its output files, and how their names begin
	Priority     int           // 0 is preempted, 1 preempts
	Resize       bool
	Height       int // of the picture
	Width        int
	Batch        int
	Control      Control
	Level        string // where it synchronises: "", layer or kernel
}

// Control says how the model's launches are held back.
type Control struct {
	On    bool // without it the other fields have no effect
	Sync  bool // bounded queue: after every Bound launches the model waits for them
	Event bool // queue bounded by groups of launches; overrides Sync
	Bound int  // kernels
	Group int  // kernels of a group; two groups may be under way
}

// Queue returns the most kernels that the model may have in its queue; 0: no limit.
func (c Control) Queue() int {
	switch {
	case c.On && c.Event:
		return 2 * c.Group
	case c.On && c.Sync:
		return c.Bound
	}
	return 0
}

// Class returns the class that corresponds to the model's priority.
func (m Model) Class() share.Class {
	if m.Priority > 0 {
		return share.High
	}
	return share.Low
}

// Title returns the model's name in models_pid.json.
func (m Model) Title() string {
	return fmt.Sprintf("%s_%dx%d_batch_%d_sleep_%s", m.Name, m.Width, m.Height, m.Batch,
		strconv.FormatFloat(m.Pause.Seconds(), 'g', -1, 64))
}

// Upper bounds of the values in a file.
const (
	maxSeconds = 86400
	maxPixels  = 1 << 14
	maxBatch   = 1 << 12
	maxDevice  = 1 << 10
	maxKernels = 1e9
	maxText    = 1024
)

// The size of a picture if the file does not give one.
const usualHeight, usualWidth = 720, 1280

// Parse reads an experiment file. What Deft's own program ignores silently is accepted with a remark: commas before a
// closing bracket, unknown fields, and fields without effect. Models are compared with each other only if each is right
// by itself.
func Parse(text []byte) (File, []string, error) {
	if len(text) > MaxBytes {
		return File{}, nil, fmt.Errorf("file of %d bytes: want at most %d", len(text), MaxBytes)
	}
	if !utf8.Valid(text) {
		return File{}, nil, errors.New("file is not UTF-8")
	}
	r := &reader{}
	if tidy, commas := withoutTrailingCommas(text); commas > 0 {
		r.remark("%d commas before a closing bracket, which JSON does not allow, are passed over", commas)
		text = tidy
	}
	f := r.file(text)
	if len(r.problems) > 0 {
		return File{}, r.remarks, r.asError()
	}
	r.checkTogether(f)
	r.checkHeldBack(f)
	return f, r.remarks, r.asError()
}

// withoutTrailingCommas drops each comma before a closing bracket, with only white space between, and counts them.
func withoutTrailingCommas(text []byte) (tidy []byte, commas int) {
	tidy = make([]byte, 0, len(text))
	quoted, escaped := false, false
	for i, c := range text {
		switch {
		case escaped:
			escaped = false
		case quoted && c == '\\':
			escaped = true
		case c == '"':
			quoted = !quoted
		case c == ',' && !quoted:
			if rest := bytes.TrimLeft(text[i+1:], " \t\r\n"); len(rest) > 0 && (rest[0] == ']' || rest[0] == '}') {
				commas++
				continue
			}
		}
		tidy = append(tidy, c)
	}
	return tidy, commas
}

// reader collects the problems and oddities of a file.
type reader struct{ problems, remarks []string }

// most is how many problems or remarks are reported.
const most = 10

func (r *reader) problem(format string, values ...any) {
	r.problems = append(r.problems, fmt.Sprintf(format, values...))
}

func (r *reader) remark(format string, values ...any) {
	if len(r.remarks) < most {
		r.remarks = append(r.remarks, fmt.Sprintf(format, values...))
	}
}

// asError returns the first problems as one error; nil if there are none.
func (r *reader) asError() error {
	if len(r.problems) == 0 {
		return nil
	}
	text := ""
	for i, p := range r.problems[:min(most, len(r.problems))] {
		if i > 0 {
			text += "; "
		}
		text += p
	}
	if more := len(r.problems) - most; more > 0 {
		text += fmt.Sprintf("; and %d more", more)
	}
	return errors.New(text)
}

// object is a JSON object of the file with its path in it, such as models[0].
type object struct {
	at     string
	values map[string]json.RawMessage
}

// name returns a field's path in the file, for problems and remarks.
func (o object) name(field string) string {
	if o.at == "" {
		return field
	}
	return o.at + "." + field
}

// object parses the fields of an object. Unknown fields become remarks. After a mistake in the JSON the fields before
// it are returned, so that all problems of these are found, too.
func (r *reader) object(at string, text []byte, known ...string) object {
	o := object{at, map[string]json.RawMessage{}}
	where := at
	if at == "" {
		where = "the file"
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	if start, err := decoder.Token(); err != nil || start != json.Delim('{') {
		r.problem("%s = %s: want an object in braces", where, shown(text))
		return o
	}
	for decoder.More() {
		token, err := decoder.Token()
		if err != nil {
			r.problem("%s: reading the name of a field: %v", where, err)
			return o
		}
		field, _ := token.(string)
		var value json.RawMessage
		if err := decoder.Decode(&value); err != nil {
			r.problem("%s: %v", o.name(printable.Line(field, maxShown)), err)
			return o
		}
		_, twice := o.values[field]
		switch {
		case !slices.Contains(known, field):
			r.remark("%s is unknown here and is passed over", o.name(printable.Quote(field, maxShown)))
			continue
		case twice:
			r.remark("%s is there twice: the last counts", o.name(field))
		}
		o.values[field] = value
	}
	if _, err := decoder.Token(); err != nil {
		r.problem("%s: reading its end: %v", where, err)
	} else if _, err := decoder.Token(); err != io.EOF {
		r.problem("%s goes on after its end: want nothing there", where)
	}
	return o
}

const maxShown = 40

func shown(value []byte) string { return printable.Quote(string(value), maxShown) }

// file parses the experiment.
func (r *reader) file(text []byte) File {
	o := r.object("", text, "models", "exp_dur", "device_id", "sync_level")
	f := File{
		Duration: r.seconds(o, "exp_dur", 1),
		Device:   r.whole(o, "device_id", 0, maxDevice, 0),
	}
	level := r.oneOf(o, "sync_level", "", "layer", "kernel")
	var models []json.RawMessage
	if value, is := o.values["models"]; !is {
		r.problem("models is missing: want a list of 1 to %d", share.MostJobs)
	} else if json.Unmarshal(value, &models) != nil || len(models) < 1 || len(models) > share.MostJobs {
		r.problem("models = %s: want a list of 1 to %d, for at most so many share a GPU", shown(value), share.MostJobs)
		return f
	}
	for i, m := range models {
		f.Models = append(f.Models, r.model(fmt.Sprintf("models[%d]", i), m, level))
	}
	return f
}

// model parses the model at the given place; level is the file's default for its own.
func (r *reader) model(at string, text []byte, level string) Model {
	o := r.object(at, text, "model_name", "model_weight", "sleep_time", "input_file_path", "output_file_path",
		"output_file_name", "priority", "resize", "resize_size", "batch_size", "control", "sync_level", "python_path",
		"repo_path")
	m := Model{
		Name: r.text(o, "model_name", true), Weight: r.text(o, "model_weight", false),
		Pause: r.seconds(o, "sleep_time", 0), Input: r.text(o, "input_file_path", false),
		Folder: r.text(o, "output_file_path", false), Out: r.text(o, "output_file_name", true),
		Priority: r.whole(o, "priority", 0, 1, 0), Resize: r.truth(o, "resize"),
		Batch: r.whole(o, "batch_size", 1, maxBatch, 1), Level: r.oneOf(o, "sync_level", "", "layer", "kernel"),
	}
	if m.Level == "" {
		m.Level = level
	}
	if m.Out != "" && (m.Out != filepath.Base(m.Out) || m.Out == "." || m.Out == "..") {
		r.problem("%s = %s: want the name of a file without a folder", o.name("output_file_name"), shown([]byte(m.Out)))
	}
	for _, foreign := range []string{"python_path", "repo_path"} {
		if _, is := o.values[foreign]; is {
			r.remark("%s has no effect: models are emulated here", o.name(foreign))
		}
	}
	m.Height, m.Width = r.size(o)
	m.Control = r.control(o)
	return m
}

// control parses the model's field control, and remarks on settings without effect.
func (r *reader) control(model object) (c Control) {
	value, is := model.values["control"]
	if !is {
		return c
	}
	o := r.object(model.name("control"), value, "control", "controlsync", "controlEvent", "queue_limit")
	c = Control{On: r.truth(o, "control"), Sync: r.truth(o, "controlsync"), Event: r.truth(o, "controlEvent")}
	if limit, is := o.values["queue_limit"]; is {
		q := r.object(o.name("queue_limit"), limit, "sync", "event_group")
		c.Bound = r.whole(q, "sync", 0, maxKernels, 0)
		c.Group = r.whole(q, "event_group", 0, maxKernels, 0)
	}
	switch {
	case !c.On && (c.Sync || c.Event):
		r.remark("%s: controlsync and controlEvent have no effect without control", o.at)
	case c.On && c.Event && c.Sync:
		r.remark("%s: controlsync has no effect beside controlEvent", o.at)
	}
	if c.On && (c.Sync || c.Event) && c.Queue() < 1 {
		r.problem("%s.queue_limit: want sync of at least 1, or event_group with controlEvent", o.at)
	}
	return c
}

// checkTogether finds problems that involve several models.
func (r *reader) checkTogether(f File) {
	for i, m := range f.Models {
		for k, other := range f.Models[:i] {
			if m.Out == other.Out {
				r.problem("models[%d] and models[%d] both write %s: want an output_file_name of its own for each", k, i,
					shown([]byte(m.Out)))
			}
		}
	}
}

// checkHeldBack remarks on a control that holds no model back, although it looks as if it did.
func (r *reader) checkHeldBack(f File) {
	says := f.impliedPreset()
	if says == None && slices.ContainsFunc(f.Models, func(m Model) bool { return m.Control.On }) {
		r.remark("control: nobody is held back, as with the preset %s: want controlsync or controlEvent in a model of "+
			"priority 0, or the sync_level layer", None)
	}
	for i, m := range f.Models {
		if says == AsSaid && m.Class() == share.Low && m.Control.On && m.Control.Queue() == 0 {
			r.remark("models[%d].control: it is not held back: want controlsync or controlEvent", i)
		}
	}
}

// text parses a text field.
func (r *reader) text(o object, field string, needed bool) string {
	value, is := o.values[field]
	if !is {
		if needed {
			r.problem("%s is missing", o.name(field))
		}
		return ""
	}
	var said string
	if err := json.Unmarshal(value, &said); err != nil || !printable.Is(said) || len(said) > maxText ||
		needed && said == "" {
		r.problem("%s = %s: want printable text in quotes, at most %d bytes", o.name(field), shown(value), maxText)
	}
	return said
}

// oneOf parses one of these words. A missing field is the empty word, which must be among them to be allowed.
func (r *reader) oneOf(o object, field string, words ...string) string {
	said := r.text(o, field, false)
	if !slices.Contains(words, said) {
		r.problem("%s = %s: want one of %q", o.name(field), shown([]byte(said)), words)
	}
	return said
}

// whole parses a whole number from low to high; usual is the default.
func (r *reader) whole(o object, field string, low, high, usual int) int {
	value, is := o.values[field]
	if !is {
		return usual
	}
	n, err := strconv.Atoi(string(value))
	if err != nil || n < low || n > high {
		r.problem("%s = %s: want a whole number from %d to %d", o.name(field), shown(value), low, high)
	}
	return n
}

// seconds parses a time of at least low seconds; it may be missing if low is 0.
func (r *reader) seconds(o object, field string, low float64) time.Duration {
	value, is := o.values[field]
	if !is && low > 0 {
		r.problem("%s is missing: want seconds", o.name(field))
	}
	if !is {
		return 0
	}
	x, err := strconv.ParseFloat(string(value), 64)
	if err != nil || !(x >= low && x <= maxSeconds) {
		r.problem("%s = %s: want seconds from %v to %d", o.name(field), shown(value), low, maxSeconds)
		return 0
	}
	return time.Duration(x * float64(time.Second))
}

// truth parses true or false; the default is false.
func (r *reader) truth(o object, field string) bool {
	value, is := o.values[field]
	if !is {
		return false
	}
	if said := string(value); said != "true" && said != "false" {
		r.problem("%s = %s: want true or false", o.name(field), shown(value))
	}
	return string(value) == "true"
}

// size parses the picture's height and width.
func (r *reader) size(o object) (height, width int) {
	value, is := o.values["resize_size"]
	if !is {
		return usualHeight, usualWidth
	}
	var size []int
	if json.Unmarshal(value, &size) != nil || len(size) != 2 || min(size[0], size[1]) < 1 ||
		max(size[0], size[1]) > maxPixels {
		r.problem("%s = %s: want [height, width], each from 1 to %d", o.name("resize_size"), shown(value), maxPixels)
		return 0, 0
	}
	return size[0], size[1]
}
