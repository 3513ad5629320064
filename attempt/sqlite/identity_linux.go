package sqlite

import (
	"errors"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// identity tells which file a file is.
type identity struct{ device, inode uint64 }

func (i identity) same(other identity) bool { return i == other }

// identify looks which file stands under a name. It does not ask for times, as os.Stat does: since Linux 6.13 a file whose
// times were asked for has its inode written anew with its next sync, and that made a commit a fifth slower
// (https://docs.kernel.org/filesystems/multigrain-ts.html).
func identify(name string) (identity, error) {
	var st unix.Statx_t
	err := unix.Statx(unix.AT_FDCWD, name, 0, unix.STATX_INO, &st)
	for errors.Is(err, unix.EINTR) {
		err = unix.Statx(unix.AT_FDCWD, name, 0, unix.STATX_INO, &st)
	}
	switch {
	case err == nil:
		return identity{device: unix.Mkdev(st.Dev_major, st.Dev_minor), inode: st.Ino}, nil
	case errors.Is(err, unix.ENOSYS), errors.Is(err, unix.EPERM): // an old kernel, or a sandbox that knows old ones only
		return identifyByStat(name)
	}
	return identity{}, &fs.PathError{Op: "statx", Path: name, Err: err}
}

func identifyByStat(name string) (identity, error) {
	info, err := os.Stat(name)
	if err != nil {
		return identity{}, err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return identity{}, &fs.PathError{Op: "stat", Path: name, Err: errors.ErrUnsupported}
	}
	return identity{device: uint64(st.Dev), inode: st.Ino}, nil //nolint:unconvert // not on every architecture
}
