package mps

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/synergy-slurmd/synergy-slurmd/share/node"
)

// clientsPath is where a manager notes which jobs of a GPU began as clients of its daemon, for the one that comes after
// it. It lies in root's folder, and not in the daemon's own, in which the user may write.
func (m *Manager) clientsPath(gpu int) string {
	return filepath.Join(m.Dir, fmt.Sprintf("clients-%d.json", gpu))
}

// recall reads the note of the manager before, once. Of jobs of which nothing is noted, or cannot be read, it is
// thought that they began without: they take turns, which is slower and never wrong.
func (m *Manager) recall(g *gpu, gpu int) error {
	if g.recalled {
		return nil
	}
	g.recalled = true
	path := m.clientsPath(gpu)
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = json.Unmarshal(text, &g.clients)
	}
	if err != nil {
		err = fmt.Errorf("read which jobs are clients of MPS: %s: %w: they take turns", path, err)
		g.clients = nil
	}
	if len(g.clients) == 0 {
		err = errors.Join(err, os.Remove(path))
	}
	return err
}

// keep notes which jobs are clients.
func (m *Manager) keep(g *gpu, gpu int, clients []node.Run) error {
	if slices.Equal(g.clients, clients) {
		return nil
	}
	g.clients = slices.Clone(clients)
	path := m.clientsPath(gpu)
	if len(clients) == 0 {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	text, err := json.Marshal(clients)
	if err != nil {
		return err
	}
	// a new file beside it and a rename: what is half written would cost all of them their clients
	if err := errors.Join(os.WriteFile(path+".new", text, 0o600), os.Rename(path+".new", path)); err != nil {
		g.clients = nil
		return fmt.Errorf("note which jobs are clients of MPS: %w", err)
	}
	return nil
}
