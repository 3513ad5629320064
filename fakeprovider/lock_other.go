//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd || windows)

package fakeprovider

import (
	"errors"
	"io"
)

func lockFile(string) (io.Closer, error) {
	return nil, errors.New("ledger files need a file lock, which this system does not offer")
}

func syncDir(string) error { return nil }
