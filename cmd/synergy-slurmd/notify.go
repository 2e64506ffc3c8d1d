package main

import (
	"context"
	"fmt"
	"time"

	sd "github.com/coreos/go-systemd/v22/daemon"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
)

// serviceManager is the service manager that started the daemon, or none. It is told of each change of the daemon's
// state. If it does not listen, nothing is lost that the log does not have.
type serviceManager struct {
	watchdog time.Duration // the longest silence that it allows; 0: any
}

// newServiceManager reads the watchdog interval that systemd put into the environment.
func newServiceManager() (serviceManager, error) {
	watchdog, err := sd.SdWatchdogEnabled(false)
	if err != nil {
		return serviceManager{}, fmt.Errorf("read watchdog interval: %w", err)
	}
	return serviceManager{watchdog: watchdog}, nil
}

func (m serviceManager) say(state string) { sd.SdNotify(false, state) }

func (m serviceManager) ready()    { m.say(sd.SdNotifyReady) }
func (m serviceManager) stopping() { m.say(sd.SdNotifyStopping) }

// reloading sends the time, too, by which systemd tells this reload from an earlier one.
func (m serviceManager) reloading() { m.say(sd.SdNotifyReloading + "\n" + sd.SdNotifyMonotonicUsec()) }

// status sets the line that systemctl status shows.
func (m serviceManager) status(report bridge.Report, err error) {
	if err != nil {
		m.say(fmt.Sprintf("STATUS=%s: the last round failed: %s", time.Now().Format(time.TimeOnly),
			oneLine(err.Error())))
		return
	}
	c := count(report)
	m.say(fmt.Sprintf("STATUS=%s: round %d: %d jobs run, %d wait", time.Now().Format(time.TimeOnly), report.Round,
		c.granted, c.waiting))
}

// standBy sets that line for a daemon that stands by.
func (m serviceManager) standBy(line string) {
	m.say(fmt.Sprintf("STATUS=%s: %s", time.Now().Format(time.TimeOnly), line))
}

// feed feeds the watchdog as long as alive says so, until ctx ends. It does so twice in each interval.
func (m serviceManager) feed(ctx context.Context, alive func() bool) {
	if m.watchdog == 0 {
		return
	}
	ticker := time.NewTicker(m.watchdog / 2)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			if alive() {
				m.say(sd.SdNotifyWatchdog)
			}
		}
	}
}
