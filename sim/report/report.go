// Package report shows the outcomes of simulations: one self-contained HTML page with tables and plots, and each plot
// as SVG and PNG for papers. It shows only what follows from the outcomes, makes no requests, and has no clock: equal
// outcomes give equal bytes. Foreign text, such as names of models and users, is shown and never interpreted.
package report

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/synergy-slurmd/synergy-slurmd/sim/outcome"
)

// Options are additions to a report. With the zero value they are left out.
type Options struct {
	Title   string // empty: a title that says what was compared
	Command string // the command line that produces this report
	Version string // of the program
	// Family returns the family of a model, by which the picture of the cluster is coloured; nil: it is coloured by
	// model.
	Family func(model string) string
}

// file is one file of the report.
type file struct {
	name string
	data []byte
}

// Write writes DIR/index.html, and for each plot DIR/NAME.svg and DIR/NAME.png. It creates the directory if necessary,
// overwrites files of an earlier report with the same names, and changes nothing else. Runs that differ only in their
// seed are averaged; so runs with a generated workload must not contain seed or load in Setting.Workload.
//
// Errors say which path cannot be written, that there is no run, or which values of a run's rounds and spans are
// impossible. A run without a finished job is no error: the report says so.
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

// makeDirectory creates the directory. It is an error if a file has its name. Other errors of looking at it come again
// from creating it.
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

// render renders all files of a report, the page last, so that everything it refers to is there when it is written.
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

// text renders the text files of a report: the plots as SVG, and the page that contains them.
func (s *study) text(illustrations []illustration, options Options) (files []file, err error) {
	var plates []pageFigure
	for _, drawn := range illustrations {
		svg, err := drawn.figure.SVG()
		if err != nil {
			return nil, fmt.Errorf("%s.svg: %w", drawn.name, err)
		}
		files = append(files, file{drawn.name + ".svg", []byte(svg)})
		plates = append(plates, newPageFigure(drawn, svg))
	}
	html, err := s.page(plates, options)
	if err != nil {
		return nil, fmt.Errorf("index.html: %w", err)
	}
	return append(files, file{"index.html", html}), nil
}

// illustrations returns all figures of the report, in the order of the page.
func (s figures) illustrations(options Options) (drawn []illustration) {
	for _, load := range s.shownLoads() {
		drawn = append(drawn, s.bars(load))
	}
	for _, load := range s.shownLoads() {
		drawn = append(drawn, s.cdf(load))
	}
	if s.generatedLoads() > 1 {
		drawn = append(drawn, s.byLoad())
	}
	for _, load := range s.shownLoads() {
		drawn = append(drawn, s.byModel(load))
	}
	detailed := s.detailedRuns()
	drawn = append(drawn, s.allocations(detailed)...)
	return append(drawn, s.gantts(detailed, options.Family)...)
}
