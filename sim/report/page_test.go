package report

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/synergy-slurmd/synergy-slurmd/sim/outcome"
	"pgregory.net/rapid"
)

// node is an element of a page or of an SVG.
type node struct {
	name     string
	attr     map[string]string
	text     string // of itself and what it contains
	children []*node
}

// parse reads a page or an SVG strictly: every element is closed, and every entity known.
func parse(t testing.TB, document []byte) *node {
	t.Helper()
	decoder := xml.NewDecoder(strings.NewReader(string(document)))
	decoder.Entity = xml.HTMLEntity
	root := &node{}
	open := []*node{root}
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			return root
		}
		if err != nil {
			t.Fatal(err)
		}
		switch token := token.(type) {
		case xml.StartElement:
			n := &node{name: token.Name.Local, attr: map[string]string{}}
			for _, a := range token.Attr {
				n.attr[a.Name.Local] = a.Value
			}
			open[len(open)-1].children = append(open[len(open)-1].children, n)
			open = append(open, n)
		case xml.EndElement:
			open = open[:len(open)-1]
		case xml.CharData:
			for _, n := range open {
				n.text += string(token)
			}
		}
	}
}

// all are the elements of a name below a node, in the order of the document.
func (n *node) all(name string) (found []*node) {
	for _, child := range n.children {
		if child.name == name {
			found = append(found, child)
		}
		found = append(found, child.all(name)...)
	}
	return found
}

// below is the element with an id.
func (n *node) below(t testing.TB, id string) *node {
	t.Helper()
	for _, child := range n.children {
		if child.attr["id"] == id {
			return child
		}
	}
	for _, child := range n.children {
		if found := child.find(id); found != nil {
			return found
		}
	}
	t.Fatalf("no element has the id %s", id)
	return nil
}

func (n *node) find(id string) *node {
	if n.attr["id"] == id {
		return n
	}
	for _, child := range n.children {
		if found := child.find(id); found != nil {
			return found
		}
	}
	return nil
}

// cells are a table's rows: what each cell says, and after it what number it stands for, where it has one.
func cells(table *node) (rows [][]string) {
	for _, row := range table.all("tbody")[0].all("tr") {
		var texts []string
		for _, cell := range row.children {
			texts = append(texts, cell.text)
			for _, number := range cell.all("data") {
				texts = append(texts, number.attr["value"])
			}
		}
		rows = append(rows, texts)
	}
	return rows
}

// small are runs that take no time: two policies and three allocators on 16 GPUs.
func small() []outcome.Run {
	return toy{servers: 2, perServer: 8, jobs: 60, load: 8, seed: 3, users: 3}.cross(
		[]string{"fifo", "srtf"}, []string{"proportional", "greedy", "tune"})
}

// written are the files of a report.
func written(t testing.TB, runs []outcome.Run, options Options) map[string][]byte {
	t.Helper()
	dir := t.TempDir()
	if err := Write(dir, runs, options); err != nil {
		t.Fatal(err)
	}
	return read(t, dir)
}

// text are the files of a report that are text, without the time that pictures take.
func text(t testing.TB, runs []outcome.Run, options Options) map[string][]byte {
	t.Helper()
	study := newStudy(runs)
	written, err := study.text(figures{study}.illustrations(options), options)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{}
	for _, f := range written {
		files[f.name] = f.data
	}
	return files
}

func read(t testing.TB, dir string) map[string][]byte {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{}
	for _, name := range names {
		if files[filepath.Base(name)], err = os.ReadFile(name); err != nil {
			t.Fatal(err)
		}
	}
	return files
}

func TestTheTableHasTheFiguresOfEveryRun(t *testing.T) {
	runs := small()
	rows := cells(parse(t, text(t, runs, Options{})["index.html"]).below(t, "results"))
	if len(rows) != len(runs) {
		t.Fatalf("%d rows, want one for each of %d runs", len(rows), len(runs))
	}
	for i, run := range runs {
		summary, err := outcome.Summarise(run)
		if err != nil {
			t.Fatal(err)
		}
		h, u := summary.CompletionHours, summary.Utilisation
		want := []float64{
			h.Mean, h.Median, h.P90, h.P99, h.P999, summary.Makespan / 3600, 100 * u.GPUs, 100 * u.CPUs, 100 * u.Memory,
			float64(summary.Rounds), float64(summary.Preemptions),
		}
		if got := rows[i][:2]; got[0] != display(run.Setting.Policy) || got[1] != display(run.Setting.Allocator) {
			t.Errorf("row %d is of %v", i, got)
		}
		for k, value := range want {
			if got := rows[i][4+2*k]; got != strconv.FormatFloat(value, 'f', -1, 64) {
				t.Errorf("row %d: number %d is %s, want %v", i, k, got, value)
			}
		}
	}
}

func TestRatiosAreThoseToProportionalSharesUnderTheSamePolicy(t *testing.T) {
	runs := small()
	rows := cells(parse(t, text(t, runs, Options{})["index.html"]).below(t, "results"))
	for i, run := range runs {
		base := runs[i/3*3]
		mine, _ := outcome.Summarise(run)
		theirs, _ := outcome.Summarise(base)
		ratio, err := mine.Ratio(theirs)
		if err != nil {
			t.Fatal(err)
		}
		for k, want := range []float64{ratio.Mean, ratio.P99, ratio.Makespan} {
			text, value := rows[i][len(rows[i])-6+2*k], rows[i][len(rows[i])-5+2*k]
			if value != strconv.FormatFloat(want, 'f', -1, 64) || text != fmt.Sprintf("%.2f×", want) {
				t.Errorf("row %d: ratio %d is %s (%s), want %v", i, k, text, value, want)
			}
		}
	}
}

// TestNothingIsComparedWhereJobsAreUnfinished spoils a job of a run, or of the one that it is compared with.
func TestNothingIsComparedWhereJobsAreUnfinished(t *testing.T) {
	for name, c := range map[string]struct {
		unfinished, missing int // index of a run, or -1
	}{
		"unfinished":                             {2, -1},
		"unfinished where compared":              {0, -1},
		"missing":                                {-1, 2},
		"missing where compared":                 {-1, 0},
		"unfinished, and missing where compared": {2, 0},
		"missing, and unfinished where compared": {0, 2},
	} {
		const job = 50
		runs := small()[:3]
		model := runs[0].Jobs[job].Model
		for i := range runs {
			runs[i].Jobs = slices.Clone(runs[i].Jobs)
			if i == c.unfinished {
				runs[i].Jobs[job].Finish = -1
			}
			if i == c.missing {
				runs[i].Jobs = slices.Delete(runs[i].Jobs, job, job+1)
			}
		}
		page := parse(t, text(t, runs, Options{})["index.html"])
		if row := cells(page.below(t, "results"))[2]; !slices.Equal(row[len(row)-3:], []string{"–", "–", "–"}) {
			t.Errorf("%s: ratios %v, want none", name, row[len(row)-6:])
		}
		for _, row := range cells(page.below(t, "models").all("table")[0]) {
			if got := row[len(row)-1]; (got == "–") != (row[0] == model) {
				t.Errorf("%s: %s is compared with %s, and the job is a %s", name, row[0], got, model)
			}
		}
		for _, b := range (figures{newStudy(runs)}).speedups(0) {
			if _, compared := b.values[model]; compared && b.series == 2 {
				t.Errorf("%s: there is a bar for the job's model", name)
			}
		}
	}
}

func TestUnfinishedJobsAreCountedInTableAndCaption(t *testing.T) {
	runs := small()
	runs[2].Jobs = slices.Clone(runs[2].Jobs)
	runs[2].Jobs[50].Finish = -1
	page := parse(t, text(t, runs, Options{})["index.html"])
	if row := cells(page.below(t, "results"))[2]; row[2] != "59 of 60" {
		t.Errorf("finished %s, want 59 of 60", row[2])
	}
	if caption := page.below(t, "completion-cdf").text; !strings.Contains(caption, "1 job in this figure") {
		t.Errorf("caption %q says nothing of the unfinished job", caption)
	}
}

func TestTablesByKindHaveTheFiguresOfEveryModelAndNumberOfGPUs(t *testing.T) {
	runs := small()
	page := parse(t, text(t, runs, Options{})["index.html"])
	for id, by := range map[string]func(outcome.Run) []outcome.Row{"models": outcome.ByModel, "gpus": outcome.ByGPUs} {
		tables := page.below(t, id).all("table")
		if len(tables) != 2 {
			t.Fatalf("%s: %d tables, want one for each policy", id, len(tables))
		}
		for p, table := range tables {
			rows := cells(table)
			for k, want := range by(runs[3*p]) {
				if got := rows[k][1]; got != strconv.Itoa(want.Jobs) {
					t.Errorf("%s: %v: %s jobs, want %d", id, rows[k][0], got, want.Jobs)
				}
				if got := rows[k][3]; got != strconv.FormatFloat(want.Completion.Hours().Mean, 'f', -1, 64) {
					t.Errorf("%s: %v: mean %s, want %v", id, rows[k][0], got, want.Completion.Hours().Mean)
				}
			}
		}
	}
}

func TestTheJobsThatWaitedLongestAreThoseThatWaitedLongest(t *testing.T) {
	runs := small()[:1]
	rows := cells(parse(t, text(t, runs, Options{})["index.html"]).below(t, "waits"))
	waits := map[int]float64{}
	for _, job := range runs[0].Jobs {
		waits[job.ID] = job.Finish - job.Arrival - job.AttainedGPU/float64(job.GPUs)
	}
	order := slices.SortedFunc(maps.Keys(waits), func(a, b int) int {
		if waits[a] != waits[b] {
			return int(waits[b] - waits[a])
		}
		return a - b
	})
	for i, row := range rows {
		if row[1] != strconv.Itoa(order[i]) || row[7] != hours(waits[order[i]]) {
			t.Errorf("row %d is job %s with %s h, want job %d with %s h", i, row[1], row[7], order[i],
				hours(waits[order[i]]))
		}
	}
	if len(rows) != mostWaits {
		t.Errorf("%d jobs, want %d", len(rows), mostWaits)
	}
}

func TestTheShortestMeanOfEachPolicyIsBold(t *testing.T) {
	runs := small()
	rows := parse(t, text(t, runs, Options{})["index.html"]).below(t, "results").all("tbody")[0].all("tr")
	for first := 0; first < len(runs); first += 3 {
		var means []float64
		for _, run := range runs[first : first+3] {
			summary, _ := outcome.Summarise(run)
			means = append(means, summary.Completion.Mean)
		}
		for k, mean := range means {
			if bold := rows[first+k].attr["class"] == "best"; bold != (mean == slices.Min(means)) {
				t.Errorf("row %d: bold is %v, with a mean of %v among %v", first+k, bold, mean, means)
			}
		}
	}
}

func TestThePageSaysWhatWasSimulatedAndHowToGetItAgain(t *testing.T) {
	page := parse(t, text(t, small(), Options{Title: "A title", Command: "synergy sim --seed 3\n  --load 8",
		Version: "v1.2.3"})["index.html"])
	facts := page.below(t, "simulated").text
	for _, want := range []string{
		"FIFO; SRTF", "Proportional; Greedy; Tune", "artifact", "generated, one to eight GPUs", "8 jobs/h",
		"2x8:24:500", "16 GPUs, 48 cores",
		"60 jobs arrived", "all jobs", "every 300 s", "restarts cost nothing",
	} {
		if !strings.Contains(facts, want) {
			t.Errorf("nothing of %q in %q", want, facts)
		}
	}
	again := page.below(t, "again")
	if got := again.all("pre")[0].text; got != "synergy sim --seed 3\n  --load 8" {
		t.Errorf("command %q", got)
	}
	if !strings.Contains(again.text, "Version v1.2.3, seed 3.") || page.all("title")[0].text != "A title" {
		t.Error("version, seed or title are missing")
	}
}

func TestEveryFigureStandsInThePageWithACaptionAndLinksToItsFiles(t *testing.T) {
	files := written(t, small()[:3], Options{})
	figures := parse(t, files["index.html"]).all("figure")
	for _, figure := range figures {
		svgs, captions := figure.all("svg"), figure.all("figcaption")
		if len(svgs) != 1 || svgs[0].attr["aria-label"] == "" || len(svgs[0].all("path")) < 5 || len(captions) != 1 {
			t.Fatalf("%s: %d drawings, %d captions", figure.attr["id"], len(svgs), len(captions))
		}
		for _, link := range captions[0].all("a") {
			if files[link.attr["href"]] == nil {
				t.Errorf("%s links to %s, which there is not", figure.attr["id"], link.attr["href"])
			}
		}
	}
	if 2*len(figures)+1 != len(files) {
		t.Errorf("%d figures and %d files, want an SVG and a PNG for each, and the page", len(figures), len(files))
	}
}

func TestThePageNeedsNothingFromOutside(t *testing.T) {
	for _, n := range descendants(parse(t, text(t, small(), Options{})["index.html"])) {
		switch n.name {
		case "script", "link", "img", "iframe", "object", "embed", "base", "image", "use", "foreignObject":
			t.Errorf("the page has a %s", n.name)
		}
		for name, value := range n.attr {
			if strings.HasPrefix(name, "on") || strings.Contains(value, "://") || name == "src" {
				t.Errorf("%s has %s=%q", n.name, name, value)
			}
		}
		if n.name == "style" && (strings.Contains(n.text, "url(") || strings.Contains(n.text, "@import")) {
			t.Error("the style asks for files")
		}
	}
}

func descendants(n *node) (found []*node) {
	for _, child := range n.children {
		found = append(append(found, child), descendants(child)...)
	}
	return found
}

// hostile are names that end strings, elements, comments and styles, or that cannot be seen.
var hostile = []string{
	`<script>alert(1)</script>`, `"><img src=x onerror=alert(1)>`, `</style><script>alert(2)</script>`, `]]>`, `<!--`,
	`'; --`,
	"\x00\x07\x1b[31m", "\xff\xfe", "\u202Eevil",
	"line\nbreak\ttab", `{{.Command}}`, `&amp;&lt;`, "javascript:alert(1)", strings.Repeat("long ", 100), "漢字🙂", "",
}

// TestHostileNamesAreShownAndNeverInterpreted puts hostile words wherever words come from outside.
func TestHostileNamesAreShownAndNeverInterpreted(t *testing.T) {
	known := elements(parse(t, text(t, small(), Options{Command: "command", Version: "version"})["index.html"]))
	rapid.Check(t, func(r *rapid.T) {
		words := rapid.OneOf(rapid.SampledFrom(hostile), rapid.String())
		runs := toy{servers: 1, perServer: 4, jobs: 18, load: 8}.cross([]string{"fifo"},
			[]string{"proportional", "tune"})
		for i := range runs {
			s := &runs[i].Setting
			for _, name := range []*string{&s.Engine, &s.Policy, &s.Placement, &s.Workload, &s.Cluster, &s.Split} {
				*name = words.Draw(r, "name")
			}
			for j := range runs[i].Jobs {
				runs[i].Jobs[j].Model, runs[i].Jobs[j].User = hostile[j%len(hostile)], hostile[(j+i)%len(hostile)]
			}
			for j := range runs[i].Spans {
				runs[i].Spans[j].Model = hostile[j%len(hostile)]
			}
		}
		options := Options{Title: words.Draw(r, "title"), Command: words.Draw(r, "command"),
			Version: words.Draw(r, "version")}
		files := text(t, runs, options)
		for name := range elements(parse(t, files["index.html"])) {
			if !known[name] {
				r.Errorf("the page has %s, which a page of harmless names has not", name)
			}
		}
		for name, data := range files {
			if strings.HasSuffix(name, ".svg") {
				parse(t, data)
			}
		}
	})
}

// elements are the kinds of elements of a document, with the names of their attributes.
func elements(n *node) map[string]bool {
	kinds := map[string]bool{}
	for _, d := range descendants(n) {
		for _, attribute := range slices.Sorted(maps.Keys(d.attr)) {
			kinds[d.name+" "+attribute] = true
		}
		kinds[d.name] = true
	}
	return kinds
}

func TestHostileNamesAreShown(t *testing.T) {
	runs := small()
	for i := range runs {
		runs[i].Setting.Workload = hostile[0]
		for j := range runs[i].Jobs {
			runs[i].Jobs[j].Model = hostile[1]
		}
	}
	page := parse(t, text(t, runs, Options{})["index.html"])
	if !strings.Contains(page.below(t, "simulated").text, hostile[0]) ||
		!strings.Contains(page.below(t, "models").text, hostile[1]) {
		t.Error("the names are not shown as they are")
	}
	if drawn := page.below(t, "speedup-by-model").text; !strings.Contains(drawn, hostile[1]) {
		t.Error("the plot does not show the model's name")
	}
}

func TestColumnsOfTheTableAreNamedByWhatTheyHold(t *testing.T) {
	runs := toy{servers: 1, perServer: 4, jobs: 18, load: 8}.cross([]string{"fifo", "srtf"}, []string{"tune"})
	table := parse(t, text(t, runs, Options{})["index.html"]).below(t, "results")
	heads, first := table.all("thead")[0].all("th"), cells(table)[0]
	if heads[0].text != "Allocator" || heads[1].text != "Policy" || first[0] != "Tune" || first[1] != "FIFO" {
		t.Errorf("columns %s and %s hold %s and %s", heads[0].text, heads[1].text, first[0], first[1])
	}
}
