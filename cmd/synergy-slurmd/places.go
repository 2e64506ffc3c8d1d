package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"

	"github.com/synergy-slurmd/synergy-slurmd/preflight"
	"github.com/synergy-slurmd/synergy-slurmd/spelling"
)

// placesOf are all files and folders of a configuration that the daemon writes to.
func placesOf(f flags, config Config) (places []preflight.Place) {
	for _, file := range []struct{ name, path string }{
		{"ledger", f.ledger}, {"socket", f.socket}, {"heartbeat", config.Heartbeat},
		{"profiles_file", config.ProfilesFile},
	} {
		if file.path != "" {
			places = append(places, placeOf(file.name, file.path, f.user))
		}
	}
	for _, folder := range []struct{ name, path string }{
		{"learned", config.Learned}, {"savings", config.Savings}, {"history.path", config.History.Path},
	} {
		if folder.path != "" {
			places = append(places, folderFor(folder.name, folder.path, f.user))
		}
	}
	return places
}

// madeByUnit are the folders that synergy-slurmd.service makes when it starts the daemon.
var madeByUnit = map[string]bool{"/run/synergy": true, "/var/lib/synergy": true}

// placeOf says whether this process can write a file. daemons is the daemon's user.
func placeOf(name, path, daemons string) preflight.Place {
	place := folderAt(name, filepath.Dir(path), daemons)
	if info, err := os.Stat(path); place.Why == "" && err == nil && info.IsDir() {
		place.Why = path + " is a folder, and no file"
	}
	return place
}

// folderFor says whether this process can write to a folder, or make it if it is missing. The daemon would also make
// missing folders above it, but these are reported, since they are more likely a mistyped path.
func folderFor(name, path, daemons string) preflight.Place {
	path = filepath.Clean(path) // of /srv/savings/ the folder above would be that folder itself
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) || madeByUnit[path] {
		return folderAt(name, path, daemons)
	}
	above := folderAt(name, filepath.Dir(path), daemons)
	above.Path = path
	return above
}

// writable is W_OK of access(2).
const writable = 0x2

// folderAt says whether this process, or the daemon's user if this is root, can make files in a folder.
func folderAt(name, dir, daemons string) preflight.Place {
	place := preflight.Place{Name: name, Path: dir, Made: madeByUnit[dir]}
	info, err := os.Stat(dir)
	switch {
	case err != nil:
		place.Why, place.Near = err.Error(), nearestPath(dir)
	case !info.IsDir():
		place.Why, place.Made = dir+" is no folder", false
	case syscall.Access(dir, writable) != nil:
		place.Why, place.Made = dir+" cannot be written to by whoever asks: run this as the daemon's user", false
	// root may write anywhere, which says nothing of the daemon.
	case os.Geteuid() == 0 && !mayWrite(daemons, dir):
		place.Root = daemons
	}
	return place
}

// nearestPath suggests an existing folder that was probably meant: the first part of the path that does not exist is
// spelled similarly. It returns "" if there is none.
func nearestPath(dir string) string {
	above, name := filepath.Dir(dir), filepath.Base(dir)
	if above == dir {
		return ""
	}
	if _, err := os.Stat(above); err != nil {
		if above = nearestPath(above); above == "" {
			return ""
		}
		if info, err := os.Stat(filepath.Join(above, name)); err == nil && info.IsDir() {
			return filepath.Join(above, name)
		}
	}
	entries, err := os.ReadDir(above)
	if err != nil {
		return ""
	}
	var folders []string
	for _, entry := range entries {
		if entry.IsDir() {
			folders = append(folders, entry.Name())
		}
	}
	if near := spelling.Nearest(name, folders); near != "" {
		return filepath.Join(above, near)
	}
	return ""
}

// mayWrite reports whether a user can make files in a folder, by its permissions and those of the folders above it. It
// is true for root and for a user that this host does not know.
func mayWrite(name, dir string) bool {
	who, err := user.Lookup(name)
	if err != nil || who.Uid == "0" {
		return true
	}
	groups, err := who.GroupIds()
	if err != nil {
		return true
	}
	const search, write = 0o1, 0o2
	for at, want := dir, fs.FileMode(search|write); ; at, want = filepath.Dir(at), search {
		info, err := os.Stat(at)
		if err != nil {
			return false
		}
		if granted(info, who.Uid, groups)&want != want {
			return false
		}
		if at == filepath.Dir(at) {
			return true
		}
	}
}

// granted are the permissions that a user has, as the last three bits. As in the kernel only the first class that fits
// counts, be it the one with the fewest permissions.
func granted(info fs.FileInfo, uid string, groups []string) fs.FileMode {
	mode, owner := info.Mode().Perm(), info.Sys().(*syscall.Stat_t)
	switch {
	case strconv.Itoa(int(owner.Uid)) == uid:
		return mode >> 6 & 7
	case slices.Contains(groups, fmt.Sprint(owner.Gid)):
		return mode >> 3 & 7
	}
	return mode & 7
}
