package guest

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// Check reports what is wrong with the program before it is started, so that an administrator learns of it at once.
func (p Program) Check() error {
	_, err := p.inspect()
	return err
}

// inspect checks that only root and we can have written the program, and that it has the configured checksum. It
// returns the path that it checked, with links resolved, which is the one to start.
func (p Program) inspect() (path string, err error) {
	if !filepath.IsAbs(p.Path) {
		return "", fmt.Errorf("plugin %q is not an absolute path", p.Path)
	}
	if p.SHA256 != "" {
		if digits, err := hex.DecodeString(p.SHA256); err != nil || len(digits) != sha256.Size {
			return "", fmt.Errorf("checksum %.80q of the plugin: want the 64 hexadecimal digits that sha256sum prints",
				p.SHA256)
		}
	}
	if path, err = filepath.EvalSymlinks(p.Path); err != nil {
		return "", err
	}
	if err := ours(p.Path, path); err != nil || p.SHA256 == "" {
		return path, err
	}
	sum, err := sha256Of(path)
	if err == nil && !strings.EqualFold(sum, p.SHA256) {
		err = fmt.Errorf("%s has the checksum %s, and %s was named", path, sum, strings.ToLower(p.SHA256))
	}
	return path, err
}

// ours checks that the program, and every folder and link on the path to it from the root, can be changed by root and
// us only: whoever could change one of them could do all that the daemon can. named is the configured path, and path
// the same with links resolved.
func ours(named, path string) error {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return err
	case !info.Mode().IsRegular() || info.Mode().Perm()&0o111 == 0:
		return fmt.Errorf("%s is no program that can be run: want an ordinary file, and chmod +x", path)
	}
	places, err := onTheWay(named)
	if err != nil {
		return err
	}
	for _, place := range places {
		if err := checkPlace(place); err != nil {
			return err
		}
	}
	return nil
}

// maxLinks is how many links may lead to a program, as in the kernel.
const maxLinks = 40

// onTheWay returns everything that is passed on an absolute path: each folder from the root on, each link and its
// target, and the file itself. After a link, .. is the parent of the link's target, so the path is not shortened by its
// text alone.
func onTheWay(path string) (places []string, err error) {
	at, rest, links := "/", steps(path), 0
	places = []string{at}
	for len(rest) > 0 {
		place := filepath.Join(at, rest[0])
		rest = rest[1:]
		places = append(places, place)
		info, err := os.Lstat(place)
		if err != nil {
			return nil, err
		}
		if info.Mode().Type() != os.ModeSymlink {
			at = place
			continue
		}
		target, err := os.Readlink(place)
		if links++; err != nil || links > maxLinks {
			return nil, errors.Join(fmt.Errorf("%s leads through too many links", path), err)
		}
		if filepath.IsAbs(target) {
			at = "/"
		}
		rest = append(steps(target), rest...)
	}
	return places, nil
}

// steps returns the names in a path, including "..".
func steps(path string) []string {
	return slices.DeleteFunc(strings.Split(path, "/"), func(name string) bool { return name == "" || name == "." })
}

// checkPlace returns an error if users other than root and we can change the file or folder. A folder with the sticky
// bit, such as /tmp, may be writable by all: others cannot rename or remove what is not theirs in it. The mode of a
// link means nothing; its owner counts.
func checkPlace(place string) error {
	info, err := os.Lstat(place)
	if err != nil {
		return err
	}
	owner, known := info.Sys().(*syscall.Stat_t)
	switch {
	case !known:
		return errors.New("this system does not say whose a file is")
	case info.Mode().Perm()&0o022 != 0 && info.Mode().Type() != os.ModeSymlink &&
		!(info.IsDir() && info.Mode()&os.ModeSticky != 0):
		return fmt.Errorf("%s can be changed by others: chmod go-w it", place)
	case owner.Uid != 0 && int(owner.Uid) != os.Geteuid():
		return fmt.Errorf("%s is neither root's nor ours", place)
	}
	return nil
}

func sha256Of(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, file); err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}
