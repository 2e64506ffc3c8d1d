package guest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"
	goplugin "github.com/hashicorp/go-plugin"
	"github.com/hashicorp/go-plugin/runner"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// process is one life of a program.
type process struct {
	child  *child
	client *goplugin.Client
	config *goplugin.ClientConfig
	conn   *grpc.ClientConn
	folder string    // of its socket
	due    time.Time // when it has to listen, and answer

	gone   chan struct{} // closed when it shall end
	minder sync.WaitGroup
}

// prepare is a process that has not been started. The path is the program's own, not that of a link to it.
func prepare(path string, kind Kind, said *lines) *process {
	command := exec.Command(path)
	command.Dir = "/"
	command.Env = environment()
	// Its own group, so that all that it starts can be ended with it; and the kernel ends it when we are gone, however
	// that came about.
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	p := &process{child: &child{command: command}, gone: make(chan struct{})}
	p.config = &goplugin.ClientConfig{
		HandshakeConfig:  handshake(kind),
		Plugins:          goplugin.PluginSet{string(kind): connection{}},
		RunnerFunc:       p.runner,
		SkipHostEnv:      true,
		AllowedProtocols: []goplugin.Protocol{goplugin.ProtocolGRPC},
		Logger:           hclog.NewNullLogger(),
		Stderr:           said,
		SyncStderr:       said,
	}
	return p
}

// runner lets go-plugin have the process, and learns from it where the socket goes.
func (p *process) runner(_ hclog.Logger, spec *exec.Cmd, folder string) (runner.Runner, error) {
	p.folder = folder
	p.child.command.Env = append(p.child.command.Env, spec.Env...)
	return lair{p.child, folder}, nil
}

// environment is what a program is told beside the handshake: where programs are, that text is UTF-8, and that Python
// leaves nothing behind in the folder that it lies in.
func environment() []string {
	return []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C.UTF-8",
		"PYTHONDONTWRITEBYTECODE=1"}
}

// launch starts the program and connects to it.
func (p *process) launch(kind Kind) error {
	p.due, p.config.StartTimeout = time.Now().Add(startLimit), startLimit
	p.client = goplugin.NewClient(p.config)
	err := p.mind()
	if err == nil {
		err = p.connect(kind)
	}
	if err != nil {
		p.end()
	}
	return err
}

// mind starts the process from a thread that lives as long as it does: the kernel takes the end of the thread that
// started a process for the end of its parent.
func (p *process) mind() error {
	started := make(chan error)
	p.minder.Go(func() {
		runtime.LockOSThread() // never unlocked: the thread ends with this goroutine
		_, err := p.client.Start()
		if err != nil && p.child.ID() != "" {
			err = fmt.Errorf("its first line has to say where it listens, as 1|%d|unix|SOCKET|grpc: %w", Version, err)
		}
		started <- err
		<-p.gone
	})
	return <-started
}

func (p *process) connect(kind Kind) error {
	p.config.GRPCDialOptions = dialing(max(time.Until(p.due), time.Millisecond))
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
		return errors.New("it speaks no gRPC")
	}
	p.conn = conn
	return nil
}

// dialing is how a program is called, for so long at first. What go-plugin says to it by itself is small, and what it
// has for plugins that call back is closed: nobody of ours does.
func dialing(patience time.Duration) []grpc.DialOption {
	return []grpc.DialOption{
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(MaxMessage), grpc.MaxCallSendMsgSize(MaxMessage)),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff: backoff.Config{BaseDelay: patience, MaxDelay: patience}, MinConnectTimeout: patience,
		}),
		grpc.WithChainStreamInterceptor(confined),
	}
}

// confined is for the streams, which are go-plugin's own: ours are single calls.
func confined(ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, streamer grpc.Streamer,
	opts ...grpc.CallOption) (grpc.ClientStream, error) {
	if strings.HasPrefix(method, "/plugin.GRPCBroker/") {
		return nil, status.Error(codes.Unimplemented, "no calls back")
	}
	const small = 1 << 20
	return streamer(ctx, desc, conn, method, append(opts, grpc.MaxCallRecvMsgSize(small))...)
}

// ending says how the process ended, if it has or is about to, and what it wrote.
func (p *process) ending(said *lines) string {
	for range 20 {
		if p.client.Exited() {
			return fmt.Sprintf("%s; %s", p.child.command.ProcessState, said.words())
		}
		time.Sleep(10 * time.Millisecond)
	}
	return said.words()
}

// end kills the process and its group, and returns when it is gone. It is not asked first: one that hangs would keep us
// waiting, and one that has something to save has no business here.
func (p *process) end() {
	_ = p.child.Kill(context.Background())
	p.client.Kill()
	close(p.gone)
	p.minder.Wait()
	if p.folder != "" {
		_ = os.RemoveAll(p.folder)
	}
}
