// Package local runs a trainer on this machine with some of the CPUs that it may use, by affinity: no Slurm, no root,
// no container. The affinity is set on the thread that starts the trainer, so later loaders inherit it. A trainer that
// reports how many workers its loader has is started once and adapts; any other is started anew for each size. Memory
// cannot be limited; the trainer is told the size, as by Slurm's environment.
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
	CPUs    []int // CPUs that it may be given, in this order
	// Virtual is a number of cores to use in place of CPUs; 0: CPUs counts. The trainer is told its share of them and
	// is bound to none, for a rehearsal with a trainer that only sleeps.
	Virtual int
	// Progress, Pattern and Watch say where iterations come from; the first of these that has any counts: a progress
	// file, a pattern in the output, or a file that the trainer writes, in which Pattern is searched or which begins
	// with the number.
	Progress string
	Pattern  *Pattern
	Watch    string
	Log      string        // file to which the trainer's output is appended; empty: none
	Patience time.Duration // longest wait for the first progress, and from one to the next
	Grace    time.Duration // from SIGTERM to SIGKILL
	Asks     Request       // how Save asks the trainer to save
	// Confine lets a process and its descendants use only these CPUs, so that a trainer that adapts to its cores is not
	// restarted for each trial; nil: it is restarted.
	Confine func(process int, cpus []int) error
	// Look returns the present GPU use of these processes; nil, or false: it cannot be seen.
	Look func(processes []int) (profiler.Use, bool)

	running *child
}

// child is a trainer that runs.
type child struct {
	command *exec.Cmd
	ended   chan struct{} // closed when it has ended
	failed  error         // set then: how it ended
	output  *reader
	source  source
	begun   time.Time
	trial   profiler.Trial // whose cores and memory it has
	log     *os.File
}

// tick is how often progress is read.
const tick = 50 * time.Millisecond

// Run runs a trial. The trainer goes on if the trial prolongs the one before or the trainer adapts to another size
// (resize), and is started anew otherwise. fault leaves nil as it is.
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
	if l.running == nil {
		return m, errors.New("no trainer runs that could go on")
	}
	var u useSampler
	windows, err := l.watch(ctx, t.For, &u)
	m.Windows, m.Use = windows, l.measuredUse(&u)
	return m, l.fault(err, fmt.Sprintf("after %.0f s and %.0f iterations, before the %.0f s that were to be measured",
		time.Since(l.running.begun).Seconds(), float64(l.running.source.total()), t.For.Seconds()))
}

// restart starts the trainer with the trial's size, and returns the time until its first iteration.
func (l *Trainer) restart(ctx context.Context, t profiler.Trial) (time.Duration, error) {
	if err := l.Close(); err != nil {
		return 0, err
	}
	if err := l.start(t); err != nil {
		return 0, err
	}
	if err := l.until(ctx, l.Patience, func() bool { return l.running.source.moved() }); err != nil {
		return 0, l.fault(err, "before its first iteration")
	}
	return time.Since(l.running.begun), l.otherGPUs(ctx)
}

// start starts the trainer with the trial's size.
func (l *Trainer) start(t profiler.Trial) error {
	if most := max(l.Virtual, len(l.CPUs)); t.Cores > most {
		return fmt.Errorf("%d cores: this process may use %d", t.Cores, most)
	}
	for _, file := range []string{l.Progress, l.Watch} { // an earlier run's progress does not count
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
	// A process group of its own is not hit by the terminal's ^C, which is for us, and can be ended as a whole. If we
	// are killed, no trainer stays on the GPU: the thread that starts it lives as long as we do.
	c.command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	c.command.WaitDelay = time.Second // for processes that it left behind with its output open
	if err := l.launch(c.command, t.Cores); err != nil {
		c.close()
		return &profiling.Fault{Why: fmt.Sprintf("the trainer does not start: %v", err)}
	}
	c.source = l.source(c)
	l.running = c
	go func() {
		c.failed = c.command.Wait()
		close(c.ended)
	}()
	return nil
}

// launch starts the command on its CPUs; with Virtual cores it is bound to none.
func (l *Trainer) launch(command *exec.Cmd, cores int) error {
	if l.Virtual > 0 {
		return command.Start()
	}
	return startOn(l.CPUs[:cores], command)
}

// environment returns our environment plus the trainer's size, as Slurm and the daemon's nodes would set it. Python
// must not buffer its output, since progress is read from it.
func (l *Trainer) environment(t profiler.Trial) []string {
	gpus := max(1, l.GPUs)
	env := append(os.Environ(), "PYTHONUNBUFFERED=1", "SYNERGY_PROGRESS="+l.Progress,
		fmt.Sprintf("SYNERGY_CPUS=%d", t.Cores), fmt.Sprintf("SYNERGY_GPUS=%d", gpus),
		fmt.Sprintf("OMP_NUM_THREADS=%d", max(1, t.Cores/gpus)),
		fmt.Sprintf("SLURM_CPUS_ON_NODE=%d", t.Cores), fmt.Sprintf("SLURM_CPUS_PER_TASK=%d", t.Cores))
	if t.Memory > 0 {
		env = append(env, fmt.Sprintf("SYNERGY_MEMORY_MB=%d", t.Memory))
	}
	// Tasks of srun are not our children and do not inherit the CPUs; this variable tells srun how many.
	if os.Getenv("SLURM_JOB_ID") != "" {
		env = append(env, fmt.Sprintf("SRUN_CPUS_PER_TASK=%d", t.Cores))
	}
	return env
}

// Why a wait ended.
var (
	errEnded  = errors.New("ended")
	errSilent = errors.New("silent")
)

// until waits for a condition, at most for patience. If the trainer ends, the condition is asked once more, since it
// may have been met at the end.
func (l *Trainer) until(ctx context.Context, patience time.Duration, is func() bool) error {
	deadline := time.Now().Add(patience)
	for !is() {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-l.running.ended:
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

// watch measures for the given length. A window ends with the progress that ends it, so that it holds whole iterations.
func (l *Trainer) watch(
	ctx context.Context,
	length time.Duration,
	u *useSampler,
) (windows []profiler.Window, err error) {
	since, done := time.Now(), l.running.source.total()
	for end := since.Add(length); time.Now().Before(end); {
		err := l.until(ctx, l.Patience, func() bool {
			l.sampleUse(u)
			return l.running.source.total() > done || time.Now().After(end)
		})
		if err != nil {
			return windows, err
		}
		l.readReport(u)
		now, total := time.Now(), l.running.source.total()
		windows = append(windows, profiler.Window{Seconds: now.Sub(since).Seconds(), Iterations: float64(total - done)})
		since, done = now, total
	}
	return windows, nil
}

// fault turns the reason why a wait ended into a sentence. An end with success may be enough for the trial (Done).
// exec.ErrWaitDelay means only that a process which the trainer left behind holds its output open. Other errors stay as
// they are.
func (l *Trainer) fault(err error, when string) error {
	switch {
	case errors.Is(err, errEnded):
		<-l.running.ended
		fault := &profiling.Fault{Why: "the trainer ended by itself", Done: true}
		if failed := l.running.failed; failed != nil && !errors.Is(failed, exec.ErrWaitDelay) {
			fault = &profiling.Fault{Why: fmt.Sprintf("the trainer crashed (%v)", failed)}
		}
		fault.Why += " " + when + l.running.output.lastWords()
		if l.running.output.wantsMore() {
			fault.Why += fmt.Sprintf("; it wants more GPUs than the %d of --gpus", max(1, l.GPUs))
		}
		return fault
	case errors.Is(err, errSilent):
		return &profiling.Fault{
			Why: fmt.Sprintf("the trainer made no progress for %s that is seen in %s%s", l.Patience, l.sources(),
				l.running.output.lastWords()),
		}
	}
	return err
}

// sources returns the places where progress is searched, for people.
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
	c := l.running
	if c == nil {
		return nil
	}
	l.running = nil
	group := -c.command.Process.Pid
	_ = syscall.Kill(group, syscall.SIGTERM)
	select {
	case <-c.ended:
	case <-time.After(l.Grace):
	}
	_ = syscall.Kill(group, syscall.SIGKILL) // loaders sometimes outlive their trainer
	<-c.ended
	return c.close()
}

func (c *child) close() error {
	if c.log == nil {
		return nil
	}
	return c.log.Close()
}

// source reads progress from several places.
type source struct {
	read  []func() (int64, bool) // in order of precedence
	count *counter
	used  *int // index in read of the one in use; -1: none yet
}

// source returns the places where progress of c is searched: the progress file, the output, and the watched file.
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

// look reads the first place that has a number. If one of higher precedence than before has one, it takes over and the
// count goes on from there.
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

// Files returns a function that counts the iterations of a trainer that another process has started: from a progress
// file, or if there is none from what is appended to other files; the first of them with a number counts. The function
// is for one goroutine.
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

// moved reports whether an iteration is done.
func (s source) moved() bool { return s.total() > 0 }

// total reads the present progress and returns the iterations of all epochs.
func (s source) total() int64 {
	s.look()
	return s.count.total()
}

// tail is how much of a file's end is read, bytes.
const tail = 4096

// readSmall returns the number of iterations at the end of a file. Without a pattern the last line must be a report.
func readSmall(path string, pattern *Pattern) (int64, bool) {
	text, err := fileTail(path)
	if err != nil {
		return 0, false
	}
	if pattern == nil {
		return reported(lastLine(text))
	}
	return pattern.find(text)
}

// fileTail returns the end of a file.
func fileTail(path string) (string, error) {
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

// reader finds iterations in what a trainer prints. Progress bars are redrawn with carriage returns, so these end
// lines, too.
type reader struct {
	pattern *Pattern

	mu    sync.Mutex
	line  []byte
	last  string // last line that was not empty
	more  bool   // CUDA has reported that there are fewer GPUs than it asked for
	count counter
}

// maxLine is how much of a line is kept, bytes.
const maxLine = 16 << 10

// Write takes output. It never fails, so that it never stops a trainer.
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

// add appends to the line under way, up to maxLine.
func (r *reader) add(text []byte) {
	r.line = append(r.line, text[:min(len(text), maxLine-len(r.line))]...)
}

// take handles a complete line.
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

// iterations returns how many were printed. A progress bar ends a line only when it draws the next, so at most one
// update is missing.
func (r *reader) iterations() (int64, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.count.total(), r.count.said
}

// wantsMore reports whether the trainer asked for a GPU that it does not have.
func (r *reader) wantsMore() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.more
}

// lastWords returns the last line that was printed, for the end of a sentence.
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

// Program returns a command that can be run: the command itself, or a file in the current folder. A file that is not
// executable is run with the interpreter of its #! line, as a batch script is.
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

// interpreter returns the interpreter of a script with at most one argument, as the kernel reads it; nil: none.
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
