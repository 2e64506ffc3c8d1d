package guest

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"
	goplugin "github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"
)

// process is one life of a program.
type process struct {
	client  *goplugin.Client
	conn    *grpc.ClientConn
	command *exec.Cmd
	pid     int
	folder  string // of its socket

	gone   chan struct{} // closed when it shall end
	minder sync.WaitGroup
}

// launch starts a program and connects to it.
func launch(program Program, limit time.Duration, said *lines) (*process, error) {
	folder, err := os.MkdirTemp("", "synergy-plugin-") // for nobody but us
	if err != nil {
		return nil, err
	}
	command := exec.Command(program.Path)
	command.Dir = "/"
	command.Env = environment(folder)
	// Its own group, so that all that it starts can be ended with it; and the kernel ends it when we are gone, however that came about.
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	p := &process{folder: folder, command: command, gone: make(chan struct{}), client: goplugin.NewClient(&goplugin.ClientConfig{
		HandshakeConfig:  handshake(program.Kind),
		Plugins:          goplugin.PluginSet{string(program.Kind): connection{}},
		Cmd:              command,
		SkipHostEnv:      true,
		AllowedProtocols: []goplugin.Protocol{goplugin.ProtocolGRPC},
		StartTimeout:     limit,
		Logger:           hclog.NewNullLogger(),
		Stderr:           said,
		SyncStderr:       said,
		GRPCDialOptions: []grpc.DialOption{
			grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(MaxMessage), grpc.MaxCallSendMsgSize(MaxMessage)),
		},
	})}
	if err = p.mind(); err == nil {
		err = p.connect(program.Kind)
	}
	if err != nil {
		p.end()
		return nil, err
	}
	return p, nil
}

// environment is all that a program is told: where programs are, that text is UTF-8, that Python leaves nothing behind, and where its socket goes.
func environment(folder string) []string {
	return []string{
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C.UTF-8",
		"PYTHONDONTWRITEBYTECODE=1", // the folder that it lies in is not for it to write to
		goplugin.EnvUnixSocketDir + "=" + folder,
	}
}

// mind starts the process from a thread that lives as long as it does: the kernel takes the end of the thread that started a process
// for the end of its parent.
func (p *process) mind() error {
	started := make(chan error)
	p.minder.Go(func() {
		runtime.LockOSThread() // never unlocked: the thread ends with this goroutine
		_, err := p.client.Start()
		if p.command.Process != nil {
			p.pid = p.command.Process.Pid
		}
		if err != nil && p.pid > 0 {
			err = fmt.Errorf("its first line has to say where it listens, as 1|%d|unix|SOCKET|grpc: %w", Version, err)
		}
		started <- err
		<-p.gone
	})
	return <-started
}

func (p *process) connect(kind Kind) error {
	address, err := p.client.Start() // again: it says the same
	if err != nil {
		return err
	}
	if err := within(address, p.folder); err != nil {
		return err
	}
	protocol, err := p.client.Client()
	if err != nil {
		return err
	}
	dispensed, err := protocol.Dispense(string(kind))
	if err != nil {
		return err
	}
	conn, is := dispensed.(*grpc.ClientConn)
	if !is {
		return fmt.Errorf("it speaks no gRPC")
	}
	p.conn = conn
	return nil
}

// ending says how the process ended, if it has or is about to, and what it wrote.
func (p *process) ending(said *lines) string {
	for range 20 {
		if p.client.Exited() {
			return fmt.Sprintf("%s; %s", p.command.ProcessState, said.words())
		}
		time.Sleep(10 * time.Millisecond)
	}
	return said.words()
}

// end kills the process and all that it has started, and returns when nothing is left of them. It is not asked first: one that hangs
// would keep us waiting, and one that has something to save has no business here.
func (p *process) end() {
	if p.pid > 0 {
		_ = syscall.Kill(-p.pid, syscall.SIGKILL) // gone already: fine
	}
	p.client.Kill()
	close(p.gone)
	p.minder.Wait()
	_ = os.RemoveAll(p.folder)
}
