package guest

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// Check says what is wrong with the program before anything is started, so that an administrator hears of it at once.
func (p Program) Check() error {
	_, err := p.inspect()
	return err
}

// inspect proves that nobody but root and ourselves can have written the program, and that it is the one whose checksum was named. It
// returns the path that was looked at, which is the one to start.
func (p Program) inspect() (path string, err error) {
	if !filepath.IsAbs(p.Path) {
		return "", fmt.Errorf("plugin %q is not an absolute path", p.Path)
	}
	if p.SHA256 != "" {
		if digits, err := hex.DecodeString(p.SHA256); err != nil || len(digits) != sha256.Size {
			return "", fmt.Errorf("checksum %.80q of the plugin: want the 64 hexadecimal digits that sha256sum prints", p.SHA256)
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

// ours says that a program, the folder that it lies in, and that of the link by which it was named, can be changed by root and ourselves
// alone: whoever could change them could do all that the daemon can.
func ours(named, path string) error {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return err
	case !info.Mode().IsRegular() || info.Mode().Perm()&0o111 == 0:
		return fmt.Errorf("%s is no program that can be run: want an ordinary file, and chmod +x", path)
	}
	for _, place := range []string{path, filepath.Dir(path), filepath.Dir(named)} {
		if err := safe(place); err != nil {
			return err
		}
	}
	return nil
}

func safe(place string) error {
	info, err := os.Stat(place)
	if err != nil {
		return err
	}
	owner, known := info.Sys().(*syscall.Stat_t)
	switch {
	case !known:
		return errors.New("this system does not say whose a file is")
	case info.Mode().Perm()&0o022 != 0 && !(info.IsDir() && info.Mode()&os.ModeSticky != 0):
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
