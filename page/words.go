package page

import (
	"fmt"
	"html/template"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
	"github.com/synergy-slurmd/synergy-slurmd/printable"
	"github.com/synergy-slurmd/synergy-slurmd/story"
)

// words are the functions of the templates, which format values.
var words = template.FuncMap{
	"line":     func(text string) string { return printable.Line(text, longestName) },
	"sentence": func(text string) string { return printable.Line(text, longestSentence) },
	"gain":     func(gain float64) string { return fmt.Sprintf("%.2f×", gain) },
	"percent":  func(part float64) string { return fmt.Sprintf("%.1f %%", 100*part) },
	"gb":       story.Gigabytes,
	"means":    func(cause bridge.WaitCause) string { return meanings[cause] },
	"clock":    func(at time.Time) string { return at.UTC().Format("2006-01-02 15:04:05 UTC") },
	"machine":  func(at time.Time) string { return at.UTC().Format(time.RFC3339) },
	"span":     span,
}

// longestName and longestSentence bound texts from users and from Slurm, which may have any length.
const (
	longestName     = 60
	longestSentence = 400
)

// span formats a duration in its two largest units.
func span(d time.Duration) string {
	switch {
	case d < 0:
		return "0 s"
	case d < time.Minute:
		return fmt.Sprintf("%.0f s", d.Seconds())
	case d < time.Hour:
		return fmt.Sprintf("%d min %d s", int(d.Minutes()), int(d.Seconds())%60)
	case d < 24*time.Hour:
		return fmt.Sprintf("%d h %d min", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%d d %d h", int(d.Hours())/24, int(d.Hours())%24)
}

// counted formats a count with a noun: 1 core, 2 cores.
func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
