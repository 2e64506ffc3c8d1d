package inside

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/sensitivity/profiler"
)

// Slurm is a job's access to Slurm, as the job's own user: scontrol, with arguments and without a shell.
type Slurm struct {
	Job string                                                         // SLURM_JOB_ID, or ARRAY_TASK
	Run func(ctx context.Context, arguments ...string) (string, error) // nil: scontrol
}

// Asked is what a job finds in its own record.
type Asked struct {
	Measure bool     // the daemon wants this run measured, and no curve was reported in it yet
	Comment string   // the job's comment
	Output  []string // the output files of its batch script
}

// scontrolLimit is how long scontrol may take.
const scontrolLimit = 20 * time.Second

// scontrol runs scontrol without a shell and returns what it prints.
func scontrol(ctx context.Context, arguments ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, scontrolLimit)
	defer cancel()
	command := exec.CommandContext(ctx, "scontrol", arguments...)
	command.WaitDelay = time.Second
	said, err := command.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("scontrol %s: %w: %.200s", arguments[0], err, strings.TrimSpace(string(said)))
	}
	return string(said), nil
}

var jobName = regexp.MustCompile(`^[0-9]{1,10}(_[0-9]{1,10})?$`)

// JobOf returns the job that an environment names, in a form for scontrol; empty outside of Slurm. For an array it
// returns ARRAY_TASK, since the last task has the ID of the array, which would mean all of its tasks.
func JobOf(getenv func(string) string) string {
	name := getenv("SLURM_JOB_ID")
	if array, task := getenv("SLURM_ARRAY_JOB_ID"), getenv("SLURM_ARRAY_TASK_ID"); array != "" && task != "" {
		name = array + "_" + task
	}
	if !jobName.MatchString(name) {
		return ""
	}
	return name
}

func (s Slurm) run(ctx context.Context, arguments ...string) (string, error) {
	if s.Run == nil {
		return scontrol(ctx, arguments...)
	}
	return s.Run(ctx, arguments...)
}

// Asked reads the job's record. It asks for a measurement only if the annotation is of this very job, since a copied
// one names another, and the job has one node, since processes on others are not seen from here.
func (s Slurm) Asked(ctx context.Context) (Asked, error) {
	shown, err := s.run(ctx, "show", "job", s.Job)
	if err != nil {
		return Asked{}, err
	}
	var annotation struct {
		Job     int `json:"job"`
		Measure int `json:"measure"`
	}
	_ = json.Unmarshal([]byte(field(shown, "Extra")), &annotation) // an Extra that is no annotation asks for nothing
	id, _ := strconv.Atoi(field(shown, "JobId"))
	a := Asked{Comment: field(shown, "Comment"), Output: []string{field(shown, "StdOut")}}
	if wrong := field(shown, "StdErr"); wrong != a.Output[0] {
		a.Output = append(a.Output, wrong)
	}
	a.Measure = annotation.Measure == 1 && annotation.Job == id && id > 0 && field(shown, "NumNodes") == "1" &&
		!saidSince(a.Comment, field(shown, "StartTime"))
	return a, nil
}

// saidSince reports whether the comment has a curve of this run. began is the run's start in scontrol's local time. A
// comment or time that cannot be read has none.
func saidSince(comment, began string) bool {
	start, err := time.ParseInLocation("2006-01-02T15:04:05", began, time.Local)
	_, at, curve := strings.Cut(wordOf(comment, curveWord), "@")
	said, wrong := strconv.ParseInt(at, 10, 64)
	return err == nil && wrong == nil && curve && said >= start.Unix()
}

// own are the fields that have lines of their own, since their values may contain spaces.
var own = []string{"Comment", "Extra", "StdOut", "StdErr"}

// field returns a value from the output of scontrol show job. A user's text in Comment or Extra cannot pass for another
// field: the rest of such a line is not searched.
func field(shown, name string) string {
	for line := range strings.Lines(shown) {
		line = strings.TrimSpace(line)
		if rest, is := strings.CutPrefix(line, name+"="); is && slices.Contains(own, name) {
			return rest
		}
		for word := range strings.FieldsSeq(line) {
			if rest, is := strings.CutPrefix(word, name+"="); is && !slices.Contains(own, name) {
				return rest
			}
			if strings.HasPrefix(word, "Comment=") || strings.HasPrefix(word, "Extra=") {
				break // the rest is written by a user
			}
		}
	}
	return ""
}

// The directives that a job writes, and their bounds (docs/job-contract.md).
const (
	curveWord    = "synergy-curve"
	progressWord = "synergy-progress"

	maxWord    = 128  // bytes
	maxComment = 4096 // bytes
	maxPoints  = 16
	separators = ", \t\n\v\f\r"
)

// Word returns the directive for a curve. Points are left out from the middle until it is short enough. Empty: there
// are none.
func Word(points []profiler.Point, at time.Time) string {
	points = append([]profiler.Point(nil), points...)
	for len(points) > 0 {
		var said []string
		for _, p := range points {
			said = append(said, fmt.Sprintf("%d:%s", p.Cores, figures(p.Rate)))
		}
		word := fmt.Sprintf("%s=%s@%d", curveWord, strings.Join(said, "/"), at.Unix())
		if len(points) <= maxPoints && len(word) <= maxWord {
			return word
		}
		middle := len(points) / 2
		points = append(points[:middle], points[middle+1:]...)
	}
	return ""
}

// figures formats a rate with four significant digits. A rate below a thousandth has six decimals.
func figures(rate float64) string {
	decimals := 0
	for limit := 1000.0; rate < limit && decimals < 6; limit /= 10 {
		decimals++
	}
	return strconv.FormatFloat(rate, 'f', decimals, 64)
}

// findWord returns where in a comment the directive of this name stands, with a value or without.
func findWord(comment, name string) (begin, end int, found bool) {
	for end < len(comment) {
		rest := comment[end:]
		begin = end + len(rest) - len(strings.TrimLeft(rest, separators))
		if end = len(comment); begin < end {
			if stop := strings.IndexAny(comment[begin:], separators); stop >= 0 {
				end = begin + stop
			}
		}
		if word := comment[begin:end]; word == name || strings.HasPrefix(word, name+"=") {
			return begin, end, true
		}
	}
	return 0, 0, false
}

// wordOf returns the directive of this name, or nothing.
func wordOf(comment, name string) string {
	begin, end, _ := findWord(comment, name)
	return comment[begin:end]
}

// withWord returns the comment with the directive in place of the one of its name, or at the end. Everything else stays
// byte for byte.
func withWord(comment, word string) string {
	name, _, _ := strings.Cut(word, "=")
	begin, end, found := findWord(comment, name)
	if !found {
		return comment + " " + word
	}
	return comment[:begin] + word + comment[end:]
}

// Say writes the directive into the job's comment. It reads the comment first, since its owner and the training may
// change it meanwhile, and again afterwards, since a progress report that had read the comment before may have restored
// the old one.
func (s Slurm) Say(ctx context.Context, word string) error {
	for range 3 {
		asked, err := s.Asked(ctx)
		if err != nil {
			return err
		}
		if strings.Contains(asked.Comment, word) {
			return nil
		}
		if err := s.write(ctx, withWord(asked.Comment, word)); err != nil {
			return err
		}
		if err := pause(ctx, 2*time.Second); err != nil {
			return err
		}
	}
	return errors.New("somebody else writes the comment at the same time")
}

// write changes the comment.
func (s Slurm) write(ctx context.Context, comment string) error {
	if len(comment) > maxComment {
		return fmt.Errorf("the comment would have %d bytes: want at most %d", len(comment), maxComment)
	}
	_, err := s.run(ctx, "update", "jobid="+s.Job, "comment="+comment)
	return err
}
