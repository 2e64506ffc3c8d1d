package replay

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/synergy-slurmd/synergy-slurmd/etc/profiles"
	"github.com/synergy-slurmd/synergy-slurmd/sensitivity"
	"github.com/synergy-slurmd/synergy-slurmd/sim/models"
)

// set is curves of one source.
type set struct {
	name   string
	models []Model
}

// sets are all the recorded curves that there are: the paper's ten, GPEmu's 24 points, and an H100's.
func sets(t *testing.T) []set {
	t.Helper()
	return []set{{"paper", paper(t)}, {"gpemu", table(t, "gpemu.txt")}, {"h100", table(t, "h100.txt")}}
}

func flat(t *testing.T) (all []Model) {
	for _, s := range sets(t) {
		for _, m := range s.models {
			m.Name = s.name + "/" + m.Name
			all = append(all, m)
		}
	}
	return all
}

// paper is the ten models with all the memory that they want.
func paper(t *testing.T) (curves []Model) {
	t.Helper()
	known, err := models.Set(models.LeastRatio)
	if err != nil {
		t.Fatal(err)
	}
	for id, m := range known {
		text, err := profiles.FS.ReadFile(m.Name + ".json")
		if err != nil {
			t.Fatal(err)
		}
		p, err := sensitivity.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		curve := Model{Name: m.Name}
		batches["paper/"+m.Name] = p.Batch
		matrix := models.Sensitivity(id)
		for i, cores := range models.CPUAxis() {
			relative := matrix[i][len(matrix[i])-1]
			curve.Points = append(curve.Points, Point{int(cores), relative * float64(p.Batch) / m.Iteration})
		}
		curves = append(curves, curve)
	}
	return curves
}

// table reads curves as they are written down for these tests: a line of cores, and one for each model.
func table(t *testing.T, file string) (curves []Model) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", file))
	if err != nil {
		t.Fatal(err)
	}
	var head []string
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(line)
		switch {
		case len(words) == 0 || words[0] == "#":
		case head == nil:
			head = words
		default:
			curves = append(curves, row(t, head, words))
		}
	}
	return curves
}

func row(t *testing.T, head, words []string) Model {
	t.Helper()
	m := Model{Name: words[0]}
	for i, word := range words[1:] {
		x, err := strconv.ParseFloat(word, 64)
		if err != nil {
			t.Fatal(err)
		}
		cores, err := strconv.Atoi(head[i+1])
		if err != nil {
			m.Bound = x
			continue
		}
		m.Points = append(m.Points, Point{cores, x})
	}
	return m
}

// batches are the samples of an iteration.
var batches = map[string]int{
	"gpemu/alexnet": 256, "gpemu/resnet18": 256, "gpemu/mobilenet_v2": 256, "gpemu/resnet50": 256,
	"h100/resnet50": 256, "h100/vit_b_16": 128, "h100/gpt": 16,
}
