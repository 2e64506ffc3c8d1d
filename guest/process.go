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

// process is one run of a program.
type process struct {
	child  *child
	client *goplugin.Client
	config *goplugin.ClientConfig
	conn   *grpc.ClientConn
	folder string    // of its socket
	due    time.Time // by when it must listen and answer

	gone   chan struct{}  // closed when the program is to end
	minder sync.WaitGroup // the goroutine whose thread has started it
}

// prepare returns a process that has not been started. path must be the program's own, not a link to it.
func prepare(path string, kind Kind, said *lines) *process {
	command := exec.Command(path)
	command.Dir = "/"
	command.Env = environment()
	// The plugin gets a process group, so that everything that it starts can be ended with it. The kernel kills it when
	// this process ends, however that happens.
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

// runner gives go-plugin the process, and learns the folder of the socket.
func (p *process) runner(_ hclog.Logger, spec *exec.Cmd, folder string) (runner.Runner, error) {
	p.folder = folder
	p.child.command.Env = append(p.child.command.Env, spec.Env...)
	return socketRunner{p.child, folder}, nil
}

// environment returns what a program gets besides the handshake: a PATH, UTF-8 text, and no compiled Python files in
// its own folder.
func environment() []string {
	return []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C.UTF-8",
		"PYTHONDONTWRITEBYTECODE=1"}
}

// launch starts the program and connects to it.
func (p *process) launch(kind Kind) error {
	p.due, p.config.StartTimeout = time.Now().Add(startLimit), startLimit
	p.client = goplugin.NewClient(p.config)
	err := p.startOnThread()
	if err == nil {
		err = p.connect(kind)
	}
	if err != nil {
		p.end()
	}
	return err
}

// startOnThread starts the process from a thread that lives as long as the process, because the kernel treats the end
// of the starting thread as the end of the parent.
func (p *process) startOnThread() error {
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

// connect connects to the program that has been started.
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

// dialing returns the options for connecting, with the time allowed for the first connection. Streams, which only
// go-plugin itself uses, go through confined.
func dialing(patience time.Duration) []grpc.DialOption {
	return []grpc.DialOption{
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(MaxMessage), grpc.MaxCallSendMsgSize(MaxMessage)),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff: backoff.Config{BaseDelay: patience, MaxDelay: patience}, MinConnectTimeout: patience,
		}),
		grpc.WithChainStreamInterceptor(limitStreams),
	}
}

// limitStreams limits streams, which are go-plugin's own; our calls are unary. Its messages are small, so a program
// that sends a large one is at fault. Its channel for plugins that call the host is closed, since none of ours does.
func limitStreams(
	ctx context.Context,
	desc *grpc.StreamDesc,
	conn *grpc.ClientConn,
	method string,
	streamer grpc.Streamer,
	opts ...grpc.CallOption,
) (grpc.ClientStream, error) {
	if strings.HasPrefix(method, "/plugin.GRPCBroker/") {
		return nil, status.Error(codes.Unimplemented, "no calls back")
	}
	const small = 1 << 20
	return streamer(ctx, desc, conn, method, append(opts, grpc.MaxCallRecvMsgSize(small))...)
}

// ending says how the process ended, if it has or does within a moment, and what it wrote. The connection may break
// before the process is reaped, hence the moment.
func (p *process) ending(said *lines) string {
	for range 20 {
		if p.client.Exited() {
			return fmt.Sprintf("%s; %s", p.child.command.ProcessState, said.words())
		}
		time.Sleep(10 * time.Millisecond)
	}
	return said.words()
}

// end kills the process and its group, and returns when it is gone. The program is not asked first: one that hangs
// would make us wait, and a guest must have nothing to save.
func (p *process) end() {
	_ = p.child.Kill(context.Background())
	p.client.Kill()
	close(p.gone)
	p.minder.Wait()
	if p.folder != "" {
		_ = os.RemoveAll(p.folder)
	}
}
