// Package local runs a trainer on this machine with fewer or more of the CPUs that it may use, by affinity: no Slurm,
// no root, no container. Memory it cannot limit; it tells the trainer, as Slurm's environment would, and a cache of the
// trainer's own is as large as that allows.
package local

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
	"unicode"

	"github.com/synergy-slurmd/synergy-slurmd/profiling"
	"github.com/synergy-slurmd/synergy-slurmd/sensitivity/profiler"
)

// Trainer is a command on this machine.
type Trainer struct {
	Command []string
	GPUs    int
	CPUs    []int // that it may be given, in the order in which it is
	// Virtual is in place of CPUs how many there are said to be: the trainer is told its share and bound to none, for a
	// rehearsal with one that only sleeps; 0: CPUs counts.
	Virtual int
	// Where iterations come from, the first of them that says any: a file of progress, a pattern in the output, a file
	// that the trainer writes, in which Pattern is looked for, or without one the number that it begins with.
	Progress string
	Pattern  *Pattern
	Watch    string
	Log      string        // what the trainer prints, appended; empty: nowhere
	Patience time.Duration // to the first progress, and from one to the next
	Grace    time.Duration // from SIGTERM to SIGKILL
	Asks     Request       // how Save does it
	// Confine lets a process and all that descend from it use these CPUs alone, so that a trainer that follows its
	// cores is not started for each trial; nil: it is.
	Confine func(process int, cpus []int) error
	// Look is what these processes have of their GPUs at this moment; nil, or false: it cannot be seen.
	Look func(processes []int) (profiler.Use, bool)

	now *child
}

// child is a trainer that runs.
type child struct {
	command *exec.Cmd
	ended   chan struct{} // closed when it has
	failed  error         // then: how
	output  *reader
	source  source
	begun   time.Time
	trial   profiler.Trial // whose cores and memory it has
	log     *os.File
}

// tick is how often progress is looked at.
const tick = 50 * time.Millisecond

// Run is a trial.
func (l *Trainer) Run(ctx context.Context, t profiler.Trial) (profiling.Measured, error) {
	var m profiling.Measured
	if !t.Prolongs {
		goesOn, err := l.resize(ctx, t)
		if err != nil {
			return m, l.fault(err, fmt.Sprintf("before its first iteration with %d cores", t.Cores))
		}
		if !goesOn {
			if m.Start, err = l.restart(ctx, t); err != nil {
				return m, err
			}
		}
	}
	if l.now == nil {
		return m, errors.New("no trainer runs that could go on")
	}
	var u uses
	windows, err := l.watch(ctx, t.For, &u)
	m.Windows, m.Use = windows, l.used(&u)
	return m, l.fault(err, fmt.Sprintf("after %.0f s and %.0f iterations, before the %.0f s that were to be measured",
		time.Since(l.now.begun).Seconds(), float64(l.now.source.total()), t.For.Seconds()))
}

// restart starts the trainer with what the trial says, and returns the time until its first iteration.
func (l *Trainer) restart(ctx context.Context, t profiler.Trial) (time.Duration, error) {
	if err := l.Close(); err != nil {
		return 0, err
	}
	if err := l.start(t); err != nil {
		return 0, err
	}
	if err := l.until(ctx, l.Patience, func() bool { return l.now.source.moved() }); err != nil {
		return 0, l.fault(err, "before its first iteration")
	}
	return time.Since(l.now.begun), l.otherGPUs(ctx)
}

func (l *Trainer) start(t profiler.Trial) error {
	if most := max(l.Virtual, len(l.CPUs)); t.Cores > most {
		return fmt.Errorf("%d cores: this process may use %d", t.Cores, most)
	}
	for _, file := range []string{l.Progress, l.Watch} { // what an earlier run wrote is no progress of this one
		if file != "" {
			if err := os.Remove(file); err != nil && !errors.Is(err, os.ErrNotExist) {
				return err
			}
		}
	}
	c := &child{command: exec.Command(l.Command[0], l.Command[1:]...), ended: make(chan struct{}), begun: time.Now(),
		trial: t}
	c.output = &reader{pattern: l.Pattern}
	var out io.Writer = c.output
	if l.Log != "" {
		log, err := os.OpenFile(l.Log, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
		if err != nil {
			return err
		}
		fmt.Fprintf(log, "== %s with %d cores\n", strings.Join(l.Command, " "), t.Cores)
		c.log, out = log, io.MultiWriter(log, c.output)
	}
	c.command.Stdout, c.command.Stderr, c.command.Env = out, out, l.environment(t)
	// A group of its own is not met by a terminal's ^C, which is for us, and ends with all that it started. Whoever
	// kills us outright does not leave a trainer on the GPU: the thread that starts it lives as long as we do.
	c.command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	c.command.WaitDelay = time.Second // for what it left behind with its output open
	if err := l.launch(c.command, t.Cores); err != nil {
		c.close()
		return &profiling.Fault{Why: fmt.Sprintf("the trainer does not start: %v", err)}
	}
	c.source = l.source(c)
	l.now = c
	go func() {
		c.failed = c.command.Wait()
		close(c.ended)
	}()
	return nil
}

func (l *Trainer) launch(command *exec.Cmd, cores int) error {
	if l.Virtual > 0 {
		return command.Start()
	}
	return startOn(l.CPUs[:cores], command)
}

// environment is ours, with what the trainer has: as Slurm and the daemon's nodes would say it.
func (l *Trainer) environment(t profiler.Trial) []string {
	gpus := max(1, l.GPUs)
	env := append(os.Environ(), "PYTHONUNBUFFERED=1", "SYNERGY_PROGRESS="+l.Progress,
		fmt.Sprintf("SYNERGY_CPUS=%d", t.Cores), fmt.Sprintf("SYNERGY_GPUS=%d", gpus),
		fmt.Sprintf("OMP_NUM_THREADS=%d", max(1, t.Cores/gpus)),
		fmt.Sprintf("SLURM_CPUS_ON_NODE=%d", t.Cores), fmt.Sprintf("SLURM_CPUS_PER_TASK=%d", t.Cores))
	if t.Memory > 0 {
		env = append(env, fmt.Sprintf("SYNERGY_MEMORY_MB=%d", t.Memory))
	}
	// Tasks of srun are no children of ours and have other CPUs than we gave; this says to it how many.
	if os.Getenv("SLURM_JOB_ID") != "" {
		env = append(env, fmt.Sprintf("SRUN_CPUS_PER_TASK=%d", t.Cores))
	}
	return env
}

// What ends a wait.
var (
	errEnded  = errors.New("ended")
	errSilent = errors.New("silent")
)

// until waits for something, no longer than patience.
func (l *Trainer) until(ctx context.Context, patience time.Duration, is func() bool) error {
	deadline := time.Now().Add(patience)
	for !is() {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-l.now.ended:
			if is() {
				return nil
			}
			return errEnded
		case <-time.After(tick):
		}
		if time.Now().After(deadline) {
			return errSilent
		}
	}
	return nil
}

// watch measures for so long. A window ends with the progress that ends it, so that it holds whole iterations.
func (l *Trainer) watch(ctx context.Context, length time.Duration, u *uses) (windows []profiler.Window, err error) {
	since, done := time.Now(), l.now.source.total()
	for end := since.Add(length); time.Now().Before(end); {
		err := l.until(ctx, l.Patience, func() bool {
			l.look(u)
			return l.now.source.total() > done || time.Now().After(end)
		})
		if err != nil {
			return windows, err
		}
		l.readReport(u)
		now, total := time.Now(), l.now.source.total()
		windows = append(windows, profiler.Window{Seconds: now.Sub(since).Seconds(), Iterations: float64(total - done)})
		since, done = now, total
	}
	return windows, nil
}

// fault makes a sentence of what a wait ended with.
func (l *Trainer) fault(err error, when string) error {
	switch {
	case errors.Is(err, errEnded):
		<-l.now.ended
		fault := &profiling.Fault{Why: "the trainer ended by itself", Done: true}
		if failed := l.now.failed; failed != nil && !errors.Is(failed, exec.ErrWaitDelay) {
			fault = &profiling.Fault{Why: fmt.Sprintf("the trainer crashed (%v)", failed)}
		}
		fault.Why += " " + when + l.now.output.lastWords()
		if l.now.output.wantsMore() {
			fault.Why += fmt.Sprintf("; it wants more GPUs than the %d of --gpus", max(1, l.GPUs))
		}
		return fault
	case errors.Is(err, errSilent):
		return &profiling.Fault{
			Why: fmt.Sprintf("the trainer made no progress for %s that is seen in %s%s", l.Patience, l.sources(),
				l.now.output.lastWords()),
		}
	}
	return err
}

// sources are the places where progress is looked for, for people.
func (l *Trainer) sources() string {
	var all []string
	if l.Progress != "" {
		all = append(all, "the progress file "+l.Progress)
	}
	if l.Pattern != nil && l.Watch == "" {
		all = append(all, fmt.Sprintf("its output by the pattern %s", l.Pattern.Name))
	}
	if l.Watch != "" {
		all = append(all, "the file "+l.Watch)
	}
	return strings.Join(all, " or ")
}

// Close ends the trainer and all that it started.
func (l *Trainer) Close() error {
	c := l.now
	if c == nil {
		return nil
	}
	l.now = nil
	group := -c.command.Process.Pid
	_ = syscall.Kill(group, syscall.SIGTERM)
	select {
	case <-c.ended:
	case <-time.After(l.Grace):
	}
	_ = syscall.Kill(group, syscall.SIGKILL) // loaders outlive their trainer now and then
	<-c.ended
	return c.close()
}

func (c *child) close() error {
	if c.log == nil {
		return nil
	}
	return c.log.Close()
}

// source is where progress comes from.
type source struct {
	read  []func() (int64, bool)
	count *counter
	used  *int // index of read that says something; -1: none does
}

func (l *Trainer) source(c *child) source {
	s := source{count: &counter{}, used: new(int)}
	*s.used = -1
	if l.Progress != "" {
		s.read = append(s.read, func() (int64, bool) { return readSmall(l.Progress, nil) })
	}
	if l.Pattern != nil && l.Watch == "" {
		s.read = append(s.read, c.output.iterations)
	}
	if l.Watch != "" {
		s.read = append(s.read, func() (int64, bool) { return readSmall(l.Watch, l.Pattern) })
	}
	return s
}

// look reads the first source that says something. One that comes before that which was read so far takes over, and
// counts from there.
func (s source) look() {
	for i, read := range s.read {
		if *s.used >= 0 && i > *s.used {
			return
		}
		n, said := read()
		if !said {
			continue
		}
		if *s.used > i {
			*s.count = counter{before: s.count.total() - n, last: n}
		}
		*s.used = i
		s.count.say(n)
		return
	}
}

// Files counts the iterations of a trainer that somebody else has started: those of a progress file, or where none is
// written those that the pattern finds in what is appended to other files, the first of them that says any. The
// function is for one goroutine.
func Files(progress string, watched []string, pattern *Pattern) func() int64 {
	s := source{count: &counter{}, used: new(int)}
	*s.used = -1
	if progress != "" {
		s.read = append(s.read, func() (int64, bool) { return readSmall(progress, nil) })
	}
	for _, path := range watched {
		if path != "" {
			s.read = append(s.read, follow(path, pattern).iterations)
		}
	}
	return s.total
}

// moved says that an iteration is done.
func (s source) moved() bool { return s.total() > 0 }

func (s source) total() int64 {
	s.look()
	return s.count.total()
}

// tail is as much of a file as is looked at.
const tail = 4096

// readSmall is the number of iterations at the end of a file.
func readSmall(path string, pattern *Pattern) (int64, bool) {
	text, err := end(path)
	if err != nil {
		return 0, false
	}
	if pattern == nil {
		return reported(lastLine(text))
	}
	return pattern.find(text)
}

// end is the last of a file.
func end(path string) (string, error) {
	file, info, err := openRegular(path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	if info.Size() > tail {
		if _, err := file.Seek(-tail, io.SeekEnd); err != nil {
			return "", err
		}
	}
	text, err := io.ReadAll(io.LimitReader(file, tail))
	return string(text), err
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}

// reader looks for iterations in what a trainer prints. Bars are redrawn with carriage returns, so these end lines,
// too.
type reader struct {
	pattern *Pattern

	mu    sync.Mutex
	line  []byte
	last  string // line that was not empty
	more  bool   // CUDA has told it that it has not so many GPUs
	count counter
}

// maxLine is what is looked at of a line.
const maxLine = 16 << 10

// Write takes output; it never fails, so that a trainer is never held up.
func (r *reader) Write(text []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := len(text)
	for len(text) > 0 {
		end := bytes.IndexAny(text, "\r\n")
		if end < 0 {
			r.add(text)
			break
		}
		r.add(text[:end])
		r.take()
		text = text[end+1:]
	}
	return n, nil
}

func (r *reader) add(text []byte) {
	r.line = append(r.line, text[:min(len(text), maxLine-len(r.line))]...)
}

func (r *reader) take() {
	line := string(r.line)
	r.line = r.line[:0]
	if strings.TrimSpace(line) != "" {
		r.last = line
	}
	r.more = r.more || strings.Contains(line, "invalid device ordinal")
	if r.pattern == nil {
		return
	}
	if n, found := r.pattern.find(line); found {
		r.count.say(n)
	}
}

// iterations are those that were printed. A bar ends its lines when it draws the next, so the line under way counts.
func (r *reader) iterations() (int64, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.count.total(), r.count.said
}

// wantsMore says that the trainer asked for a GPU that it does not have.
func (r *reader) wantsMore() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.more
}

// lastWords is the last line that was printed, for the end of a sentence.
func (r *reader) lastWords() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	last := r.last
	if line := strings.TrimSpace(string(r.line)); line != "" {
		last = line
	}
	if last == "" {
		return "; it printed nothing"
	}
	const most = 160
	last = strings.Map(func(c rune) rune {
		if !unicode.IsPrint(c) {
			return ' '
		}
		return c
	}, strings.ToValidUTF8(last, "?"))
	if len(last) > most {
		last = strings.ToValidUTF8(last[:most], "") + "…"
	}
	return fmt.Sprintf("; its last line: %s", strings.TrimSpace(last))
}

// Program is a command as it can be run: as it is, or a file of this folder, which may do without its x where it says
// by #! who reads it, as a batch script may.
func Program(command []string) ([]string, error) {
	if _, err := exec.LookPath(command[0]); err == nil {
		return command, nil
	}
	file := command[0]
	if !strings.Contains(file, "/") {
		file = "./" + file
	}
	if path, err := exec.LookPath(file); err == nil {
		return append([]string{path}, command[1:]...), nil
	}
	if reader := interpreter(file); reader != nil {
		return append(append(reader, file), command[1:]...), nil
	}
	_, err := exec.LookPath(command[0])
	return nil, fmt.Errorf("%s: want a program that can be run, as ./%s with chmod +x: %w", command[0],
		filepath.Base(command[0]), err)
}

// interpreter is what a script says that it is read by, with no more than one argument, as the kernel has it.
func interpreter(path string) []string {
	file, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer file.Close()
	const most = 256
	text, _ := io.ReadAll(io.LimitReader(file, most))
	line, whole := strings.CutPrefix(string(text), "#!")
	line, _, ended := strings.Cut(line, "\n")
	if !whole || !ended {
		return nil
	}
	words := strings.SplitN(strings.TrimSpace(line), " ", 2)
	if _, err := exec.LookPath(words[0]); err != nil {
		return nil
	}
	return words
}
