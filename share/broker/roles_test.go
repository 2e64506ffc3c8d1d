package broker_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/share/broker"
	"github.com/synergy-slurmd/synergy-slurmd/share/wire"
)

// What this program does when a test starts it again. Each says on its standard output where it is.

func must(err error) {
	if err != nil {
		fmt.Println("error", err)
		os.Exit(1)
	}
}

// playStepd starts the job's process as the job's user, and waits for it.
func playStepd() {
	uid, err := strconv.Atoi(os.Getenv("BROKER_TEST_UID"))
	must(err)
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Env = append(os.Environ(), role+"="+os.Getenv("BROKER_TEST_CHILD"))
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if uid != os.Getuid() {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}}
	}
	must(cmd.Start())
	fmt.Println("started", cmd.Process.Pid)
	_ = cmd.Wait()
}

// line is a connection of a job's process.
type line struct {
	conn net.Conn
	from *wire.Reader
	seq  uint64
}

func connect(path string) (*line, error) {
	conn, err := net.Dial("unix", path)
	if err != nil {
		return nil, err
	}
	l := &line{conn: conn, from: wire.NewReader(conn)}
	err = l.say(wire.Message{Type: wire.Hello, PID: os.Getpid()})
	if err == nil {
		var m wire.Message
		m, err = l.from.Next()
		if err == nil && m.Type != wire.Welcome {
			err = fmt.Errorf("refused %s: %s", m.Code, m.Text)
		}
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	return l, nil
}

func (l *line) say(m wire.Message) error {
	text, err := wire.Encode(m)
	if err == nil {
		_, err = l.conn.Write(text)
	}
	return err
}

// turn asks, and waits for the GPU.
func (l *line) turn() error {
	l.seq++
	if err := l.say(wire.Message{Type: wire.Ask, Seq: l.seq}); err != nil {
		return err
	}
	for {
		m, err := l.from.Next()
		if err != nil || m.Type == wire.Grant && m.Seq == l.seq {
			return err
		}
	}
}

// playHolder takes the GPU and keeps it.
func playHolder() {
	l, err := connect(os.Args[1])
	must(err)
	fmt.Println("joined")
	must(l.turn())
	fmt.Println("holds")
	stay()
}

// playInherited is a holder with a child that has its connection, and would keep it open.
func playInherited() {
	l, err := connect(os.Args[1])
	must(err)
	must(l.turn())
	file, err := l.conn.(*net.UnixConn).File()
	must(err)
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), role+"=sit")
	cmd.ExtraFiles = []*os.File{file}
	must(cmd.Start())
	fmt.Println("holds")
	fmt.Println(cmd.Process.Pid)
	stay()
}

// stay waits to be killed. Without cgo Go ends a process all of whose goroutines wait for ever.
func stay() { time.Sleep(time.Hour) }

func playSitter() { time.Sleep(time.Minute) }

// playCycler takes turns for ever, and runs on where there is no broker.
func playCycler() {
	var l *line
	for {
		if l == nil {
			l, _ = connect(os.Args[1])
		}
		if l != nil && l.turn() != nil {
			l.conn.Close()
			l = nil
		}
		time.Sleep(2 * time.Millisecond) // the step
		fmt.Println("step", l != nil)
		switch {
		case l == nil:
			time.Sleep(20 * time.Millisecond)
		case l.say(wire.Message{Type: wire.Release, Seq: l.seq}) != nil:
			l.conn.Close()
			l = nil
		default:
			time.Sleep(2 * time.Millisecond)
		}
	}
}

// playIgnorer holds the GPU whatever it is told, and says that it lives.
func playIgnorer() {
	l, err := connect(os.Args[1])
	must(err)
	must(l.turn())
	fmt.Println("holds")
	for {
		time.Sleep(5 * time.Millisecond)
		fmt.Println("tick")
	}
}

// playTicker knows of no broker, and says that it lives.
func playTicker() {
	for {
		fmt.Println("tick")
		time.Sleep(5 * time.Millisecond)
	}
}

// playBroker is a broker in the folder that it is given, until it is killed or terminated.
func playBroker() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	c := config(os.Args[1])
	c.Ready = func() { fmt.Println("ready") }
	must(broker.New(c).Serve(ctx))
}

// playForger says that it is of job 7, and is a holder then.
func playForger() {
	must(os.Setenv("SLURM_JOB_ID", "7"))
	must(os.Setenv(role, "hold"))
	must(syscall.Exec("/proc/self/exe", os.Args, os.Environ()))
}

// playSlow takes turns, ends none before it was stopped for it, and says that it was short.
func playSlow() {
	thawed := make(chan os.Signal, 1)
	signal.Notify(thawed, syscall.SIGCONT)
	l, err := connect(os.Args[1])
	must(err)
	for {
		must(l.turn())
		fmt.Println("holds")
		<-thawed
		must(l.say(wire.Message{Type: wire.Release, Seq: l.seq, Used: 1000}))
	}
}
