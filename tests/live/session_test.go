//go:build live

package live

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"sync"
)

// docker exec costs half a second of CPU time, and the live tests run thousands of commands. So one shell for each user
// stays in a container and runs the commands, one after the other.

// session is a shell in a container that runs one command after the other.
type session struct {
	in     io.WriteCloser
	out    *bufio.Reader
	docker *bytes.Buffer // what docker itself says
	end    func()
}

// sessions are those that nothing runs in, by project, role and user.
var sessions = struct {
	sync.Mutex
	idle map[[3]string][]*session
}{idle: map[[3]string][]*session{}}

// loop is the program of such a shell. It reads a line with the length of a command and of its input in bytes, then
// both, and answers "taken". When the command has ended, it writes a line with the exit status and the lengths of
// standard output and standard error, then both. Each command runs in a session of its own (setsid), so background
// processes that it leaves keep running, as after docker exec.
const loop = `f=$(mktemp -d) && trap 'rm -rf "$f"' EXIT && while read -r text input; do
	line=$(head -c "$text"); head -c "$input" > $f/in; echo taken
	(eval "exec setsid $line") < $f/in > $f/out 2> $f/err; rc=$?
	echo $rc $(stat -c %s $f/out $f/err); cat $f/out $f/err
done`

// errGone says that a session was over before it took a command.
var errGone = errors.New("the shell is gone")

func openSession(container, user string) (*session, error) {
	cmd := exec.Command("docker", "exec", "-i", "-u", user, container, "sh", "-c", loop)
	s := &session{docker: &bytes.Buffer{}}
	cmd.Stderr = s.docker
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	s.in, s.out = in, bufio.NewReader(out)
	s.end = sync.OnceFunc(func() {
		_ = in.Close()
		_ = cmd.Wait()
	})
	return s, nil
}

// quoted is a word for a shell.
func quoted(word string) string { return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'" }

// said is what a command wrote and how it ended.
type said struct {
	stdout, stderr string
	rc             int
}

// run runs a command with an input. The error is errGone as long as the shell has not taken it.
func (s *session) run(input string, argv []string) (o said, err error) {
	words := make([]string, len(argv))
	for k, word := range argv {
		words[k] = quoted(word)
	}
	line := strings.Join(words, " ")
	if _, err := fmt.Fprintf(s.in, "%d %d\n%s%s", len(line), len(input), line, input); err != nil {
		return o, errGone
	}
	if taken, err := s.out.ReadString('\n'); err != nil || taken != "taken\n" {
		return o, errGone
	}
	var out, errs int
	if _, err := fmt.Fscanf(s.out, "%d %d %d\n", &o.rc, &out, &errs); err != nil {
		return o, fmt.Errorf("its shell ended: %w", err)
	}
	text := make([]byte, out+errs)
	if _, err := io.ReadFull(s.out, text); err != nil {
		return o, fmt.Errorf("its shell ended: %w", err)
	}
	o.stdout, o.stderr = string(text[:out]), string(text[out:])
	return o, nil
}

// inContainer runs a command in the container of a role: in a shell that is there, or in a new one.
func (c *Cluster) inContainer(role, user, input string, argv []string) (said, error) {
	c.t.Helper()
	at := [3]string{c.project, role, user}
	for {
		sessions.Lock()
		idle := sessions.idle[at]
		var s *session
		if len(idle) > 0 {
			s, sessions.idle[at] = idle[len(idle)-1], idle[:len(idle)-1]
		}
		sessions.Unlock()
		fresh := s == nil
		if fresh {
			var err error
			if s, err = openSession(c.container(role), user); err != nil {
				return said{}, err
			}
		}
		o, err := s.run(input, argv)
		if err == nil {
			sessions.Lock()
			sessions.idle[at] = append(sessions.idle[at], s)
			sessions.Unlock()
			return o, nil
		}
		s.end()
		if fresh || !errors.Is(err, errGone) { // the container may have been started anew, or the shell killed
			return o, fmt.Errorf("%w: %s", err, s.docker)
		}
	}
}
