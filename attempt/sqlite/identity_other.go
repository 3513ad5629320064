//go:build !linux

package sqlite

import "os"

// identity tells which file a file is.
type identity struct{ info os.FileInfo }

func (i identity) same(other identity) bool { return os.SameFile(i.info, other.info) }

// identify looks which file stands under a name.
func identify(name string) (identity, error) {
	info, err := os.Stat(name)
	if err != nil {
		return identity{}, err
	}
	os.SameFile(info, info) // Windows looks only now which file it is
	return identity{info}, nil
}
