// Package report shows the outcomes of simulations to people: one self-contained HTML page with tables and plots, and
// each plot as SVG and PNG for papers. It computes nothing that an outcome does not hold, asks nobody, and knows no
// clock: equal outcomes give equal bytes. Whatever comes from outside, such as the names of models and users, is shown
// and never interpreted.
package report

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/synergy-slurmd/synergy-slurmd/sim/outcome"
)

// Options is what a report says beside its outcomes. The zero value leaves it out.
type Options struct {
	Title   string // empty: one that says what was compared
	Command string // the command line that gives the same report again
	Version string // of the program
	// Family names the family of a model, by which the picture of the cluster is coloured; nil: by model.
	Family func(model string) string
}

// file is one file of the report.
type file struct {
	name string
	data []byte
}

// Write writes DIR/index.html, and for each plot DIR/NAME.svg and DIR/NAME.png. It makes the directory where there is
// none, overwrites what an earlier report left under the same names, and touches nothing else. Runs that differ in
// nothing but their seed are averaged; those whose workload was generated must therefore not name seed or load in
// Setting.Workload.
//
// An error says which path cannot be written, that there is no run to show, or what of a run's rounds and spans cannot
// be. A run without a finished job is no error: the report says so.
func Write(dir string, runs []outcome.Run, options Options) error {
	if len(runs) == 0 {
		return errors.New("report: no run to show: want at least one")
	}
	for i, run := range runs {
		if err := check(run); err != nil {
			return fmt.Errorf("report: run %d (%s, %s): %w", i, run.Setting.Policy, run.Setting.Allocator, err)
		}
	}
	if err := makeDirectory(dir); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	files, err := render(runs, options)
	if err != nil {
		return fmt.Errorf("report %s: %w", dir, err)
	}
	for _, f := range files {
		if err := os.WriteFile(filepath.Join(dir, f.name), f.data, 0o644); err != nil {
			return fmt.Errorf("report: %w", err)
		}
	}
	return nil
}

// makeDirectory says so where something else is in the directory's place.
func makeDirectory(dir string) error {
	found, err := os.Stat(dir)
	switch {
	case err == nil && !found.IsDir():
		return fmt.Errorf("%s is a file: want a directory, or a name that is free", dir)
	case err == nil:
		return nil
	}
	return os.MkdirAll(dir, 0o755)
}

// render gives all files of a report, the page last: where it is, so is what it shows.
func render(runs []outcome.Run, options Options) (files []file, err error) {
	study := newStudy(runs)
	illustrations := figures{study}.illustrations(options)
	for _, drawn := range illustrations {
		png, err := drawn.figure.PNG()
		if err != nil {
			return nil, fmt.Errorf("%s.png: %w", drawn.name, err)
		}
		files = append(files, file{drawn.name + ".png", png})
	}
	text, err := study.text(illustrations, options)
	return append(files, text...), err
}

// text gives those files of a report that are text: the plots as SVG, and the page that has them in it.
func (s *study) text(illustrations []illustration, options Options) (files []file, err error) {
	var plates []plate
	for _, drawn := range illustrations {
		svg, err := drawn.figure.SVG()
		if err != nil {
			return nil, fmt.Errorf("%s.svg: %w", drawn.name, err)
		}
		files = append(files, file{drawn.name + ".svg", []byte(svg)})
		plates = append(plates, newPlate(drawn, svg))
	}
	html, err := s.page(plates, options)
	if err != nil {
		return nil, fmt.Errorf("index.html: %w", err)
	}
	return append(files, file{"index.html", html}), nil
}

// illustrations are all figures of the report, in the order of the page.
func (s figures) illustrations(options Options) (drawn []illustration) {
	for _, load := range s.shown() {
		drawn = append(drawn, s.bars(load))
	}
	for _, load := range s.shown() {
		drawn = append(drawn, s.cdf(load))
	}
	if s.generatedLoads() > 1 {
		drawn = append(drawn, s.byLoad())
	}
	for _, load := range s.shown() {
		drawn = append(drawn, s.byModel(load))
	}
	detailed := s.detailed()
	drawn = append(drawn, s.allocations(detailed)...)
	return append(drawn, s.gantts(detailed, options.Family)...)
}
